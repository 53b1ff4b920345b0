"""Keras weights files, `.weights.h5`, and helpers that the formats share."""

import errno
import functools
import hashlib
import io
import os
import shutil
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from xagents_ray.core.trajectory import Array, FloatArray, WeightsFile
from xagents_ray.networks import keras as networks
from xagents_ray.networks import keras_whole
from xagents_ray.networks.hdf5 import read_hdf5
from xagents_ray.networks.keras_layers import WholeModel
from xagents_ray.networks.layout import Layout

EXTRAS = "extras/"
"""Prefix of the names of arrays that are saved besides a network's."""


@contextmanager
def temporary_folder(size: int) -> Iterator[Path]:
    """Yield a temporary folder with space for `size` bytes of weights.

    The space is checked first, because HDF5 crashes the process when a disk is full.
    """
    with tempfile.TemporaryDirectory(prefix="xagents-ray-") as folder:
        if shutil.disk_usage(folder).free < 2 * size + 2**20:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), folder)
        yield Path(folder)


@functools.lru_cache(maxsize=8)
def keras_model(layout: Layout) -> Any:
    """Return a Keras model to save and load with; cached, as building one is slow."""
    return networks.build_model(layout, None, "weights")


_NAME = "model.weights.h5"
_LAYERS = "layers/"
_DIGEST = f"{EXTRAS}sha256"


def encode_h5(
    arrays: Mapping[str, FloatArray], extras: Mapping[str, FloatArray], layout: Layout
) -> dict[str, bytes]:
    """Return a Keras file, with extras and a digest in a group that Keras ignores.

    Arrays that are neither the network's nor extras are left out.
    """
    model = _with_weights(layout, arrays, is_whole=False)
    with temporary_folder(sum(array.nbytes for array in arrays.values())) as folder:
        path = folder / _NAME
        _save(model.save_weights, path)
        _add_extras(path, extras)
        return {"": path.read_bytes()}


def encode_keras(
    arrays: Mapping[str, FloatArray], extras: Mapping[str, FloatArray], layout: Layout
) -> dict[str, bytes]:
    """Return a file with the whole model; its weights have the extras of `encode_h5`.

    The network must have only layers that Keras has. The model ends in the softmax
    that the learner removed.
    """
    model = _with_weights(layout, arrays, is_whole=True)
    size = 2 * sum(array.nbytes for array in arrays.values())
    content = io.BytesIO()
    with temporary_folder(size) as folder:
        path = folder / "model.keras"
        _save(model.save, path)
        with zipfile.ZipFile(path) as saved, zipfile.ZipFile(content, "w") as file:
            for name in saved.namelist():
                part = Path(saved.extract(name, folder))
                if name == _NAME:
                    _add_extras(part, extras)
                file.write(part, name)
    return {"": content.getvalue()}


def _saved_model(layout: Layout, is_whole: bool) -> tuple[Any, dict[str, Any]]:
    """Return the Keras model whose weights files hold, and its variables by name.

    Args:
        layout: layout of the network.
        is_whole: whether files hold the model too.
    """
    if is_whole:
        layout = layout.with_softmax()
        if isinstance(layout.layers[0], WholeModel):
            return keras_whole.saved_model(layout)
    model = keras_model(layout)
    return model, networks.named_weights(model)


def _with_weights(
    layout: Layout, arrays: Mapping[str, FloatArray], is_whole: bool
) -> Any:
    """Return the model of `_saved_model` with these weights."""
    model, variables = _saved_model(layout, is_whole)
    for name, variable in variables.items():
        variable.assign(arrays[name])
    return model


def _add_extras(path: Path, extras: Mapping[str, FloatArray]) -> None:
    """Add extras and a digest to a weights file of Keras."""
    with h5py.File(path, "a") as file:
        for name, array in extras.items():
            file[EXTRAS + name] = array
        file[_DIGEST] = _digest(_datasets(file))


def decode_h5(file: WeightsFile, layout: Layout) -> dict[str, Array]:
    """Return the arrays of layers and our extras, without an optimizer's.

    Raises:
        ValueError: the file is damaged.
    """
    return _decoded(file, layout, is_whole=False)


def decode_keras(file: WeightsFile, layout: Layout) -> dict[str, Array]:
    """Return the arrays of a file with a whole model; see `decode_h5`.

    The model in the file is never made: its weights are named by the layout's own.

    Args:
        file: the weights in the file, as a `.weights.h5`.
        layout: layout of the network.
    Raises:
        ValueError: the file is damaged.
    """
    return _decoded(file, layout, is_whole=True)


def _decoded(file: WeightsFile, layout: Layout, is_whole: bool) -> dict[str, Array]:
    """Return the arrays of a file under the layout's names for their paths.

    Integers of layers are the states of random generators, and left out.
    """
    found = read_hdf5(file.files[""]).arrays
    digest = found.pop(_DIGEST, None)
    if digest is not None and not np.array_equal(digest, _digest(found)):
        raise ValueError(f"{file.path} has another digest")
    names = _names(layout, is_whole)
    return {
        names.get(where, where.removeprefix(EXTRAS)): array
        for where, array in found.items()
        if where in names
        or where.startswith(EXTRAS)
        or (where.startswith(_LAYERS) and array.dtype.kind == "f")
    }


@functools.lru_cache(maxsize=8)
def _names(layout: Layout, is_whole: bool) -> dict[str, str]:
    """Return the names of the network's arrays by their paths in a Keras file."""
    model, variables = _saved_model(layout, is_whole)
    for i, variable in enumerate(variables.values()):
        variable.assign(np.full(variable.shape, i))
    names = list(variables)
    with temporary_folder(4 * model.count_params()) as folder:
        path = folder / _NAME
        _save(model.save_weights, path)
        with h5py.File(path, "r") as file:
            found = _datasets(file)
    return {
        where: names[int(array.flat[0])]
        for where, array in found.items()
        if array.dtype.kind == "f"
    }


def _save(write: Callable[[str], None], path: Path) -> None:
    """Save as Keras does, without its deprecation warning about NumPy 2."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        write(str(path))


def _datasets(file: Any) -> dict[str, Array]:
    """Return the arrays of an intact HDF5 file by path."""
    found: dict[str, Array] = {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = item[()]

    file.visititems(visit)
    return found


def _digest(datasets: Mapping[str, Array]) -> Array:
    """Return the SHA-256 of arrays and their names, uint8 [32]."""
    digest = hashlib.sha256()
    for name, array in sorted(datasets.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(array.tobytes())
    return np.frombuffer(digest.digest(), np.uint8)
