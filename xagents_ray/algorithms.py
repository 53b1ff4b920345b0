"""The table of algorithms. Dotted paths are resolved when they are used."""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xagents_ray.errors import UserError, near
from xagents_ray.hyperparameters import AlgorithmConfig, DQNConfig, PPOConfig
from xagents_ray.networks.layout import Layout, layout_for
from xagents_ray.spec import EnvSpec
from xagents_ray.trajectory import Array


@dataclass(frozen=True)
class Algorithm:
    """One row.

    Attributes:
        name: as typed, `ppo`.
        config: its settings.
        learner: `module:class` of its learner.
        policy: `module:class` of the NumPy policy that acts for it.
        networks: default networks, `{kind}` becomes `vector` or `image`.
        heads: what the network's outputs are: `actions` or one `value`.
        models: names of its networks, in the order of --weights and --checkpoints.
        replay: whether it learns from a replay service.
        discrete: takes discrete actions.
        continuous: takes continuous actions.
    """

    name: str
    config: type[AlgorithmConfig]
    learner: str
    policy: str
    networks: str
    heads: tuple[str, ...]
    models: tuple[str, ...]
    replay: bool
    discrete: bool
    continuous: bool

    def layout(self, model: str | None, spec: EnvSpec) -> Layout:
        """Return the network for an environment, from the user's file or our own."""
        units = {"actions": spec.action_units, "value": 1}
        return layout_for(model, self.networks, spec, [units[h] for h in self.heads])

    def extras(self, spec: EnvSpec) -> dict[str, tuple[int, ...]]:
        """Return the shapes of what a weights file holds beside the network."""
        if spec.is_discrete or "value" not in self.heads:
            return {}
        return {"log_std": (spec.action_units,)}

    @staticmethod
    def model_arrays(model: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return a model's arrays within a learner's state, by their own names."""
        start = f"{model}/"
        return {
            name.removeprefix(start): array
            for name, array in arrays.items()
            if name.startswith(start)
        }

    def check_files(self, flag: str, paths: Sequence[str] | None) -> None:
        """Raise UserError when there is not one path per model."""
        if paths is not None and len(paths) != len(self.models):
            raise UserError(
                f"{flag} names {len(paths)} files and {self.name} has "
                f"{len(self.models)} model{'s'[: len(self.models) - 1]} "
                f"({', '.join(self.models)}): give one path for each."
            )

    def check_actions(self, spec: EnvSpec) -> None:
        """Raise UserError when the algorithm can't take the action space."""
        if self.discrete if spec.is_discrete else self.continuous:
            return
        has = "discrete" if spec.is_discrete else "continuous"
        fit = [
            row.name
            for row in ALGORITHMS.values()
            if (row.discrete if spec.is_discrete else row.continuous)
        ]
        raise UserError(
            f"{self.name} can't take the {has} actions of this environment; "
            f"use {' or '.join(fit)}."
        )


ALGORITHMS = {
    row.name: row
    for row in (
        Algorithm(
            name="dqn",
            config=DQNConfig,
            learner="xagents_ray.learners.dqn:DQNLearner",
            policy="xagents_ray.actors.policies:EpsilonGreedyPolicy",
            networks="q-{kind}.cfg",
            heads=("actions",),
            models=("q",),
            replay=True,
            discrete=True,
            continuous=False,
        ),
        Algorithm(
            name="ppo",
            config=PPOConfig,
            learner="xagents_ray.learners.ppo:PPOLearner",
            policy="xagents_ray.actors.policies:ActorCriticPolicy",
            networks="actor-critic-{kind}.cfg",
            heads=("actions", "value"),
            models=("policy",),
            replay=False,
            discrete=True,
            continuous=True,
        ),
    )
}


def find(name: str) -> Algorithm:
    """Return the row of this name; UserError with near names when there is none."""
    if name not in ALGORITHMS:
        hint = near(name, ALGORITHMS) or f"; known: {', '.join(ALGORITHMS)}."
        raise UserError(f"There is no agent {name!r}{hint}")
    return ALGORITHMS[name]


def resolve(path: str) -> Any:
    """Return what `module:name` names."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)
