"""Write `public.pyi`: what type checkers know of `train` and `tune`.

`python -m xagents_ray.commands.typed` writes it again, from the options.
"""

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.commands.train import train
from xagents_ray.commands.tune import tune
from xagents_ray.settings.config import GROUPS
from xagents_ray.settings.options import Option, options
from xagents_ray.tuning.plan import tune_options

STUB = Path(__file__).with_name("public.pyi")
_HEAD = '''\
"""The settings of every agent; `python -m xagents_ray.commands.typed` writes this."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, overload

from typing_extensions import Unpack

from xagents_ray.algorithms.row import AgentName
from xagents_ray.compat.agents import Agent
from xagents_ray.watch.callbacks import OwnCallbacks
from xagents_ray.watch.result import Result
from xagents_ray.tuning.seeds_result import SeedsResult
from xagents_ray.settings.from_python import KerasOptimizer
from xagents_ray.tuning.space import Space
from xagents_ray.tuning.sweep import TuneResult
'''
_WIDTH, _INDENT = 88, " " * 4
TypeOf = Callable[[Option], str]


def stub() -> str:
    """Return the text of the stub."""
    shared = [each for group in GROUPS.values() for each in options(group)]
    parts = [
        *_command(train, "Result", shared, _type),
        *_command(tune, "TuneResult", tune_options(None), _type_to_vary),
    ]
    types = re.findall(r"(?m)^    \w+: (.+)$", "\n".join(parts))
    modules = {*re.findall(r"\b([a-z_][\w.]*)\.[A-Z]", "\n".join(types))}
    imports = "".join(f"import {module}\n" for module in sorted(modules))
    head = f"{_HEAD}{imports}\n{_compat()}"
    return "\n\n".join((head, *parts)) + "\n"


def _compat() -> str:
    """Return what the package has besides `train` and `tune` for scripts of xagents."""
    names = [row.name.upper() for row in ALGORITHMS.values()]
    public = "".join(f"{_INDENT}{_quoted(x)},\n" for x in (*names, "agents"))
    classes = "".join(f"class {name}(Agent): ...\n" for name in names)
    known = "agents: dict[str, dict[str, Any]]"
    return f"__all__ = [\n{public}]\n\n{known}\n\n{classes}".rstrip()


def _command(
    function: Callable[..., Any], result: str, shared: Iterable[Option], type_of: TypeOf
) -> Iterator[str]:
    """Yield the settings of a command, and its signature for each agent."""
    name = function.__name__
    base = f"{name.capitalize()}Settings"
    named = [
        f"{_INDENT}{each.name}: {inspect.formatannotation(each.annotation)}"
        for each in inspect.signature(function).parameters.values()
        if each.kind is each.KEYWORD_ONLY
    ]
    yield "\n".join((_settings(base, "TypedDict", shared, type_of), *named))
    overloads = []
    for row in ALGORITHMS.values():
        own = f"{name.capitalize()}{row.name.upper()}"
        yield _settings(own, base, options(row.config), type_of)
        overloads.append((f'Literal["{row.name}"]', f"Unpack[{own}]"))
    overloads.append(("AgentName", "Any"))
    kinds = {"": result}
    if function is train:
        kinds = {"*, seeds: Sequence[int], ": "SeedsResult", **kinds}
    yield "\n".join(
        _overload(name, f"agent: {agent}, {more}**settings: {own}", ends)
        for agent, own in overloads
        for more, ends in kinds.items()
    )


def _overload(name: str, parameters: str, result: str) -> str:
    """Return a signature in one line, or in three where it is too long."""
    line = f"def {name}({parameters}) -> {result}: ..."
    if len(line) <= _WIDTH:
        return f"@overload\n{line}"
    return f"@overload\ndef {name}(\n{_INDENT}{parameters}\n) -> {result}: ..."


def _settings(name: str, base: str, known: Iterable[Option], type_of: TypeOf) -> str:
    """Return a TypedDict of settings, each with its help."""
    lines = [f"class {name}({base}, total=False):"]
    # With `seeds`, `train` returns something else: it has signatures of its own.
    known = (each for each in known if each.name != "seeds")
    for each in sorted(known, key=lambda option: option.name):
        lines += [_field(each.name, type_of(each)), _help(each)]
    return "\n".join(lines)


def _field(name: str, kind: str) -> str:
    """Return an annotated name, its kinds below each other if they are too long."""
    line = f"{_INDENT}{name}: {kind}"
    if len(line) <= _WIDTH:
        return line
    kinds = f"\n{_INDENT * 2}| ".join(kind.split(" | "))
    return f"{_INDENT}{name}: (\n{_INDENT * 2}{kinds}\n{_INDENT})"


def _help(option: Option) -> str:
    """Return an option's help and default, as the docstring of its field."""
    default = "" if option.default is None else f" Default: {option.default}."
    text = f'"""{option.described}.{default}"""'
    return textwrap.fill(
        text, _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT
    )


def _type(option: Option, varies: bool = False) -> str:
    """Return what `train` takes for an option, or `tune` for one that varies."""
    one = "str | Path" if option.type is str else option.type.__name__
    if option.choices:
        one = f"Literal[{', '.join(map(_quoted, option.choices))}]"
    kinds = [one, "bool"] if option.bare else [one]
    if option.many or varies:
        kinds.append(f"Sequence[{one}]")
    if varies:
        kinds.append("Space")
    if option.takes:
        kinds.append(option.takes)
    if option.default is None:
        kinds.append("None")
    return " | ".join(kinds)


def _type_to_vary(option: Option) -> str:
    """Return what `tune` takes for an option."""
    return _type(option, varies=option.hp_type is not None)


def _quoted(word: str) -> str:
    return f'"{word}"'


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
