"""Settings of algorithms that learn from each round, and from old ones again."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from xagents_ray.algorithms.policy_gradient import PolicyGradientConfig
from xagents_ray.core.errors import UserError
from xagents_ray.settings.algorithm import ReplayConfig
from xagents_ray.settings.options import changed, flag, option


@dataclass(frozen=True, kw_only=True)
class TrajectoryReplayConfig(ReplayConfig, PolicyGradientConfig):
    """Settings of algorithms with a replay buffer of whole trajectories.

    Attributes:
        behavior: what the replay holds of the policies that acted: `probabilities` of
            all actions, or `log_probs` of those that were taken.
    """

    behavior: ClassVar[str] = "probabilities"
    entries: ClassVar[tuple[str, str]] = "trajectory", "trajectories"
    replaced: ClassVar[Mapping[str, str]] = {
        **PolicyGradientConfig.replaced,
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
    replay_ratio: float = option(
        4.0,
        "Mean number of updates from the replay buffer per rollout; the number "
        "is drawn from a Poisson distribution each time",
        low=0,
        unit="updates",
        hp_type="categorical",
        remedy_for="learning",
    )

    def check_batch(self, n_envs: int) -> None:
        """Raise UserError when an environment could keep no trajectory."""
        super().check_batch(n_envs)
        if self.replay is not None and self.buffer_max_size < n_envs:
            raise UserError(
                f"--buffer-max-size {self.buffer_max_size} is less than one trajectory "
                f"for each of --n-envs {n_envs}: raise it to at least that."
            )

    @property
    def replay_settings(self) -> tuple[str]:
        """What the replay holds of the policies that acted."""
        return (self.behavior,)

    def due(self, steps: int, generator: np.random.Generator) -> tuple[int, int]:
        """Draw the number of batches; no env steps are left over."""
        return int(generator.poisson(self.replay_ratio)), 0

    def sampled_rows(self, n_envs: int, stack: int) -> int:
        """Return the observations of about the most updates that are drawn."""
        most = self.replay_ratio + 6 * math.sqrt(self.replay_ratio) + 6
        return math.ceil(most) * (self.n_steps + stack) * n_envs


@dataclass(frozen=True, kw_only=True)
class OptionalReplayConfig(TrajectoryReplayConfig):
    """Settings of on-policy algorithms that replay trajectories on request.

    V-trace corrects for the policies that acted.
    """

    behavior: ClassVar[str] = "log_probs"
    replaced: ClassVar[Mapping[str, str]] = {
        **TrajectoryReplayConfig.replaced,
        "buffer_batch_size": "an update replays as many trajectories as a round has",
    }
    # No setting of these: the flags would have one value only.
    buffer_batch_size: ClassVar[int] = 1  # type: ignore[misc]
    buffer_max_size: int = changed(TrajectoryReplayConfig, "buffer_max_size", 1_000)
    replay_ratio: float = changed(
        TrajectoryReplayConfig,
        "replay_ratio",
        0.0,
        help="Mean number of updates from a replay buffer of trajectories per rollout, "
        "corrected by V-trace; the number is drawn from a Poisson distribution each "
        "time; 0 for no replay",
        replaces=("decoupled_loss",),  # of PPO
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        names = ("buffer_max_size", "buffer_initial_size", "replay_shards")
        unused = self.not_default(*names)
        if unused and not self.replays:
            raise UserError(
                f"{flag(unused[0])} is for a replay buffer: add --replay-ratio, or "
                "leave it out."
            )

    @property
    def replays(self) -> bool:
        """Whether it learns from a replay buffer."""
        return bool(self.replay_ratio)

    @property
    def replay(self) -> ReplayConfig | None:
        """Itself, if it learns from a replay buffer."""
        return self if self.replays else None
