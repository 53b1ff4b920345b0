"""Adds the settings, generated from the options, to docstrings and signatures."""

import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.settings.algorithm import AlgorithmConfig
from xagents_ray.settings.options import Option, options

_F = TypeVar("_F", bound=Callable[..., Any])


def listing_settings(shared: Iterable[Option]) -> Callable[[_F], _F]:
    """Return a decorator that adds all settings to a function's docstring.

    They are in its signature too, so that a notebook completes their names.

    Args:
        shared: settings shared by all agents, except those of `AlgorithmConfig`.
    """
    of_all = list(options(AlgorithmConfig))
    parts: dict[str, Sequence[Option]] = {"every agent": [*shared, *of_all]}
    for row in ALGORITHMS.values():
        parts[row.name] = [o for o in options(row.config) if o not in of_all]

    def add(function: _F) -> _F:
        text = textwrap.dedent(f"    {function.__doc__}")
        function.__doc__ = "\n".join((text.rstrip(), *_sections(parts)))
        function.__signature__ = _signature(function, parts)  # type: ignore[attr-defined]
        return function

    return add


def _signature(
    function: Callable[..., Any], parts: Mapping[str, Iterable[Option]]
) -> inspect.Signature:
    """Return a function's signature with the settings before its `**settings`.

    Settings whose defaults depend on the agent have None.
    """
    *own, others = inspect.signature(function).parameters.values()
    defaults: dict[str, Any] = {}
    for each in (option for known in parts.values() for option in known):
        same = defaults.get(each.name, each.default) == each.default
        defaults[each.name] = each.default if same else None
    keyword = inspect.Parameter.KEYWORD_ONLY
    named = [
        inspect.Parameter(name, keyword, default=defaults[name])
        for name in sorted(defaults)
    ]
    return inspect.Signature([*own, *named, others])


def _sections(parts: Mapping[str, Iterable[Option]]) -> Iterator[str]:
    for owner, known in parts.items():
        yield f"\nSettings of {owner}:"
        for each in sorted(known, key=lambda option: option.name):
            shown = "" if each.default is None else f"={each.default!r}"
            yield f"    {each.name}{shown}: {each.described}."
