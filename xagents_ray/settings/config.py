"""All settings of a run, by group."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, get_type_hints

from xagents_ray.core.errors import Mistakes, UserError
from xagents_ray.settings.algorithm import AlgorithmConfig
from xagents_ray.settings.console import DisplayConfig
from xagents_ray.settings.options import Checked, Option, check_known, options
from xagents_ray.settings.resources import AUTO_ACTORS, PlacementConfig
from xagents_ray.settings.run import RunConfig
from xagents_ray.settings.training import (
    EnvConfig,
    PipelineConfig,
    TrainingConfig,
    free_running,
)


@dataclass(frozen=True, kw_only=True)
class Config:
    """All settings of one run."""

    algorithm: AlgorithmConfig
    env: EnvConfig = field(default_factory=EnvConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    run: RunConfig = field(default_factory=RunConfig)
    display: DisplayConfig = field(default_factory=DisplayConfig)
    pipeline: PipelineConfig = field(default_factory=PipelineConfig)
    placement: PlacementConfig = field(default_factory=PlacementConfig)

    def groups(self) -> dict[str, dict[str, Any]]:
        """Return all settings by group and name."""
        names = *GROUPS, "algorithm"
        return {name: _values(getattr(self, name)) for name in names}

    def values(self) -> dict[str, Any]:
        """Return all settings by their flat names."""
        return {k: v for group in self.groups().values() for k, v in group.items()}

    @classmethod
    def of(
        cls, algorithm: type[AlgorithmConfig], values: Mapping[str, Any]
    ) -> "Config":
        """Return the config with the given values, by flat name.

        Raises:
            UserError: names are unknown, or values are invalid or contradict each
                other; the message lists all problems.
        """
        algorithm.check_names(values)
        if algorithm.runs_free and not values.get("local"):
            values = free_running(values)
        known, mistakes = train_options(algorithm), Mistakes()
        parts: dict[str, Any] = {}
        for name, group in (*GROUPS.items(), ("algorithm", algorithm)):
            with mistakes:
                parts[name] = group.of(values)
        with mistakes:
            check_known(values, known)
        right = {k: v for part in parts.values() for k, v in _values(part).items()}
        mistakes.found += _misfits(known, right)
        if "algorithm" in parts and "env" in parts:
            with mistakes:
                parts["algorithm"].check_batch(parts["env"].n_envs)
        mistakes.report()
        return cls(**parts)


def _values(part: Any) -> dict[str, Any]:
    return {each.name: getattr(part, each.name) for each in fields(part)}


def _misfits(known: Iterable[Option], values: Mapping[str, Any]) -> Iterator[UserError]:
    """Yield errors about conflicts between groups, given the valid values."""
    actors, envs = values.get("n_actors"), values.get("n_envs")
    if isinstance(actors, int) and envs is not None and actors > envs:
        yield UserError(
            f"--n-actors {actors} is more than --n-envs {envs}: each env actor "
            "needs an environment, so lower the one or raise the other."
        )
    if values.get("inference") == "learner" and actors == AUTO_ACTORS:
        yield UserError(
            "--inference learner computes for as many env actors as there are at the "
            "start: give --n-actors a number, or take another --inference."
        )
    if values.get("inference") == "learner" and values.get("noise") == "parameter":
        yield UserError(
            "--noise parameter gives each environment a network of its own, which the "
            "learner can't compute: take another noise, or --inference actor."
        )
    if (values.get("n_learners") or 0) > 1 and values.get("jit") == "on":
        yield UserError(
            "--n-learners sums over learners, which XLA can't compile on CPUs: leave "
            "out --jit on."
        )
    ends = "max_steps" not in values or values["max_steps"] is not None
    for each in known:
        if values.get(each.name) in (None, False, 0, each.default):
            continue
        if each.needs_ray and values.get("local"):
            yield UserError(
                f"{each.flag} applies only to runs on Ray: drop it or --local."
            )
        if each.needs_max_steps and not ends:
            yield UserError(f"{each.flag} falls to 0 over --max-steps: give it.")
        if each.scheduled and isinstance(values[each.name], str) and not ends:
            yield UserError(f"{each.flag} changes over --max-steps: give it.")


GROUPS: dict[str, type[Checked]] = {
    name: group for name, group in get_type_hints(Config).items() if name != "algorithm"
}
"""The fields of `Config` that every algorithm shares."""


def train_options(algorithm: type[AlgorithmConfig]) -> list[Option]:
    """Return the options of the `train` command for an algorithm."""
    return [o for group in (*GROUPS.values(), algorithm) for o in options(group)]


def replaced_settings(
    known: Iterable[Option], given: Mapping[str, Any]
) -> dict[str, Option]:
    """Return the ineffective settings, each with the user's option replacing it."""
    return {
        name: each
        for each in known
        if given.get(each.name) not in (None, each.default)
        for name in each.replaces
    }


def placed_settings(
    config: type[AlgorithmConfig], stored: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return stored settings without those that a new placement replaces."""
    on_ray = {each.name for each in train_options(config) if each.needs_ray}
    if not {"local", *on_ray} & given.keys():
        return dict(stored)
    ends = {"local"}
    if given.get("local"):
        # A local run can't be asynchronous: it acts and learns in turn.
        free = [each.name for each in options(PipelineConfig)]
        ends = on_ray.union(free if stored.get("asynchronous") else ())
    return {k: v for k, v in stored.items() if k not in ends}
