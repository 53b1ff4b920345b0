"""The table of algorithms. Dotted paths are resolved when they are used."""

import importlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xagents_ray import moments
from xagents_ray.errors import UserError, near
from xagents_ray.hyperparameters import (
    A2CConfig,
    ACERConfig,
    AlgorithmConfig,
    DDPGConfig,
    DQNConfig,
    PPOConfig,
    TD3Config,
    TRPOConfig,
)
from xagents_ray.networks.layout import Layout, layout_for
from xagents_ray.spec import EnvSpec
from xagents_ray.trajectory import Array
from xagents_ray.weights import kind


@dataclass(frozen=True)
class Model:
    """One network of an algorithm.

    Attributes:
        name: `policy`, `critic`; its arrays are `policy/dense-0/kernel`, ….
        networks: default .cfg file, `{kind}` becomes `vector` or `image`.
        heads: its outputs: `actions` or one `value`.
        file: the config's field that names the user's .cfg file.
        judges_actions: it reads an observation vector and an action, side by side.
        has_log_std: it draws continuous actions, with a learnt standard deviation.
        gives_logits: a softmax that ends one of its outputs is left to who reads it.
    """

    name: str
    networks: str
    heads: tuple[str, ...]
    file: str = "model"
    judges_actions: bool = False
    has_log_std: bool = False
    gives_logits: bool = False

    def layout(self, file: str | None, spec: EnvSpec) -> Layout:
        """Return its network for an environment, from the user's file or our own."""
        units = {"actions": spec.action_units, "value": 1}
        outputs = [units[head] for head in self.heads]
        extra = spec.action_units if self.judges_actions else 0
        layout = layout_for(file, self.networks, spec, outputs, extra)
        return layout.without_softmax() if self.gives_logits else layout

    def own(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return its arrays within a learner's state, by their own names."""
        start = f"{self.name}/"
        return {
            name.removeprefix(start): array
            for name, array in arrays.items()
            if name.startswith(start)
        }


@dataclass(frozen=True)
class Algorithm:
    """One row.

    Attributes:
        name: as typed, `ppo`.
        config: its settings.
        learner: `module:class` of its learner.
        policy: `module:class` of the NumPy policy that acts for it.
        models: its networks, in the order of --weights and --checkpoints; the first
            one acts.
        on_policy: whether it learns from each round as it comes.
        replay: `module:class` of the replay that it learns from, or None.
        discrete: takes discrete actions.
        continuous: takes continuous actions.
    """

    name: str
    config: type[AlgorithmConfig]
    learner: str
    policy: str
    models: tuple[Model, ...]
    on_policy: bool
    replay: str | None
    discrete: bool
    continuous: bool

    def layout(self, file: str | None, spec: EnvSpec) -> Layout:
        """Return the network that acts, from the user's file or our own."""
        return self.models[0].layout(file, spec)

    def layouts(self, config: AlgorithmConfig, spec: EnvSpec) -> tuple[Layout, ...]:
        """Return its networks for an environment."""
        return tuple(
            model.layout(getattr(config, model.file), spec) for model in self.models
        )

    def extras(
        self, model: Model, config: AlgorithmConfig, spec: EnvSpec
    ) -> dict[str, tuple[int, ...]]:
        """Return the shapes of what a model's weights file holds beside the network."""
        extras: dict[str, tuple[int, ...]] = {}
        if model.has_log_std and not spec.is_discrete:
            extras["log_std"] = (spec.action_units,)
        if config.normalize_observations and model is self.models[0]:
            extras |= moments.shapes(spec.observation_shape)
        return extras

    def check_files(self, flag: str, paths: Sequence[str] | None) -> None:
        """Raise UserError when there is not one path of a known kind per model."""
        for path in paths or ():
            kind(path)
        if paths is not None and len(paths) != len(self.models):
            raise UserError(
                f"{flag} names {len(paths)} files and {self.name} has "
                f"{len(self.models)} model{'s'[: len(self.models) - 1]} "
                f"({', '.join(m.name for m in self.models)}): give one path for each."
            )

    def check_spaces(self, spec: EnvSpec) -> None:
        """Raise UserError when the algorithm can't take the spaces."""
        if self.discrete if spec.is_discrete else self.continuous:
            if any(model.judges_actions for model in self.models):
                self._check_judged(spec)
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

    def _check_judged(self, spec: EnvSpec) -> None:
        """Raise UserError when a critic can't read observations and actions."""
        bounds = (*spec.action_low, *spec.action_high)
        if spec.is_image:
            problem = "observation vectors and this environment gives images"
        elif not all(map(math.isfinite, bounds)):
            problem = "bounded actions and this environment's have no bounds"
        else:
            return
        raise UserError(f"{self.name} needs {problem}; use a2c, ppo or trpo.")


_POLICIES = "xagents_ray.actors.policies"
_LEARNERS = "xagents_ray.learners"
_TRANSITIONS = "xagents_ray.replay:TransitionReplay"
_TRAJECTORIES = "xagents_ray.trajectory_replay:TrajectoryReplay"
_BOTH = Model(
    "policy", "actor-critic-{kind}.cfg", ("actions", "value"), has_log_std=True
)
_ACTOR = Model("actor", "deterministic-{kind}.cfg", ("actions",), "actor_model")
_CRITIC = Model(
    "critic", "judge-{kind}.cfg", ("value",), "critic_model", judges_actions=True
)

ALGORITHMS = {
    row.name: row
    for row in (
        Algorithm(
            name="a2c",
            config=A2CConfig,
            learner=f"{_LEARNERS}.a2c:A2CLearner",
            policy=f"{_POLICIES}:ActorCriticPolicy",
            models=(_BOTH,),
            on_policy=True,
            replay=None,
            discrete=True,
            continuous=True,
        ),
        Algorithm(
            name="acer",
            config=ACERConfig,
            learner=f"{_LEARNERS}.acer:ACERLearner",
            policy=f"{_POLICIES}:CategoricalPolicy",
            models=(
                Model(
                    "policy",
                    "acer-{kind}.cfg",
                    ("actions", "actions"),
                    gives_logits=True,
                ),
            ),
            on_policy=True,
            replay=_TRAJECTORIES,
            discrete=True,
            continuous=False,
        ),
        Algorithm(
            name="ddpg",
            config=DDPGConfig,
            learner=f"{_LEARNERS}.ddpg:DDPGLearner",
            policy=f"{_POLICIES}:DeterministicPolicy",
            models=(_ACTOR, _CRITIC),
            on_policy=False,
            replay=_TRANSITIONS,
            discrete=False,
            continuous=True,
        ),
        Algorithm(
            name="dqn",
            config=DQNConfig,
            learner=f"{_LEARNERS}.dqn:DQNLearner",
            policy=f"{_POLICIES}:EpsilonGreedyPolicy",
            models=(Model("q", "q-{kind}.cfg", ("actions",)),),
            on_policy=False,
            replay=_TRANSITIONS,
            discrete=True,
            continuous=False,
        ),
        Algorithm(
            name="ppo",
            config=PPOConfig,
            learner=f"{_LEARNERS}.ppo:PPOLearner",
            policy=f"{_POLICIES}:ActorCriticPolicy",
            models=(_BOTH,),
            on_policy=True,
            replay=None,
            discrete=True,
            continuous=True,
        ),
        Algorithm(
            name="td3",
            config=TD3Config,
            learner=f"{_LEARNERS}.td3:TD3Learner",
            policy=f"{_POLICIES}:DeterministicPolicy",
            models=(_ACTOR, _CRITIC, replace(_CRITIC, name="critic-2")),
            on_policy=False,
            replay=_TRANSITIONS,
            discrete=False,
            continuous=True,
        ),
        Algorithm(
            name="trpo",
            config=TRPOConfig,
            learner=f"{_LEARNERS}.trpo:TRPOLearner",
            policy=f"{_POLICIES}:ActorCriticPolicy",
            models=(
                Model(
                    "actor",
                    "trpo-actor-{kind}.cfg",
                    ("actions",),
                    "actor_model",
                    has_log_std=True,
                ),
                Model("critic", "trpo-critic-{kind}.cfg", ("value",), "critic_model"),
            ),
            on_policy=True,
            replay=None,
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
