"""Generates `public.pyi`, the type stubs of `train` and `tune`, from the options.

Run `python -m xagents_ray.commands.typed` to update it.
"""

import inspect
import re
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.commands.train import train
from xagents_ray.commands.tune import tune
from xagents_ray.settings.algorithm import AlgorithmConfig
from xagents_ray.settings.config import train_options
from xagents_ray.settings.options import Option
from xagents_ray.tuning.plan import tune_options

STUB = Path(__file__).with_name("public.pyi")
_HEAD = '''\
"""The settings of every agent; `python -m xagents_ray.commands.typed` writes this."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, overload

from typing_extensions import Unpack

from xagents_ray.algorithms.definition import AgentName
from xagents_ray.compat.agent import CompatAgent
from xagents_ray.core.schedule import ScheduleLike
from xagents_ray.watch.callbacks import OwnCallbacks
from xagents_ray.watch.result import Result
from xagents_ray.tuning.seeds_result import SeedsResult
from xagents_ray.settings.from_python import KerasOptimizer
from xagents_ray.tuning.space import Space
from xagents_ray.tuning.sweep import TuneResult
'''
_OF_FILE = "config: str | Path, "
_WIDTH, _INDENT = 88, " " * 4
TypeOf = Callable[[Option], str]


def stub_text() -> str:
    settings = {
        **dict(_settings(train, train_options, _type)),
        **dict(_settings(tune, tune_options, _type_to_vary)),
    }
    parts = [
        *_dicts(settings),
        _overloads(train, "Result"),
        _overloads(tune, "TuneResult"),
    ]
    types = re.findall(r"(?m)^    \w+: (.+)$", "\n".join(parts))
    modules = {*re.findall(r"\b([a-z_][\w.]*)\.[A-Z]", "\n".join(types))}
    imports = "".join(f"import {module}\n" for module in sorted(modules))
    head = f"{_HEAD}{imports}\n{_compat()}"
    return "\n\n".join((head, *parts)) + "\n"


def _compat() -> str:
    """Return stubs of the package's names for scripts written for xagents."""
    names = [row.name.upper() for row in ALGORITHMS.values()]
    public = "".join(f"{_INDENT}{_quoted(x)},\n" for x in (*names, "agents"))
    classes = "".join(f"class {name}(CompatAgent): ...\n" for name in names)
    known = "agents: dict[str, dict[str, Any]]"
    return f"__all__ = [\n{public}]\n\n{known}\n\n{classes}".rstrip()


def _settings(
    function: Callable[..., Any],
    known: Callable[[type[AlgorithmConfig]], Iterable[Option]],
    type_of: TypeOf,
) -> Iterator[tuple[str, list[str]]]:
    """Yield each agent's TypedDict for a command: its name and its fields."""
    named = [
        f"{_INDENT}{each.name}: {inspect.formatannotation(each.annotation)}"
        for each in inspect.signature(function).parameters.values()
        if each.kind is each.KEYWORD_ONLY and each.annotation is not each.empty
    ]
    for row in ALGORITHMS.values():
        # `train` has separate overloads for `seeds`, with another return type.
        own = [each for each in known(row.config) if each.name != "seeds"]
        fields = [f"{_field(each.name, type_of(each))}\n{_help(each)}" for each in own]
        yield _name(function, row), sorted(fields) + named


def _name(function: Callable[..., Any], row: Algorithm) -> str:
    return f"{function.__name__.capitalize()}{row.name.upper()}"


def _dicts(settings: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Yield the TypedDicts; fields that several have are in a shared base class."""
    users, groups = defaultdict(list), defaultdict(list)
    for name, fields in settings.items():
        for field in fields:
            users[field].append(name)
    for field, names in users.items():
        groups[tuple(names)].append(field)
    bases: dict[str, list[str]] = {name: [] for name in settings}
    for together in [names for names in groups if len(names) > 1]:
        yield _dict(_group(together), ["TypedDict"], groups[together])
        for name in together:
            bases[name].append(_group(together))
    for name, own in bases.items():
        yield _dict(name, own, groups[name,])


def _group(names: Sequence[str]) -> str:
    """Return a name for the shared base of these: `Train_A2C_PPO`, or `Both_PPO`."""
    found = [re.fullmatch("(Train|Tune)(.+)", name) for name in names]
    commands = list(dict.fromkeys(each[1] for each in found if each))
    agents = list(dict.fromkeys(each[2] for each in found if each))
    if len(names) < len(commands) * len(agents):
        return "_".join(names)
    command = commands[0] if len(commands) == 1 else "Both"
    return "_".join([command, *(agents if len(agents) < len(ALGORITHMS) else ["All"])])


def _dict(name: str, bases: Sequence[str], fields: Sequence[str]) -> str:
    head = f"class {name}({', '.join((*bases, 'total=False'))}):"
    head = textwrap.fill(head, _WIDTH, subsequent_indent=_INDENT)
    return "\n".join((head, *(fields or [f"{_INDENT}..."])))


def _overloads(function: Callable[..., Any], result: str) -> str:
    """Return a command's overloads, one or two per agent and for a file's agent."""
    agents = [
        (f'agent: Literal["{row.name}"]', "", f"Unpack[{_name(function, row)}]")
        for row in ALGORITHMS.values()
    ]
    others = ("agent: AgentName", "", "Any"), ("agent: None = None", _OF_FILE, "Any")
    kinds = {"": result}
    if function is train:
        kinds = {"seeds: Sequence[int], ": "SeedsResult", **kinds}
    found = []
    for agent, required, settings in (*agents, *others):
        for seeds, ends in kinds.items():
            named = f"*, {seeds}{required}" if seeds or required else ""
            parameters = f"{agent}, {named}**settings: {settings}"
            found.append(_overload(function.__name__, parameters, ends))
    return "\n".join(found)


def _overload(name: str, parameters: str, result: str) -> str:
    """Return an overload on one line, or on three if it is too long."""
    line = f"def {name}({parameters}) -> {result}: ..."
    if len(line) <= _WIDTH:
        return f"@overload\n{line}"
    return f"@overload\ndef {name}(\n{_INDENT}{parameters}\n) -> {result}: ..."


def _field(name: str, kind: str) -> str:
    """Return an annotated name, with one type per line if they are too long."""
    line = f"{_INDENT}{name}: {kind}"
    if len(line) <= _WIDTH:
        return line
    kinds = f"\n{_INDENT * 2}| ".join(kind.split(" | "))
    return f"{_INDENT}{name}: (\n{_INDENT * 2}{kinds}\n{_INDENT})"


def _help(option: Option) -> str:
    """Return the docstring of an option's field: its help and default."""
    default = "" if option.default is None else f" Default: {option.default}."
    text = f'"""{option.described}.{default}"""'
    return textwrap.fill(
        text, _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT
    )


def _type(option: Option, varies: bool = False) -> str:
    """Return the type of an option, including search spaces if it `varies`."""
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
    """Return the type of an option in `tune`."""
    return _type(option, varies=option.hp_type is not None)


def _quoted(word: str) -> str:
    return f'"{word}"'


if __name__ == "__main__":
    STUB.write_text(stub_text(), encoding="utf-8")
