"""Importance-weighted actor-learner architecture."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from xagents_ray.algorithms.policy_gradient import ACTOR_CRITIC, OneStepConfig
from xagents_ray.algorithms.row import Algorithm, add
from xagents_ray.algorithms.trajectory_replay import OptionalReplayConfig
from xagents_ray.core.errors import UserError
from xagents_ray.settings.options import changed, option, positive


@dataclass(frozen=True, kw_only=True)
class IMPALAConfig(OptionalReplayConfig, OneStepConfig):
    """Importance-weighted actor-learner architecture, arXiv:1802.01561."""

    runs_free: ClassVar[bool] = True
    n_steps: int = changed(OneStepConfig, "n_steps", 20)
    grad_norm: float = changed(OneStepConfig, "grad_norm", 40.0)
    rho_clip: float = positive(
        1.0,
        "Largest importance ratio that weights V-trace's errors and the policy's "
        "gradient; a lower one draws values towards those of the policy that acted",
        known_as=("vtrace_clip_rho_threshold", "impala_trunc_rho_max", "rho_bar"),
    )
    c_clip: float = positive(
        1.0,
        "Largest importance ratio that passes V-trace's later errors back; a lower "
        "one reduces the variance and slows the values down",
        known_as=("vtrace_clip_c_threshold", "impala_trunc_c_max", "c_bar"),
    )
    replay_share: float = option(
        0.0,
        "Share of each update's trajectories that come from a replay buffer, beside "
        "those of the newest round; 0 for none",
        low=0,
        high=0.9,
        known_as=("replay_proportion",),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.replay_share and self.replay_ratio:
            raise UserError(
                "--replay-share replays within each update and --replay-ratio in "
                "updates of their own: drop one of them."
            )

    @property
    def replays(self) -> bool:
        """Whether it learns from a replay buffer."""
        return bool(self.replay_share) or super().replays

    @property
    def replayed_part(self) -> float:
        """Replayed trajectories for each fresh one."""
        return round(self.replay_share / (1 - self.replay_share), 6)

    def due(self, steps: int, generator: np.random.Generator) -> tuple[int, int]:
        """Return the rounds that an update takes part of, or draw their number."""
        if self.replay_share:
            return math.ceil(self.replayed_part), 0
        return super().due(steps, generator)

    def sampled_rows(self, n_envs: int, stack: int) -> int:
        """Return the observations that are drawn, about."""
        if self.replay_share:
            return math.ceil(self.replayed_part) * (self.n_steps + stack) * n_envs
        return super().sampled_rows(n_envs, stack)


add(
    Algorithm(
        name="impala",
        config=IMPALAConfig,
        learner="xagents_ray.learners.impala:IMPALA",
        policy="xagents_ray.actors.policies.actor_critic:ActorCriticPolicy",
        models=(ACTOR_CRITIC,),
        on_policy=True,
        replay="xagents_ray.replay.trajectories:TrajectoryReplay",
        multi_discrete=True,
    )
)
