"""The names that Keras gives a network's arrays, and a place to save them."""

import errno
import functools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xagents_ray.networks import keras as networks
from xagents_ray.networks.layout import Layout

EXTRAS = "extras/"
"""Starts the names of arrays that are saved with a network's."""


@contextmanager
def temporary_folder(size: int) -> Iterator[Path]:
    """Yield a folder with room for `size` bytes of weights.

    HDF5 brings the process down when a disk is full, so the room is checked first.
    """
    with tempfile.TemporaryDirectory(prefix="xagents-ray-") as folder:
        if shutil.disk_usage(folder).free < 2 * size + 2**20:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), folder)
        yield Path(folder)


@functools.lru_cache(maxsize=8)
def model_of(layout: Layout) -> Any:
    """Return a Keras model to save and load with; building one takes a while."""
    return networks.build(layout, 0, "weights")


def keras_order(layout: Layout) -> list[str]:
    """Return the names of layers with weights as Keras 2 and 3 number them.

    They go by depth, so the layers of two branches take turns.
    """
    return [layer.name for layer in model_of(layout).layers if layer.weights]
