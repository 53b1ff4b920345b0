"""Options of on-policy algorithms with a replay buffer of trajectories."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from xagents_ray.core.errors import UserError
from xagents_ray.settings import replay
from xagents_ray.settings.algorithm import ReplayGroup
from xagents_ray.settings.options import flag, option, shared

REPLACED: Mapping[str, str] = {
    "rollout_length": "set the steps of a rollout with --n-steps",
    "train_frequency": "every rollout is learned from; set the updates from the "
    "replay buffer with --replay-ratio",
    "gradient_steps": "set the updates from the replay buffer with --replay-ratio",
    "batch_size": "an update learns from one trajectory of --n-steps of each "
    "environment; set their number with --n-envs",
}
"""Settings that algorithms with a trajectory replay lack, and what to use instead."""
OPTIONAL_REPLACED: Mapping[str, str] = {
    **REPLACED,
    "buffer_batch_size": "an update replays as many trajectories as a round has",
}
"""Settings that algorithms with an optional replay lack, and what to use instead."""


@dataclass(frozen=True, kw_only=True)
class TrajectoryReplayGroup(ReplayGroup):
    """Settings of a replay buffer of whole trajectories.

    Attributes:
        behavior: behavior-policy data in the replay: `probabilities` of all actions,
            or `log_probs` of the selected ones.
    """

    behavior: ClassVar[str] = "probabilities"
    entries: ClassVar[tuple[str, str]] = "trajectory", "trajectories"
    n_steps: int
    replay_ratio: float
    online_learning: bool = True

    @property
    def learns_online(self) -> bool:
        """Whether the algorithm learns from each round when it arrives."""
        return self.online_learning

    def check_settings(self) -> None:
        """Raise UserError when nothing would be learned from."""
        super().check_settings()
        if not (self.online_learning or self.replay_ratio):
            raise UserError(
                "--no-online-learning leaves only the replay buffer to learn from: add "
                "--replay-ratio, or leave it out."
            )

    def check_batch(self, n_envs: int) -> None:
        """Raise UserError when the buffer can't hold a trajectory per environment."""
        super().check_batch(n_envs)
        if self.is_used and self.buffer_max_size < n_envs:
            raise UserError(
                f"--buffer-max-size {self.buffer_max_size} is less than one trajectory "
                f"for each of --n-envs {n_envs}: raise it to at least that."
            )

    @property
    def arguments(self) -> tuple[str]:
        """Name of the behavior-policy data in the replay."""
        return (self.behavior,)

    def due(self, steps: int, generator: np.random.Generator) -> tuple[int, int]:
        """Draw the number of batches; no env steps are left over."""
        return int(generator.poisson(self.replay_ratio)), 0

    def sampled_rows(self, n_envs: int, stack: int) -> int:
        """Return the observations of the largest number of updates to expect."""
        most = self.replay_ratio + 6 * math.sqrt(self.replay_ratio) + 6
        return math.ceil(most) * (self.n_steps + stack) * n_envs


@dataclass(frozen=True, kw_only=True)
class OptionalReplayGroup(TrajectoryReplayGroup):
    """Settings of on-policy algorithms that replay trajectories on request.

    V-trace corrects for the behavior policies.
    """

    behavior: ClassVar[str] = "log_probs"

    def check_settings(self) -> None:
        """Raise UserError when an unused replay buffer is configured."""
        super().check_settings()
        unused = self.config.not_default(
            "buffer_max_size", "buffer_initial_size", "replay_shards"
        )
        if unused and not self.is_used:
            raise UserError(
                f"{flag(unused[0])} is for a replay buffer: add --replay-ratio, or "
                "leave it out."
            )

    @property
    def is_used(self) -> bool:
        """Whether the algorithm learns from a replay buffer."""
        return bool(self.replay_ratio)


max_trajectories = shared(
    replay.buffer_max_size,
    "Maximum replay buffer size, each trajectory --n-steps of one "
    "environment, of all environments together",
    unit="trajectories",
    common=False,
)
initial_trajectories = shared(
    replay.buffer_initial_size,
    "Replay buffer size at which learning from it starts; "
    "default: a tenth of the maximum",
    unit="trajectories",
)
replay_ratio = shared(
    option,
    "Mean number of updates from the replay buffer per rollout; the number "
    "is drawn from a Poisson distribution each time",
    low=0,
    unit="updates",
    hp_type="categorical",
    remedy_for="learning",
    group=TrajectoryReplayGroup,
    common=True,
)
optional_replay_ratio = shared(
    replay_ratio,
    "Mean number of updates from a replay buffer of trajectories per rollout, "
    "corrected by V-trace; the number is drawn from a Poisson distribution each "
    "time; 0 for no replay",
    replaces=("decoupled_loss",),  # PPO's setting
    group=OptionalReplayGroup,
    common=False,
)
online_learning = shared(
    option,
    "Learn from each rollout when it arrives; --no-online-learning learns from the "
    "replay buffer alone",
)
