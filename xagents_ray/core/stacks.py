"""Stacks of frames, as networks read them."""

import numpy as np

from xagents_ray.core.spec import VECTOR
from xagents_ray.core.trajectory import Array, BoolArray, Observations


def same_episode(starts: BoolArray) -> BoolArray:
    """Return which frames of a window belong to its last frame's episode.

    Args:
        starts: bool [stack, B], true at an episode's first observation.
    Returns:
        bool [stack, B]; other frames become zeros in the stack.
    """
    later = np.zeros_like(starts)
    # A frame is hidden when a later one in the window starts an episode.
    np.logical_or.accumulate(starts[:0:-1], axis=0, out=later[-2::-1])
    return ~later


def stack_frames(frames: Array, starts: BoolArray) -> Array:
    """Return the network's input at a window's last row.

    Args:
        frames: uint8 [stack, B, H, W] or [stack, B, H, W, C], oldest first.
        starts: bool [stack, B], true at an episode's first observation.
    Returns:
        uint8 [B, H, W, stack * C]; frames before the episode are zeros.
    """
    mask = same_episode(starts)
    if not mask.all():
        shown = mask.reshape(mask.shape + (1,) * (frames.ndim - 2))
        frames = np.where(shown, frames, 0)
    axis = frames.ndim - 1 if frames.ndim == 4 else -2
    stacked = np.stack(list(frames), axis=axis)
    return stacked.reshape((*stacked.shape[:3], -1))


def network_input(
    window: Observations, starts: BoolArray, is_image: bool
) -> Observations:
    """Return the network's input at a window's last row.

    Args:
        window: frames [stack, B, ...], oldest first, or a dict of arrays with as many
            rows.
        starts: bool [stack, B], true at an episode's first observation.
        is_image: whether one array has images; those of a dict are told by its names.
    Returns:
        Images as in `stack_frames`; of vectors, the last row.
    """
    if isinstance(window, dict):
        pairs = window.items()
        return {k: network_input(x, starts, k != VECTOR) for k, x in pairs}
    return stack_frames(window, starts) if is_image else window[-1]
