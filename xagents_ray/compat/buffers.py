"""Sizes of replay buffers, one for each environment; the run makes the one it needs."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from xagents_ray import UserError


@dataclass
class ReplayBuffer1:
    """How much one environment's part of a replay buffer holds.

    Attributes:
        size: most entries: transitions, or ACER's trajectories.
        initial_size: entries at which learning starts; None for `size`.
        batch_size: entries of a batch that are drawn from this part.
    """

    size: int
    _: KW_ONLY
    initial_size: int | None = None
    batch_size: int = 32


@dataclass
class ReplayBuffer2(ReplayBuffer1):
    """As `ReplayBuffer1`; xagents had another one for continuous actions.

    Attributes:
        slots: ignored; a run knows the arrays of an entry.
    """

    slots: int = 5


def replay_settings(
    buffers: Sequence[ReplayBuffer1], n_envs: int, draws_of_each: bool
) -> dict[str, Any]:
    """Return the settings of the one replay buffer in place of these.

    Args:
        buffers: one for each environment.
        n_envs: number of environments.
        draws_of_each: `buffer_batch_size` counts entries of each environment.
    Raises:
        UserError: there is not one for each environment.
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
