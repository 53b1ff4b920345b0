"""The table of algorithms: one import per built-in algorithm, and plugins."""

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from xagents_ray.algorithms import (  # noqa: F401
    a2c,
    a3c,
    acer,
    ddpg,
    dqn,
    impala,
    ppo,
    sac,
    td3,
    trpo,
)
from xagents_ray.algorithms.definition import ALGORITHMS, Algorithm
from xagents_ray.algorithms.noisy_layers import NoisyLayers
from xagents_ray.core.errors import Mistakes, UserError, did_you_mean
from xagents_ray.core.plugins import load_plugins
from xagents_ray.settings.algorithm import AlgorithmConfig, RolloutGroup, groups_of
from xagents_ray.settings.config import GROUPS, train_options
from xagents_ray.settings.options import (
    Option,
    check_known,
    flag,
    options,
    plain_values,
)

__all__ = [
    "ALGORITHMS",
    "agents_with",
    "all_algorithms",
    "check_owners",
    "find_algorithm",
    "plain_settings",
    "plugin_failures",
    "register",
]

GROUP = "xagents_ray.algorithms"
"""Entry-point group of algorithms, `reinforce = own_algorithm.algorithm:ROW`."""
# A script may have imported some of the modules above before, in any order.
for _name in sorted(ALGORITHMS):
    ALGORITHMS[_name] = ALGORITHMS.pop(_name)
_OURS = frozenset(ALGORITHMS)


def all_algorithms() -> Mapping[str, Algorithm]:
    """Return all algorithms by name: built-in ones sorted, then plugins."""
    plugin_failures()
    return ALGORITHMS


def find_algorithm(name: str) -> Algorithm:
    """Return the named algorithm; UserError with similar names if there is none."""
    if not isinstance(name, str):
        raise _no_name(name)
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    if name in plugin_failures():
        raise UserError(plugin_failures()[name])
    if name not in all_algorithms():
        hint = (
            did_you_mean(name, all_algorithms())
            or f"; known: {', '.join(all_algorithms())}."
        )
        raise UserError(f"There is no agent {name!r}{hint}")
    return ALGORITHMS[name]


def _no_name(given: Any) -> UserError:
    """Return the error for an agent's name that isn't a string, such as a class."""
    word = getattr(given, "__name__", "").lower()
    name = word if word in all_algorithms() else "ppo"
    return UserError(
        f"An agent is given by its name, not as {given!r:.80}: pass {name!r}."
    )


def agents_with(
    name: str, among: Callable[[Option], bool] = lambda each: True
) -> list[str]:
    """Return the agents with the option `name`, if the predicate `among` accepts it."""
    return [
        agent
        for agent, row in all_algorithms().items()
        if any(each.name == name and among(each) for each in options(row.config))
    ]


def check_owners(row: Algorithm, names: Iterable[str]) -> None:
    """Raise UserError when a setting belongs to other agents only."""
    row.config.check_names(names)
    own = {word for o in options(row.config) for word in (o.name, *o.known_as)}
    for name in names:
        if name not in own and (others := agents_with(name)):
            raise UserError(
                f"{row.name} has no setting {name}, which is one of "
                f"{', '.join(others)}: leave it out."
            )


def plain_settings(
    row: Algorithm, given: Mapping[str, Any], mistakes: Mistakes
) -> dict[str, Any]:
    """Return an algorithm's settings of `train` as plain values.

    Args:
        row: the algorithm.
        given: settings by flat name.
        mistakes: collection that unknown settings and wrong values are added to.
    """
    known, values = train_options(row.config), dict[str, Any]()
    names = {each.name for each in known}
    for name, value in given.items():
        with mistakes:
            if name not in names:
                check_owners(row, [name])
                check_known([name], known)
            values |= plain_values(known, {name: value})
    return values


@functools.cache
def plugin_failures() -> Mapping[str, str]:
    """Register the plugins; return a sentence for each one that fails, by name."""
    return load_plugins(GROUP, lambda name, row: register(row))


def register(row: Any) -> None:
    """Register an algorithm, so that `train`, `tune` and so on find it by its name.

    For the command line, a package declares its algorithm as an entry point in the
    group `xagents_ray.algorithms`. An algorithm replaces an earlier one of the same
    name and module, so a notebook cell can run again.

    Args:
        row: the `Algorithm`; its classes may be defined in the script itself.
    Raises:
        UserError: the name is taken, or the algorithm is invalid.
    Example:
        >>> import dataclasses, xagents_ray
        >>> from xagents_ray.extend import find_algorithm
        >>> mine = dataclasses.replace(find_algorithm("dqn"), name="my-dqn")
        >>> xagents_ray.register(mine)
        >>> find_algorithm("my-dqn") is mine
        True
    """
    if not isinstance(row, Algorithm):
        raise UserError(
            f"{row!r:.80} is not an Algorithm of xagents_ray.extend: make one."
        )
    if problem := _problem(row):
        raise UserError(f"The algorithm {row.name!r} {problem}.")
    ALGORITHMS[row.name] = row


def _problem(row: Algorithm) -> str | None:
    """Return what is wrong with an algorithm and how to fix it; None if valid."""
    if not re.fullmatch("[a-z][a-z0-9_-]*", row.name):
        return "has a name that can't be typed: take a-z, 0-9, - and _"
    config: Any = row.config
    if not (isinstance(config, type) and issubclass(config, AlgorithmConfig)):
        return "has no config: make a dataclass that extends AlgorithmConfig"
    plain = [f.name for f in dataclasses.fields(config) if "facts" not in f.metadata]
    if plain:
        return f"has a setting {plain[0]} without option(): declare it with that"
    if not any(issubclass(group, RolloutGroup) for group in groups_of(config)):
        return "has rollouts of no length: add policy_gradient.n_steps to its config"
    if not row.models or len({model.name for model in row.models}) < len(row.models):
        return "needs at least one model, each with a name of its own"
    if NoisyLayers in groups_of(config) and row.models[0].adapt is None:
        return (
            "has the setting noisy and a first model that adds no noisy layers: give "
            "the model adapt=noisy_layers.add_noise"
        )
    own = {each.name for each in options(row.config)}
    if shared := own.intersection(x.name for g in GROUPS.values() for x in options(g)):
        return f"has a setting {flag(min(shared))}, as every run has: rename it"
    if files := {model.file for model in row.models} - own:
        return f"has a model whose file is the setting {min(files)!r}: add it to config"
    known = ALGORITHMS.get(row.name)
    if known is not None and (row.name in _OURS or _home(known) != _home(row)):
        there = f"{_home(row)} can't replace that of {_home(known)}"
        return f"of {there}: choose another name"
    return None


def _home(row: Algorithm) -> str:
    """Return the module of an algorithm's learner, which identifies its owner."""
    place = row.learner
    return place.partition(":")[0] if isinstance(place, str) else place.__module__
