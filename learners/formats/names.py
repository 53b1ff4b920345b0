"""What the formats share: a name, a model and a place to save a network's arrays."""

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
