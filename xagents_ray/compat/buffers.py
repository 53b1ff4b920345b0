"""The replay buffers of xagents, and the settings of a run's that they stand for."""

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from xagents_ray import UserError


@dataclass
class ReplayBuffer1:
    """A replay buffer of any objects, and the size of a part of a run's buffer.

    An agent takes the sizes from it: the data of a run is in the run's replay buffer,
    which stores each frame once. `append` and `get_sample` are for loops of your own.

    Attributes:
        size: maximum number of entries: transitions, or trajectories for ACER.
        initial_size: number of entries at which learning starts; None for `size`.
        batch_size: number of entries per batch from this part.
    """

    size: int
    _: KW_ONLY
    initial_size: int | None = None
    batch_size: int = 32

    def __post_init__(self) -> None:
        self._entries: deque[tuple[Any, ...]] = deque(maxlen=self.size)

    @property
    def current_size(self) -> int:
        """Number of entries."""
        return len(self._entries)

    def append(self, *items: Any) -> None:
        """Add an entry; the oldest one is dropped if the buffer is full."""
        self._entries.append(items)

    def get_sample(self) -> Sequence[Any]:
        """Draw `batch_size` different entries.

        Returns:
            An array [batch_size, ...] of each item, an array [batch_size] of objects
            where their shapes differ; the items themselves if the batch size is 1.
        Raises:
            UserError: the buffer has fewer entries.
        """
        if self.current_size < self.batch_size:
            raise UserError(
                f"The buffer has {self.current_size} entries and a batch has "
                f"{self.batch_size}: append more, or lower batch_size."
            )
        drawn = random.sample(self._entries, self.batch_size)
        if self.batch_size == 1:
            return drawn[0]
        return [_stacked(column) for column in zip(*drawn, strict=True)]


@dataclass
class ReplayBuffer2(ReplayBuffer1):
    """A replay buffer of numbers and arrays; see `ReplayBuffer1`.

    Attributes:
        slots: number of items of an entry.
    """

    slots: int = 5

    def append(self, *items: Any) -> None:
        """Add an entry of `slots` numbers or arrays; a number is an array [1].

        Raises:
            UserError: the number of items differs.
        """
        if len(items) != self.slots:
            raise UserError(
                f"append got {len(items)} items and the buffer has slots={self.slots}: "
                "give as many."
            )
        super().append(*(np.atleast_1d(np.array(item)) for item in items))

    def get_sample(self) -> Sequence[npt.NDArray[Any]]:
        """Draw `batch_size` entries, possibly some of them several times.

        Returns:
            An array [batch_size, ...] of each item, an array [batch_size] of objects
            where their shapes differ.
        Raises:
            UserError: the buffer is empty.
        """
        if not self.current_size:
            raise UserError("The buffer is empty: append entries before get_sample.")
        drawn = random.choices(self._entries, k=self.batch_size)
        return [_stacked(column) for column in zip(*drawn, strict=True)]


def _stacked(items: Sequence[Any]) -> npt.NDArray[Any]:
    """Return items as one array, of objects if their shapes differ."""
    try:
        return np.array(items)
    except ValueError:
        objects = np.empty(len(items), object)
        for i, item in enumerate(items):
            objects[i] = item
        return objects


def replay_settings(
    buffers: Sequence[ReplayBuffer1], n_envs: int, draws_of_each: bool
) -> dict[str, Any]:
    """Return the settings of the single replay buffer that replaces these.

    Args:
        buffers: one buffer per environment.
        n_envs: number of environments.
        draws_of_each: whether `buffer_batch_size` counts entries per environment.
    Raises:
        UserError: the numbers of buffers and environments differ, or a buffer has data.
    """
    if len(buffers) != n_envs:
        raise UserError(
            f"There are {len(buffers)} buffers for {n_envs} environments: give one for "
            "each, [ReplayBuffer1(…) for _ in envs]."
        )
    if any(each.current_size for each in buffers):
        raise UserError(
            "A buffer has entries, and a run collects its own: give the agent empty "
            "buffers, or learn from these in a loop of your own, see xagents_ray.Agent."
        )
    batches = [each.batch_size for each in buffers]
    return {
        "buffer_max_size": sum(each.size for each in buffers),
        "buffer_initial_size": sum(each.initial_size or each.size for each in buffers),
        "buffer_batch_size": max(batches) if draws_of_each else sum(batches),
    }
