"""The base class of replay buffers: ring buffers in preallocated memory."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xagents_ray.core.trajectory import (
    Array,
    BoolArray,
    Fill,
    FloatArray,
    IntArray,
    Observations,
    Replayed,
    Trajectory,
    Transitions,
    arrays_of,
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

    _observations: Observations
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
        for rings in arrays_of(self._observations):
            rings.fill(0)

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
        rings = {name.removeprefix("_"): v for name, v in kept.items()}
        if isinstance(self._observations, dict):
            rings |= named_rings("observations", self._observations)
        return rings


def named_rings(name: str, rings: Observations) -> dict[str, Array]:
    """Return arrays by the name of their field, and that of each of a dict's arrays."""
    if not isinstance(rings, dict):
        return {name: rings}
    return {f"{name}/{own}": each for own, each in rings.items()}


def empty_rings(types: Any, shape: tuple[int, ...]) -> Any:
    """Return arrays of zeros for values of a type of `field_types`.

    Args:
        types: dtype and shape of one value, or a dict of them by name.
        shape: shape of the dimensions before the value's.
    """
    if isinstance(types, dict):
        return {name: empty_rings(each, shape) for name, each in types.items()}
    dtype, own = types
    return np.zeros((*shape, *own), dtype)


def env_quotas(capacity: int, n_envs: int) -> Array:
    """Return each environment's share of the capacity, int64 [B]."""
    shares = np.full(n_envs, capacity // n_envs)
    shares[: capacity % n_envs] += 1
    return shares
