"""Stacked frames that share their memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


class LazyFrames:
    """A stack of frames that is only joined when it is read.

    Stacks that overlap refer to the same frames, so that each one is stored once. The
    trajectories and replay buffers of runs store frames that way too, in one array.

    Args:
        frames: arrays [H, W, C], the oldest first; they are not copied.

    >>> frames = [np.full([2, 2, 1], i, np.uint8) for i in range(5)]
    >>> first, second = LazyFrames(frames[:4]), LazyFrames(frames[1:])
    >>> np.asarray(second).shape, second[0, 0].tolist()
    ((2, 2, 4), [1, 2, 3, 4])
    """

    def __init__(self, frames: Sequence[npt.NDArray[Any]]) -> None:
        self._frames = tuple(frames)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the joined frames, [H, W, stack * C]."""
        *sides, channels = self._frames[0].shape
        return (*sides, channels * len(self._frames))

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the frames."""
        return self._frames[0].dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return the joined frames, which are always a copy."""
        if copy is False:
            raise ValueError("LazyFrames are copied when they are read: use np.asarray")
        joined = np.concatenate(self._frames, axis=-1)
        return joined if dtype is None else joined.astype(dtype, copy=False)

    def __len__(self) -> int:
        return len(self._frames[0])

    def __getitem__(self, index: Any) -> Any:
        return np.asarray(self)[index]
