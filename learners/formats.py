"""Weights files as TensorFlow and Keras know them, from and to bytes."""

import errno
import functools
import hashlib
import math
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import tensor_bundle_pb2

from xagents_ray.core.trajectory import Array, FloatArray
from xagents_ray.networks import keras as networks
from xagents_ray.networks.layout import Layout
from xagents_ray.storage import weights
from xagents_ray.storage.weights import WeightsFile

_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
_EXTRAS = "extras/"
_LAYERS = "layers/"
_DIGEST = "extras/sha256"
_TABLE_MAGIC = bytes.fromhex("57fb808b247547db")

# HDF5 may crash or loop for ever on damaged bytes, so a process of its own reads
# them. It takes only arrays that lie whole in the file, so their size is bounded.
_READ_HDF5 = """
import io, signal, sys
sys.path[:] = sys.argv[1:]
import h5py, numpy
data, found = sys.stdin.buffer.read(), {}
def visit(name, item):
    if isinstance(item, h5py.Dataset):
        offset = item.id.get_offset()
        if offset is None or offset + item.nbytes > len(data):
            raise ValueError(name)
        found[name] = item[()]
signal.setitimer(signal.ITIMER_PROF, 3)
with h5py.File(io.BytesIO(data), "r") as file:
    file.visititems(visit)
out = io.BytesIO()
numpy.savez(out, **found)
sys.stdout.buffer.write(out.getvalue())
"""


def encode(arrays: Mapping[str, FloatArray], layout: Layout, path: str) -> WeightsFile:
    """Return the weights file of a model, to be written at a path.

    Args:
        arrays: float32, the network's by name and any extras, like `log_std` [A].
        layout: the network.
        path: of the file; its ending says which kind.
    Raises:
        UserError: another ending.
        OSError: no room for the temporary file.
    """
    kind = weights.kind(path)
    if kind == ".npz":
        return WeightsFile(path, weights.encode_npz(arrays))
    size = sum(array.nbytes for array in arrays.values())
    with _temporary_folder(size) as folder:
        write = _write_tf if kind == ".tf" else _write_hdf5
        own = layout.shapes
        extras = {name: array for name, array in arrays.items() if name not in own}
        write(str(folder / f"weights{kind}"), arrays, extras, layout)
        files = {
            file.name.removeprefix(f"weights{kind}"): file.read_bytes()
            for file in folder.iterdir()
        }
    return WeightsFile(path, files)


def decode(
    file: WeightsFile, layout: Layout, optional: Mapping[str, tuple[int, ...]]
) -> tuple[dict[str, FloatArray], list[str]]:
    """Return a weights file's arrays for a network, and notes for the user.

    Args:
        file: ours, Keras' own `.weights.h5`, or a `.tf` checkpoint of xagents.
        layout: the network.
        optional: shapes of extras by name; see `weights.check`.
    Returns:
        float32 arrays by name, and one sentence for each missing extra.
    Raises:
        UserError: damaged, or not this network's.
        OSError: no room for the temporary file.
    """
    kind = weights.kind(file.path)
    if kind == ".npz":
        arrays = weights.decode_npz(file)
    else:
        arrays = (_decode_tf if kind == ".tf" else _decode_hdf5)(file, layout)
    expected = layout.shapes
    return weights.check(arrays, expected, optional, file.path, layout)


@contextmanager
def _temporary_folder(size: int) -> Iterator[Path]:
    """Yield a folder with room for `size` bytes of weights.

    HDF5 brings the process down when a disk is full, so the room is checked first.
    """
    with tempfile.TemporaryDirectory(prefix="xagents-ray-") as folder:
        if shutil.disk_usage(folder).free < 2 * size + 2**20:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), folder)
        yield Path(folder)


@functools.lru_cache(maxsize=8)
def _model(layout: Layout) -> Any:
    """Return a Keras model to save and load with; building one takes a while."""
    return networks.build(layout, 0, "weights")


def _keras_order(layout: Layout) -> list[str]:
    """Return the names of layers with weights as Keras 2 and 3 number them.

    They go by depth, so the layers of two branches take turns.
    """
    return [layer.name for layer in _model(layout).layers if layer.weights]


def _tf_names(layout: Layout) -> dict[str, str]:
    """Return the names of the network's arrays by their Keras 2 checkpoint key."""
    return {
        f"layer_with_weights-{i}/{part}": f"{name}/{part}"
        for i, name in enumerate(_keras_order(layout))
        for part in ("kernel", "bias")
    }


def _write_tf(
    path: str,
    arrays: Mapping[str, FloatArray],
    extras: Mapping[str, FloatArray],
    layout: Layout,
) -> None:
    """Write a TF checkpoint with the keys that Keras 2 wrote, and `extras/NAME`."""
    with tf.device("CPU"):
        layers = {
            f"layer_with_weights-{i}": tf.train.Checkpoint(
                kernel=tf.Variable(arrays[f"{name}/kernel"]),
                bias=tf.Variable(arrays[f"{name}/bias"]),
            )
            for i, name in enumerate(_keras_order(layout))
        }
        others = {name: tf.Variable(array) for name, array in extras.items()}
        try:
            extra = tf.train.Checkpoint(**others)
            tf.train.Checkpoint(**layers, extras=extra).write(path)
        except tf.errors.OpError as error:
            raise OSError(errno.EIO, error.message, path) from None


def _decode_tf(file: WeightsFile, layout: Layout) -> dict[str, Array]:
    """Return the arrays of a TF checkpoint; optimizer slots and the like are left."""
    index, data = file.files[".index"], file.files[".data-00000-of-00001"]
    names = _tf_names(layout)
    found = {}
    with _temporary_folder(len(index) + len(data)) as folder:
        for suffix, part in file.files.items():
            (folder / f"weights.tf{suffix}").write_bytes(part)
        try:
            keys = _checkpoint_keys(index, len(data))
            reader = tf.train.load_checkpoint(str(folder / "weights.tf"))
            for key in keys:
                name = key.removesuffix(_VALUE)
                if key.endswith(_VALUE) and ".OPTIMIZER_SLOT" not in key:
                    if name.startswith("layer_with_weights-"):
                        found[names.get(name, name)] = reader.get_tensor(key)
                    elif name.startswith(_EXTRAS):
                        plain = name.removeprefix(_EXTRAS).replace(".S", "/")
                        found[plain] = reader.get_tensor(key)
        except Exception as error:  # TensorFlow has many ways of saying it
            raise weights.damaged(file.path) from error
    return found


def _checkpoint_keys(index: bytes, data_size: int) -> list[str]:
    """Return the keys of a checkpoint's float32 tensors; ValueError when damaged.

    TensorFlow ends the process on some damaged indices and allocates what they ask
    for, so every number in it is checked here first. The format is LevelDB's table.
    """
    if len(index) < 48 or index[-8:] != _TABLE_MAGIC:
        raise ValueError("not a checkpoint's index")
    footer = index[-48:-8]
    at = 0
    numbers = []
    for _ in range(4):
        number, at = _varint(footer, at)
        numbers.append(number)
    _block(index, *numbers[:2])
    entries, end = [], 0
    for _, handle in _block(index, *numbers[2:]):
        offset, at = _varint(handle, 0)
        size, _ = _varint(handle, at)
        if offset < end:
            raise ValueError("blocks that overlap")
        entries += _block(index, offset, size)
        end = offset + size
    header = tensor_bundle_pb2.BundleHeaderProto.FromString(entries[0][1])
    if entries[0][0] or header.num_shards != 1 or header.endianness != header.LITTLE:
        raise ValueError("not a checkpoint's header")
    return [
        key.decode() for key, value in entries[1:] if _is_float_tensor(value, data_size)
    ]


def _is_float_tensor(value: bytes, data_size: int) -> bool:
    """Whether an index' entry is of a float32 tensor; ValueError when damaged."""
    entry = tensor_bundle_pb2.BundleEntryProto.FromString(value)
    sides = [side.size for side in entry.shape.dim]
    count = math.prod(sides)
    if (
        min(sides, default=0) < 0
        or len(sides) > 8
        or entry.shape.unknown_rank
        or entry.slices
        or entry.shard_id
        or min(entry.offset, entry.size) < 0
        or entry.offset + entry.size > data_size
        or count > data_size
    ):
        raise ValueError("not a tensor's entry")
    is_float = entry.dtype == types_pb2.DT_FLOAT
    if is_float and 4 * count != entry.size:
        raise ValueError("a tensor's shape and size disagree")
    return bool(is_float)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a LEB128 number and where it ends."""
    number = 0
    for i in range(10):
        number |= (data[at + i] & 127) << (7 * i)
        if data[at + i] < 128:
            return number, at + i + 1
    raise ValueError("a number without an end")


def _block(table: bytes, offset: int, size: int) -> list[tuple[bytes, bytes]]:
    """Return the keys and values of one block of a LevelDB table."""
    end = offset + size
    if size < 4 or end + 5 > len(table) or table[end] != 0:
        raise ValueError("not an uncompressed block of the file")
    restarts = int.from_bytes(table[end - 4 : end], "little")
    last = size - 4 - 4 * restarts
    if last < 0:
        raise ValueError("more restarts than the block has room for")
    block, at = table[offset : offset + last], 0
    entries, whole, key = [], {0}, b""
    while at < last:
        start = at
        shared, at = _varint(block, at)
        unshared, at = _varint(block, at)
        length, at = _varint(block, at)
        if shared > len(key) or at + unshared + length > last:
            raise ValueError("an entry that leaves its block")
        if shared == 0:
            whole.add(start)
        key = key[:shared] + block[at : at + unshared]
        at += unshared
        entries.append((key, block[at : at + length]))
        at += length
    starts = np.frombuffer(table, "<u4", restarts, offset + last)
    if not whole.issuperset(starts.tolist()):
        raise ValueError("a restart within an entry")
    return entries


@functools.lru_cache(maxsize=8)
def _hdf5_names(layout: Layout) -> dict[str, str]:
    """Return the names of the network's arrays by where Keras saves them."""
    model = _model(layout)
    variables = networks.named_weights(model)
    for i, variable in enumerate(variables.values()):
        variable.assign(np.full(variable.shape, i))
    names = list(variables)
    with _temporary_folder(4 * model.count_params()) as folder:
        path = str(folder / "numbered.weights.h5")
        _save(model, path)
        with h5py.File(path, "r") as file:
            return {
                where: names[int(array.flat[0])]
                for where, array in _datasets(file).items()
            }


def _save(model: Any, path: str) -> None:
    """Save as Keras does, but for a notice of its own about NumPy 2."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        model.save_weights(path)


def _datasets(file: Any) -> dict[str, Array]:
    """Return the arrays of a sound HDF5 file by path."""
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


def _write_hdf5(
    path: str,
    arrays: Mapping[str, FloatArray],
    extras: Mapping[str, FloatArray],
    layout: Layout,
) -> None:
    """Write Keras' own file; extras and a digest go to a group that Keras ignores."""
    model = _model(layout)
    for name, variable in networks.named_weights(model).items():
        variable.assign(arrays[name])
    _save(model, path)
    with h5py.File(path, "a") as file:
        for name, array in extras.items():
            file[_EXTRAS + name] = array
        file[_DIGEST] = _digest(_datasets(file))


def _decode_hdf5(file: WeightsFile, layout: Layout) -> dict[str, Array]:
    """Return the arrays of layers and our extras; an optimizer's are left."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", _READ_HDF5, *sys.path],
        input=file.files[""],
        capture_output=True,
    )
    if done.returncode != 0:
        raise weights.damaged(file.path)
    found = weights.decode_npz(WeightsFile(file.path, {"": done.stdout}))
    digest = found.pop(_DIGEST, None)
    if digest is not None and not np.array_equal(digest, _digest(found)):
        raise weights.damaged(file.path)
    names = _hdf5_names(layout)
    return {
        names.get(where, where.removeprefix(_EXTRAS)): array
        for where, array in found.items()
        if where.startswith((_LAYERS, _EXTRAS))
    }
