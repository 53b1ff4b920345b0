"""The replay buffers of xagents, as settings of the run's replay buffer."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from xagents_ray import UserError


@dataclass
class ReplayBuffer1:
    """The size of one environment's part of a replay buffer.

    Attributes:
        size: maximum number of entries: transitions, or trajectories for ACER.
        initial_size: number of entries at which learning starts; None for `size`.
        batch_size: number of entries per batch from this part.
    """

    size: int
    _: KW_ONLY
    initial_size: int | None = None
    batch_size: int = 32


@dataclass
class ReplayBuffer2(ReplayBuffer1):
    """Same as `ReplayBuffer1`; in xagents, it was for continuous actions.

    Attributes:
        slots: ignored; the number of arrays is known.
    """

    slots: int = 5


def replay_settings(
    buffers: Sequence[ReplayBuffer1], n_envs: int, draws_of_each: bool
) -> dict[str, Any]:
    """Return the settings of the single replay buffer that replaces these.

    Args:
        buffers: one buffer per environment.
        n_envs: number of environments.
        draws_of_each: whether `buffer_batch_size` counts entries per environment.
    Raises:
        UserError: the numbers of buffers and environments differ.
    """
    if len(buffers) != n_envs:
        raise UserError(
            f"There are {len(buffers)} buffers for {n_envs} environments: give one for "
            "each, [ReplayBuffer1(…) for _ in envs]."
        )
    batches = [each.batch_size for each in buffers]
    return {
        "buffer_max_size": sum(each.size for each in buffers),
        "buffer_initial_size": sum(each.initial_size or each.size for each in buffers),
        "buffer_batch_size": max(batches) if draws_of_each else sum(batches),
    }
