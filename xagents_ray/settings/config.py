"""All settings of a run, by group. Defaults are written once, at the options."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_type_hints

from xagents_ray.core import objects
from xagents_ray.core.errors import UserError
from xagents_ray.settings.algorithm import AlgorithmConfig
from xagents_ray.settings.options import Checked, Option, check_known, options
from xagents_ray.settings.run import DisplayConfig, PlacementConfig, RunConfig
from xagents_ray.settings.training import (
    EnvConfig,
    PipelineConfig,
    TrainingConfig,
    free,
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

    def __post_init__(self) -> None:
        if self.env.env is None:
            raise UserError("--env is missing: name one, as in --env CartPole-v1.")
        if self.training.target_reward is None and self.training.max_steps is None:
            raise UserError(
                "Training needs an end: give --target-reward, --max-steps or both."
            )
        actors, envs = self.placement.n_actors, self.env.n_envs
        if actors is not None and actors > envs:
            raise UserError(
                f"--n-actors {actors} is more than --n-envs {envs}: each env actor "
                "needs an environment, so lower the one or raise the other."
            )
        values = self.values()
        for each in train_options(type(self.algorithm)):
            is_used = values[each.name] and values[each.name] != each.default
            if is_used and each.needs_ray and self.placement.local:
                raise UserError(
                    f"{each.flag} applies only to runs on Ray: drop it or --local."
                )
            if is_used and each.needs_max_steps and self.training.max_steps is None:
                raise UserError(f"{each.flag} falls to 0 over --max-steps: give it.")

    @property
    def objects(self) -> list[tuple[str, str]]:
        """The settings that may name objects besides environments, and the names."""
        return [*self.algorithm.objects, *objects.named("layer")]

    def values(self) -> dict[str, Any]:
        """Return all settings by their flat names."""
        groups = (getattr(self, name) for name in (*GROUPS, "algorithm"))
        return {name: value for group in groups for name, value in vars(group).items()}

    @classmethod
    def of(
        cls, algorithm: type[AlgorithmConfig], values: Mapping[str, Any]
    ) -> "Config":
        """Return the config with these field values, by their flat names.

        Raises:
            UserError: a name is unknown, a value is not allowed, or that many
                environments don't give a batch that training can learn from.
        """
        algorithm.check_names(values)
        if algorithm.runs_free and not values.get("local"):
            values = free(values)
        parts: dict[str, Any] = {name: g.of(values) for name, g in GROUPS.items()}
        own = algorithm.of(values)
        check_known(values, train_options(algorithm))
        config = cls(algorithm=own, **parts)
        own.check_batch(config.env.n_envs)
        return config


GROUPS: dict[str, type[Checked]] = {
    name: group for name, group in get_type_hints(Config).items() if name != "algorithm"
}
"""The fields of `Config` that every algorithm shares."""


def train_options(algorithm: type[AlgorithmConfig]) -> list[Option]:
    """Return the options of `train` for an algorithm."""
    return [o for group in (*GROUPS.values(), algorithm) for o in options(group)]
