"""TensorFlow checkpoints of one network, `.tf`, as Keras 2 wrote them."""

import errno
from collections.abc import Mapping

import tensorflow as tf

from xagents_ray.core.trajectory import Array, FloatArray, WeightsFile
from xagents_ray.learners.formats.names import EXTRAS, keras_order, temporary_folder
from xagents_ray.learners.formats.tf_index import checkpoint_keys
from xagents_ray.networks.layout import Layout
from xagents_ray.storage import weights

_NAME = "weights.tf"
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


def encode(
    arrays: Mapping[str, FloatArray], extras: Mapping[str, FloatArray], layout: Layout
) -> dict[str, bytes]:
    """Return a checkpoint's files, with keys as Keras 2 wrote them, and `extras/NAME`.

    Args:
        arrays: of the network, by name; others are left out.
        extras: to be saved with them.
        layout: the network.
    """
    size = sum(array.nbytes for array in arrays.values())
    with temporary_folder(size) as folder, tf.device("CPU"):
        layers = {
            f"layer_with_weights-{i}": tf.train.Checkpoint(
                kernel=tf.Variable(arrays[f"{name}/kernel"]),
                bias=tf.Variable(arrays[f"{name}/bias"]),
            )
            for i, name in enumerate(keras_order(layout))
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


def decode(file: WeightsFile, layout: Layout) -> dict[str, Array]:
    """Return the arrays of a TF checkpoint; optimizer slots and the like are left."""
    index, data = file.files[".index"], file.files[".data-00000-of-00001"]
    names = _names(layout)
    found = {}
    with temporary_folder(len(index) + len(data)) as folder:
        for suffix, part in file.files.items():
            (folder / f"{_NAME}{suffix}").write_bytes(part)
        try:
            keys = checkpoint_keys(index, len(data))
            reader = tf.train.load_checkpoint(str(folder / _NAME))
            for key in keys:
                name = key.removesuffix(_VALUE)
                if key.endswith(_VALUE) and ".OPTIMIZER_SLOT" not in key:
                    if name.startswith("layer_with_weights-"):
                        found[names.get(name, name)] = reader.get_tensor(key)
                    elif name.startswith(EXTRAS):
                        plain = name.removeprefix(EXTRAS).replace(".S", "/")
                        found[plain] = reader.get_tensor(key)
        except Exception as error:  # TensorFlow has many ways of saying it
            raise weights.damaged(file.path) from error
    return found


def _names(layout: Layout) -> dict[str, str]:
    """Return the names of the network's arrays by their Keras 2 checkpoint key."""
    return {
        f"layer_with_weights-{i}/{part}": f"{name}/{part}"
        for i, name in enumerate(keras_order(layout))
        for part in ("kernel", "bias")
    }
