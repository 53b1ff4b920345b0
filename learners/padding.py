"""Splits and pads the data of learning phases, as XLA compiles for each size."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xagents_ray.core.trajectory import map_arrays

_SMALLEST_CHUNK = 4
"""Number of batches to which fewer ones are padded."""


def split_batches(batches: Any) -> Iterator[Any]:
    """Yield K batches at once, or in two chunks if padding would more than double them.

    The first chunk then needs no padding: 65 batches are 64 and 1. Each chunk is a call
    of the compiled program, which takes about half a millisecond.
    """
    count, size = len(batches.rewards), padded_size(len(batches.rewards))
    if 2 * count >= size or size == _SMALLEST_CHUNK:
        yield batches
        return
    for rows in (slice(size // 4), slice(size // 4, None)):
        yield map_arrays(lambda x, rows=rows: x[rows], batches)


def pad_batches(batches: Any) -> Any:
    """Return batches padded with copies of the first ones; see `padded_size`."""
    count, size = len(batches.rewards), padded_size(len(batches.rewards))
    rows = np.arange(size) % count
    return batches if size == count else map_arrays(lambda x: x[rows], batches)


def padded_size(count: int) -> int:
    """Return 4, 16, 64, …: the smallest of these that isn't below the count.

    XLA compiles a program for each number of batches.
    """
    size = _SMALLEST_CHUNK
    while size < count:
        size *= 4
    return size


def round_widths(n_envs: int, has_replay: bool) -> tuple[int, ...]:
    """Return the widths to which rounds of a run are padded, ascending.

    The largest is for rounds in which some free-running actors appear twice. With
    replay there are fewer, because each number of batches needs programs as well.
    """
    parts = () if has_replay else (16, 4)
    return (*(-(-n_envs // part) for part in parts), n_envs, 2 * n_envs)


def widen_rounds(rounds: Any, widths: Sequence[int]) -> Any:
    """Return trajectories [..., T, B, ...], with B padded by copies that aren't valid.

    B becomes the next of the widths: XLA compiles a program for each, and rounds that
    lack late or lost env actors could have any width.
    """
    count = rounds.valid.shape[-1]
    width = min((each for each in widths if each >= count), default=count)
    if width == count:
        return rounds
    axis, columns = rounds.valid.ndim - 1, np.arange(width) % count
    wide = map_arrays(
        lambda x: np.take(x, columns, axis) if x.ndim > axis else x, rounds
    )
    wide.valid[..., count:] = False
    return wide
