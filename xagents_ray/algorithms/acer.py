"""Actor-critic with experience replay."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from xagents_ray.algorithms.families import ActorCriticConfig
from xagents_ray.algorithms.row import Algorithm, Model, add
from xagents_ray.core.errors import UserError
from xagents_ray.settings.algorithm import OneModel, ReplayConfig
from xagents_ray.settings.options import (
    changed,
    coefficient,
    fraction,
    option,
    positive,
)


@dataclass(frozen=True, kw_only=True)
class ACERConfig(OneModel, ReplayConfig, ActorCriticConfig):
    """Actor-critic with experience replay, arXiv:1611.01224."""

    entries: ClassVar[tuple[str, str]] = "trajectory", "trajectories"
    replaced: ClassVar[Mapping[str, str]] = {
        "rollout_length": "set the steps of a rollout with --n-steps",
        "train_frequency": "every rollout is learned from; set the updates from the "
        "replay buffer with --replay-ratio",
        "gradient_steps": "set the updates from the replay buffer with --replay-ratio",
    }
    buffer_max_size: int = changed(
        ReplayConfig,
        "buffer_max_size",
        unit="trajectories",
        help="Maximum replay buffer size, each trajectory --n-steps of one "
        "environment, of all environments together",
    )
    buffer_initial_size: int | None = changed(
        ReplayConfig,
        "buffer_initial_size",
        unit="trajectories",
        help="Replay buffer size at which learning from it starts; "
        "default: a tenth of the maximum",
    )
    buffer_batch_size: int = changed(
        ReplayConfig,
        "buffer_batch_size",
        1,
        unit="trajectories",
        help="Trajectories of each environment per update; only 1",
    )
    n_steps: int = changed(ActorCriticConfig, "n_steps", 20)
    grad_norm: float = changed(ActorCriticConfig, "grad_norm", 10.0)
    replay_ratio: float = option(
        4.0,
        "Mean number of updates from the replay buffer per rollout; the number "
        "is drawn from a Poisson distribution each time",
        low=0,
        unit="updates",
        hp_type="categorical",
        remedy_for="learning",
    )
    importance_c: float = coefficient(10.0, "Importance weight truncation parameter")
    epsilon: float = positive(
        1e-6,
        "Value added to what importance ratios and the trust region divide by, "
        "and to probabilities within logarithms",
    )
    trust_region: bool = option(
        True, "Keep the policy near an average of its past ones"
    )
    delta: float = coefficient(
        1.0, "Trust region's bound on how fast the policy leaves the average one"
    )
    kl_weight: float = coefficient(
        0.0,
        "Weight of the KL divergence from the average policy in the loss, in place of "
        "the trust region; 0 for the trust region",
        known_as=("acer_kl_weight",),
    )
    ema_alpha: float = fraction(
        0.99, "Decay of the average network, which moves after each update"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.buffer_batch_size != 1:
            raise UserError(
                f"--buffer-batch-size {self.buffer_batch_size}: ACER replays one "
                "trajectory of each environment per update, so leave it at 1 and set "
                "the number of updates with --replay-ratio."
            )

    def check_batch(self, n_envs: int) -> None:
        """Raise UserError when an environment could keep no trajectory."""
        super().check_batch(n_envs)
        if self.buffer_max_size < n_envs:
            raise UserError(
                f"--buffer-max-size {self.buffer_max_size} is less than one trajectory "
                f"for each of --n-envs {n_envs}: raise it to at least that."
            )

    def due(self, steps: int, generator: np.random.Generator) -> tuple[int, int]:
        """Draw the number of batches; no env steps are left over."""
        return int(generator.poisson(self.replay_ratio)), 0

    def sampled_rows(self, n_envs: int, stack: int) -> int:
        """Return the observations of about the most updates that are drawn."""
        most = self.replay_ratio + 6 * math.sqrt(self.replay_ratio) + 6
        return math.ceil(most) * (self.n_steps + stack) * n_envs


add(
    Algorithm(
        name="acer",
        config=ACERConfig,
        learner="xagents_ray.learners.acer:ACER",
        policy="xagents_ray.actors.policies.actor_critic:CategoricalPolicy",
        models=(
            Model(
                "policy", "acer-{kind}.cfg", ("actions", "actions"), gives_logits=True
            ),
        ),
        on_policy=True,
        replay="xagents_ray.replay.trajectories:TrajectoryReplay",
        continuous=False,
    )
)
