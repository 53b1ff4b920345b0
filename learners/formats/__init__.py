"""Weights files as TensorFlow and Keras know them, from and to bytes."""

from collections.abc import Mapping

from xagents_ray.core.trajectory import FloatArray, WeightsFile
from xagents_ray.learners.formats import keras_h5, tf_checkpoint
from xagents_ray.networks.layout import Layout
from xagents_ray.storage import weights

_ENCODE = {".tf": tf_checkpoint.encode_tf, ".weights.h5": keras_h5.encode_h5}
_DECODE = {".tf": tf_checkpoint.decode_tf, ".weights.h5": keras_h5.decode_h5}


def encode_weights(
    arrays: Mapping[str, FloatArray], layout: Layout, path: str
) -> WeightsFile:
    """Return the weights file of a model, to be written at a path.

    Args:
        arrays: float32, the network's by name and any extras, like `log_std` [A].
        layout: the network.
        path: path of the file; its ending names the format.
    Raises:
        UserError: another ending.
        OSError: no room for the temporary file.
    """
    kind = weights.file_kind(path)
    if kind == ".npz":
        return WeightsFile(path, weights.encode_npz(arrays))
    own = layout.shapes
    extras = {name: array for name, array in arrays.items() if name not in own}
    return WeightsFile(path, _ENCODE[kind](arrays, extras, layout))


def decode_weights(
    file: WeightsFile, layout: Layout, optional: Mapping[str, tuple[int, ...]]
) -> tuple[dict[str, FloatArray], list[str]]:
    """Return a weights file's arrays for a network, and notes for the user.

    Args:
        file: ours, Keras' own `.weights.h5`, or a `.tf` checkpoint of xagents.
        layout: the network.
        optional: shapes of extras by name; see `weights.match_arrays`.
    Returns:
        float32 arrays by name, and one sentence for each missing extra.
    Raises:
        UserError: damaged, or not this network's.
        OSError: no room for the temporary file.
    """
    kind = weights.file_kind(file.path)
    if kind == ".npz":
        arrays = weights.decode_npz(file)
    else:
        arrays = _DECODE[kind](file, layout)
    return weights.match_arrays(arrays, layout.shapes, optional, file.path, layout)
