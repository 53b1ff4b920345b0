"""Adds lists of settings, generated from the options, to docstrings."""

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.settings.algorithm import AlgorithmConfig
from xagents_ray.settings.options import Option, options

_F = TypeVar("_F", bound=Callable[..., Any])


def listing_settings(shared: Iterable[Option]) -> Callable[[_F], _F]:
    """Return a decorator that adds all settings to a function's docstring.

    Args:
        shared: settings shared by all agents, except those of `AlgorithmConfig`.
    """
    of_all = list(options(AlgorithmConfig))
    parts: dict[str, Iterable[Option]] = {"every agent": [*shared, *of_all]}
    for row in ALGORITHMS.values():
        parts[row.name] = [o for o in options(row.config) if o not in of_all]

    def add(function: _F) -> _F:
        text = textwrap.dedent(f"    {function.__doc__}")
        function.__doc__ = "\n".join((text.rstrip(), *_sections(parts)))
        return function

    return add


def _sections(parts: Mapping[str, Iterable[Option]]) -> Iterator[str]:
    for owner, known in parts.items():
        yield f"\nSettings of {owner}:"
        for each in sorted(known, key=lambda option: option.name):
            shown = "" if each.default is None else f"={each.default!r}"
            yield f"    {each.name}{shown}: {each.described}."
