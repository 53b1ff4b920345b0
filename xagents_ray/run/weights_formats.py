"""Encodes and decodes the weights files of a network in every format."""

from collections.abc import Mapping
from pkgutil import resolve_name

from xagents_ray.core.errors import UserError
from xagents_ray.core.trajectory import Array, WeightsFile
from xagents_ray.networks.keras_archive import weights_file
from xagents_ray.networks.layout import Layout
from xagents_ray.networks.matching import match_arrays
from xagents_ray.storage import weights

_FORMATS = "xagents_ray.learners.formats"
_ENCODE = {
    ".tf": f"{_FORMATS}.tf_checkpoint:encode_tf",
    ".weights.h5": f"{_FORMATS}.keras_h5:encode_h5",
    ".keras": f"{_FORMATS}.keras_h5:encode_keras",
}
_DECODE = {
    ".tf": f"{_FORMATS}.tf_checkpoint:decode_tf",
    ".weights.h5": f"{_FORMATS}.keras_h5:decode_h5",
    ".keras": f"{_FORMATS}.keras_h5:decode_keras",
}
"""Import paths of the formats that need TensorFlow, which they import."""


def encode_weights(
    arrays: Mapping[str, Array], layout: Layout, path: str
) -> WeightsFile:
    """Return the weights file of a model, to be written at a path.

    Args:
        arrays: arrays of the network, and extras like `log_std` [A], by name.
        layout: layout of the network.
        path: path of the file; its ending determines the format.
    Raises:
        UserError: the ending is unknown, or the network doesn't fit the format.
        OSError: a temporary file can't be written.
    """
    kind = weights.file_kind(path)
    check_format(layout, path)
    if kind == ".npz":
        return WeightsFile(path, weights.encode_npz(arrays))
    own = layout.shapes
    extras = {name: array for name, array in arrays.items() if name not in own}
    encode = resolve_name(_ENCODE[kind])
    return WeightsFile(path, encode(arrays, extras, layout))


def check_format(layout: Layout, path: str, flag: str = "") -> None:
    """Raise UserError if a network can't be written in the format of a path.

    Args:
        layout: layout of the network.
        path: path of the file.
        flag: flag that names the path, if any.
    """
    if path.endswith(".keras") and not layout.is_keras_model:
        raise UserError(
            f"{flag} {path}: this network has layers that Keras lacks, so it can't be "
            "saved as a Keras model: name a .npz file instead.".lstrip()
        )


def decode_weights(
    file: WeightsFile, layout: Layout, optional: Mapping[str, tuple[int, ...]]
) -> tuple[dict[str, Array], list[str]]:
    """Return a weights file's arrays for a network, and notes for the user.

    Args:
        file: a file of this package, a `.weights.h5` of Keras, or a `.tf` of xagents.
        layout: layout of the network.
        optional: shapes of extras by name; see `match_arrays`.
    Returns:
        Arrays by name, and one sentence for each missing extra; see `match_arrays`.
    Raises:
        UserError: the file is damaged, or of another network.
        OSError: a temporary file can't be written.
    """
    arrays = decode_unmatched(file, layout)
    return match_arrays(arrays, layout.shapes, optional, file.path, layout)


def decode_unmatched(file: WeightsFile, layout: Layout) -> dict[str, Array]:
    """Return all arrays of a weights file by name; see `decode_weights`.

    Those of a network have the names of the layout if they fit it.
    """
    kind = weights.file_kind(file.path)
    if kind == ".npz":
        return weights.decode_npz(file)
    if kind == ".keras":
        file = _in_model(file)
    decode = resolve_name(_DECODE[kind])
    try:
        arrays: dict[str, Array] = decode(file, layout)
    except ValueError as error:
        raise weights.damaged_weights(file.path) from error
    return arrays


def _in_model(file: WeightsFile) -> WeightsFile:
    """Return the weights in a `.keras` file, as in a `.weights.h5`.

    Raises:
        UserError: the file is damaged.
    """
    try:
        return file._replace(files={"": weights_file(file.files[""])})
    except Exception as error:  # zipfile and zlib raise anything
        raise weights.damaged_weights(file.path) from error
