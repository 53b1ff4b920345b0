"""Importance-weighted actor-learner architecture."""

import math
from dataclasses import dataclass

import numpy as np

from xagents_ray.algorithms import (
    critic_inputs,
    noisy_layers,
    policy_gradient,
    recurrent_layers,
    state_dependent,
    trajectory_replay,
)
from xagents_ray.algorithms.definition import Algorithm, add_algorithm
from xagents_ray.algorithms.policy_gradient import ACTOR_CRITIC
from xagents_ray.algorithms.trajectory_replay import OptionalReplayGroup
from xagents_ray.core.errors import UserError
from xagents_ray.settings import learning, models, replay
from xagents_ray.settings.algorithm import AlgorithmConfig
from xagents_ray.settings.options import option, positive


def _replayed_part(share: float) -> float:
    return round(share / (1 - share), 6)


@dataclass(frozen=True, kw_only=True)
class ImpalaTrajectories(OptionalReplayGroup):
    """Settings for replay, either mixed into each update or in separate updates."""

    replay_share: float

    def check_settings(self) -> None:
        """Raise UserError when both kinds of replay are enabled."""
        super().check_settings()
        if self.replay_share and self.replay_ratio:
            raise UserError(
                "--replay-share replays within each update and --replay-ratio in "
                "updates of their own: drop one of them."
            )

    @property
    def is_used(self) -> bool:
        """Whether the algorithm learns from a replay buffer."""
        return bool(self.replay_share) or super().is_used

    def due(self, steps: int, generator: np.random.Generator) -> tuple[int, int]:
        """Return the rounds to sample for one update, or draw the number of updates."""
        if self.replay_share:
            return math.ceil(_replayed_part(self.replay_share)), 0
        return super().due(steps, generator)

    def sampled_rows(self, n_envs: int, stack: int) -> int:
        """Return the approximate number of observations that are sampled."""
        if self.replay_share:
            rounds = math.ceil(_replayed_part(self.replay_share))
            return rounds * (self.n_steps + stack) * n_envs
        return super().sampled_rows(n_envs, stack)


@dataclass(frozen=True, kw_only=True)
class IMPALAConfig(AlgorithmConfig):
    """Importance-weighted actor-learner architecture, arXiv:1802.01561."""

    replaced = trajectory_replay.OPTIONAL_REPLACED
    reads_values = False  # the learner recomputes them
    runs_free = True

    gamma: float = learning.gamma(0.99)
    optimizer: str = learning.optimizer("adam")
    lr: float | str = learning.lr(7e-4)
    beta1: float = learning.beta1(0.9)
    beta2: float = learning.beta2(0.999)
    opt_epsilon: float = learning.opt_epsilon(1e-7)
    precision: str = learning.precision("float32")
    lr_decay: bool = learning.lr_decay(False)
    normalize_observations: bool = learning.normalize_observations(False)
    normalize_rewards: bool = learning.normalize_rewards(False)

    feature_maker: str | None = models.feature_maker(None)
    model: str | None = models.model(None)
    separate_networks: bool = policy_gradient.separate_networks(False)
    critic_inputs: str | None = critic_inputs.critic_inputs(None)
    memory: str | None = recurrent_layers.memory(None)

    n_steps: int = policy_gradient.n_steps(20)
    entropy_coef: float | str = policy_gradient.entropy_coef(0.01)
    grad_norm: float = policy_gradient.grad_norm(40.0)
    value_loss_coef: float = policy_gradient.value_loss_coef(0.5)
    lam: float = policy_gradient.lam(1.0)
    normalize_advantages: bool = policy_gradient.normalize_advantages(False)
    advantage_epsilon: float = policy_gradient.advantage_epsilon(1e-8)
    action_scaling: bool = policy_gradient.action_scaling(True)
    init_log_std: float = state_dependent.init_log_std(0.0)
    sde_frequency: int | None = state_dependent.sde_frequency(None)
    noisy: str | None = noisy_layers.noisy(None)
    noisy_sigma: float | None = noisy_layers.noisy_sigma(None)

    buffer_max_size: int = trajectory_replay.max_trajectories(1_000)
    buffer_initial_size: int | None = trajectory_replay.initial_trajectories(None)
    replay_shards: int = replay.replay_shards(1)
    replay_ratio: float = trajectory_replay.optional_replay_ratio(
        0.0, group=ImpalaTrajectories
    )
    online_learning: bool = trajectory_replay.online_learning(True)

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

    @property
    def replayed_part(self) -> float:
        """Number of replayed trajectories per fresh one."""
        return _replayed_part(self.replay_share)


add_algorithm(
    Algorithm(
        name="impala",
        config=IMPALAConfig,
        learner="xagents_ray.learners.impala:IMPALA",
        policy="xagents_ray.actors.policies.actor_critic:ActorCriticPolicy",
        models=(ACTOR_CRITIC,),
        on_policy=True,
        action_masks=True,
        recurrent=True,
        replay="xagents_ray.replay.trajectories:TrajectoryReplay",
        multi_discrete=True,
    )
)
