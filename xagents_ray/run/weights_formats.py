"""Weights files of one network in every format, from and to bytes."""

from collections.abc import Mapping
from pkgutil import resolve_name

from xagents_ray.core.trajectory import FloatArray, WeightsFile
from xagents_ray.networks.layout import Layout
from xagents_ray.networks.matching import match_arrays
from xagents_ray.storage import weights

_FORMATS = "xagents_ray.learners.formats"
_ENCODE = {
    ".tf": f"{_FORMATS}.tf_checkpoint:encode_tf",
    ".weights.h5": f"{_FORMATS}.keras_h5:encode_h5",
}
_DECODE = {
    ".tf": f"{_FORMATS}.tf_checkpoint:decode_tf",
    ".weights.h5": f"{_FORMATS}.keras_h5:decode_h5",
}
"""Functions of the formats that need TensorFlow, which they load."""


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
    encode = resolve_name(_ENCODE[kind])
    return WeightsFile(path, encode(arrays, extras, layout))


def decode_weights(
    file: WeightsFile, layout: Layout, optional: Mapping[str, tuple[int, ...]]
) -> tuple[dict[str, FloatArray], list[str]]:
    """Return a weights file's arrays for a network, and notes for the user.

    Args:
        file: ours, Keras' own `.weights.h5`, or a `.tf` checkpoint of xagents.
        layout: the network.
        optional: shapes of extras by name; see `match_arrays`.
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
        decode = resolve_name(_DECODE[kind])
        try:
            arrays = decode(file, layout)
        except ValueError as error:
            raise weights.damaged_weights(file.path) from error
    return match_arrays(arrays, layout.shapes, optional, file.path, layout)
