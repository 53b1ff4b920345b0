"""TensorFlow checkpoints of one network, `.tf`, as Keras 2 wrote them.

TensorFlow crashes on some damaged index files and allocates whatever sizes they state,
so every number in an index is checked before TensorFlow reads it. An index is a LevelDB
table.
"""

import errno
import math
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import tensor_bundle_pb2

from xagents_ray.core.trajectory import Array, FloatArray, WeightsFile
from xagents_ray.learners.formats.keras_h5 import EXTRAS, keras_model, temporary_folder
from xagents_ray.networks.layout import Layout

_NAME = "weights.tf"
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
_KEYS = 64  # maximum ratio of the size of keys to that of a block with shared prefixes
_TABLE_MAGIC = bytes.fromhex("57fb808b247547db")
_FLOAT_BYTES = {types_pb2.DT_FLOAT: 4, types_pb2.DT_DOUBLE: 8}


def encode_tf(
    arrays: Mapping[str, FloatArray], extras: Mapping[str, FloatArray], layout: Layout
) -> dict[str, bytes]:
    """Return a checkpoint's files, with the keys of Keras 2, and `extras/NAME`.

    Arrays that are neither the network's nor extras are left out.
    """
    size = sum(array.nbytes for array in arrays.values())
    with temporary_folder(size) as folder, tf.device("CPU"):
        layers = {
            f"layer_with_weights-{i}": tf.train.Checkpoint(
                **{part: tf.Variable(arrays[f"{name}/{part}"]) for part in parts}
            )
            for i, (name, parts) in enumerate(_keras_order(layout))
        }
        others = {name: tf.Variable(array) for name, array in extras.items()}
        path = str(folder / _NAME)
        try:
            extra = tf.train.Checkpoint(**others)
            tf.train.Checkpoint(**layers, extras=extra).write(path)
        except tf.errors.OpError as error:
            raise OSError(errno.EIO, error.message, path) from None
        return {
            file.name.removeprefix(_NAME): file.read_bytes()
            for file in folder.iterdir()
        }


def decode_tf(file: WeightsFile, layout: Layout) -> dict[str, Array]:
    """Return the arrays of a TF checkpoint, without optimizer slots and the like.

    Raises:
        ValueError: the checkpoint is damaged.
    """
    index, data = file.files[".index"], file.files[".data-00000-of-00001"]
    names = _names(layout)
    found = {}
    with temporary_folder(len(index) + len(data)) as folder:
        for suffix, part in file.files.items():
            (folder / f"{_NAME}{suffix}").write_bytes(part)
        try:
            keys = _checkpoint_keys(index, len(data))
            reader = tf.train.load_checkpoint(str(folder / _NAME))
            for key in keys:
                name = key.removesuffix(_VALUE)
                if key.endswith(_VALUE) and ".OPTIMIZER_SLOT" not in key:
                    if name.startswith("layer_with_weights-"):
                        found[names.get(name, name)] = reader.get_tensor(key)
                    elif name.startswith(EXTRAS):
                        plain = name.removeprefix(EXTRAS).replace(".S", "/")
                        found[plain] = reader.get_tensor(key)
        except Exception as error:  # TensorFlow raises many kinds
            raise ValueError(f"{file.path} is damaged") from error
    return found


def _names(layout: Layout) -> dict[str, str]:
    """Return the names of the network's arrays by their Keras 2 checkpoint key."""
    return {
        f"layer_with_weights-{i}/{part}": f"{name}/{part}"
        for i, (name, parts) in enumerate(_keras_order(layout))
        for part in parts
    }


def _keras_order(layout: Layout) -> list[tuple[str, list[str]]]:
    """Return layers with weights as Keras 2 and 3 number them, and their weights.

    The order is by depth, so the layers of two branches alternate.
    """
    layers = {layer.name: layer for layer in layout.layers}
    return [
        (made.name, [name.partition("/")[2] for name in layers[made.name].shapes])
        for made in keras_model(layout).layers
        if made.weights
    ]


def _checkpoint_keys(index: bytes, data_size: int) -> list[str]:
    """Return the keys of a checkpoint's tensors of floats; ValueError if damaged."""
    if len(index) < 48 or index[-8:] != _TABLE_MAGIC:
        raise ValueError("not a checkpoint's index")
    footer, at, numbers = index[-48:-8], 0, []
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
    sizes = {k.decode(): _float_tensor_size(v, data_size) for k, v in entries[1:]}
    floats = {key: size for key, size in sizes.items() if size is not None}
    if sum(floats.values()) > data_size:
        raise ValueError("tensors that share bytes")
    return list(floats)


def _float_tensor_size(value: bytes, data_size: int) -> int | None:
    """Return the bytes of an index entry's tensor of floats; ValueError if damaged.

    None if it is a tensor of another dtype.
    """
    entry = tensor_bundle_pb2.BundleEntryProto.FromString(value)
    sides = [side.size for side in entry.shape.dim]
    count = math.prod(sides)
    if (
        any(side < 0 for side in sides)
        or len(sides) > 8
        or entry.shape.unknown_rank
        or entry.slices
        or entry.shard_id
        or min(entry.offset, entry.size) < 0
        or entry.offset + entry.size > data_size
        or count > data_size
    ):
        raise ValueError("not a tensor's entry")
    nbytes = _FLOAT_BYTES.get(entry.dtype)
    if nbytes is None:
        return None
    if nbytes * count != entry.size:
        raise ValueError("a tensor's shape and size disagree")
    return int(entry.size)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a LEB128 number and the position after it."""
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
    room = _KEYS * size
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
        room -= len(key)
        if room < 0:
            raise ValueError("keys that are much larger than their block")
        at += unshared
        entries.append((key, block[at : at + length]))
        at += length
    starts = np.frombuffer(table, "<u4", restarts, offset + last)
    if not whole.issuperset(starts.tolist()):
        raise ValueError("a restart within an entry")
    return entries
