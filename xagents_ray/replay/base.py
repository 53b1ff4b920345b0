"""The base class of replay buffers: ring buffers in preallocated memory."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

import numpy as np

from xagents_ray.core.trajectory import (
    Array,
    BoolArray,
    Fill,
    FloatArray,
    IntArray,
    Replayed,
    Trajectory,
    Transitions,
)

GoalRewardFunction = Callable[
    [FloatArray, FloatArray, Array | None], tuple[FloatArray, BoolArray | None]
]
"""Function of achieved and desired goals, float32 [N, G] each, and stored infos.

The infos are float64 [N, info_size], or None if nothing reads them. It returns rewards,
float32 [N], and terminations, bool [N], or None if unknown.
"""
_STATE_BYTES = 512
"""Size of a generator's state as JSON, with padding."""


class Replay(ABC):
    """A replay buffer with preallocated arrays."""

    _observations: Array
    _random: np.random.Generator
    goal_rewards: GoalRewardFunction | None = None  # for a replay that relabels goals

    @property
    @abstractmethod
    def fill(self) -> Fill: ...

    @abstractmethod
    def insert(self, trajectory: Trajectory) -> None:
        """Copy a trajectory in, overwriting the oldest contents."""

    @abstractmethod
    def sample(self, batches: int, batch_size: int) -> Transitions | Replayed:
        """Draw K batches with replacement.

        Args:
            batches: number of batches, K.
            batch_size: number of transitions, or of trajectories per environment.
        Raises:
            ValueError: the replay is empty.
        """

    def update(self, rows: IntArray, errors: FloatArray) -> int:
        """Update the errors of sampled transitions; return how many were overwritten.

        Args:
            rows: int64 [M, 2], see `Transitions`.
            errors: float32 [M], differences from the learning targets.
        """
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        """Total size in bytes."""
        return sum(array.nbytes for array in self._rings().values())

    def commit(self) -> None:
        """Commit the observations' memory now, so that it can't run out hours later."""
        self._observations.fill(0)

    def restore_generator(self, arrays: Mapping[str, Array]) -> None:
        """Restore the generator from `arrays`, after the rings were filled."""
        self._random.bit_generator.state = json.loads(bytes(arrays["random"]))

    def arrays(self) -> dict[str, Array]:
        """Return all contents by name: the rings and the generator's state."""
        state = json.dumps(self._random.bit_generator.state).encode()
        random = np.frombuffer(state.ljust(_STATE_BYTES), np.uint8).copy()
        return self._rings() | {"random": random}

    def _rings(self) -> dict[str, Array]:
        kept = {k: v for k, v in vars(self).items() if isinstance(v, np.ndarray)}
        return {name.removeprefix("_"): v for name, v in kept.items()}


def env_quotas(capacity: int, n_envs: int) -> Array:
    """Return each environment's share of the capacity, int64 [B]."""
    shares = np.full(n_envs, capacity // n_envs)
    shares[: capacity % n_envs] += 1
    return shares
