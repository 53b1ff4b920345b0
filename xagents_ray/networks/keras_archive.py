"""Checks of `.keras` files before Keras reads them.

A config names classes, which Keras makes with arguments from the file. Only layers of
Keras that do nothing but compute are accepted, and classes that were registered in this
process. Sizes are checked too: of the archive's parts, and of the weights in it. Files
of Keras 2, `.h5`, have such a config too.
"""

import functools
import io
import math
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from xagents_ray.core.errors import UserError, one_line, shown
from xagents_ray.core.parsing import parse_json
from xagents_ray.core.trajectory import Array
from xagents_ray.networks.hdf5 import read_hdf5

_LARGEST_CONFIG = 1 << 22  # bytes
_MOST_LAYERS = 2_000
_GROWTH = 16  # maximum ratio of unpacked to packed size; weights hardly compress
_CONFIG, _WEIGHTS = "config.json", "model.weights.h5"
_MODULES = re.compile(
    r"keras\.(activations|constraints|dtype_policies|initializers|layers|losses"
    r"|metrics|optimizers|quantizers|random|regularizers|src\.ops\.\w+)"
)
_MODEL_MODULES = re.compile(r"keras|keras\.models|keras\.src\.models\.\w+")
_MODELS = {"DTypePolicy", "FloatDTypePolicy", "Functional", "Model", "Sequential"}
# Layers of Keras that run code from the file, or read other files.
_REFUSED = {
    "FlaxLayer",
    "IndexLookup",
    "IntegerLookup",
    "JaxLayer",
    "Lambda",
    "StringLookup",
    "TFSMLayer",
    "TextVectorization",
    "TorchModuleWrapper",
}
# What Keras writes for values that JSON lacks.
_VALUES = {
    "__bytes__",
    "__ellipsis__",
    "__keras_tensor__",
    "__slice__",
}
_NUMBERS = r"bool|(b?float|u?int)\d{1,2}"  # dtypes


class KerasArchive(NamedTuple):
    """The contents of a `.keras` file that are read without Keras."""

    config: Mapping[str, Any]  # config of the model
    nbytes: int  # size of its weights, in bytes


def read_archive(file: bytes) -> KerasArchive:
    """Return the config and the size of the weights in a `.keras` file.

    Raises:
        Exception: any type, if the file is damaged, or larger when it is unpacked than
            weights of its size.
    """
    with _opened(file) as archive:
        if archive.getinfo(_CONFIG).file_size > _LARGEST_CONFIG:
            raise ValueError("its config is too large")
        config = parse_json(archive.read(_CONFIG))
        if not isinstance(config, dict):
            raise ValueError("its config is not an object")
        return KerasArchive(config, archive.getinfo(_WEIGHTS).file_size)


def weights_file(file: bytes) -> bytes:
    """Return the part of a `.keras` file with the weights, an HDF5 file.

    The config is not read.

    Raises:
        Exception: any type, as `read_archive` does.
    """
    with _opened(file) as archive:
        return archive.read(_WEIGHTS)


def _opened(file: bytes) -> zipfile.ZipFile:
    """Return a `.keras` file, opened, whose parts are not much larger than it."""
    archive = zipfile.ZipFile(io.BytesIO(file))
    parts = archive.infolist()
    if sum(part.file_size for part in parts) > _GROWTH * len(file) + 2**20:
        raise ValueError("its parts are much larger than the file")
    # Other compression methods may expand without bound in one step.
    known = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
    if any(part.compress_type not in known for part in parts):
        raise ValueError("it is compressed in another way")
    return archive


def check_classes(
    name: str, config: Mapping[str, Any], module: str | None = None
) -> bool:
    """Check that all classes in a model's config are safe to make.

    Args:
        name: name of the file, for messages.
        config: config of the model.
        module: module of the classes for which the config doesn't name one.
    Returns:
        Whether all of them are Keras' own.
    Raises:
        UserError: there are too many layers; or a class is neither one of Keras' that
            only compute, nor registered with Keras in this process.
    """
    are_keras, n_layers = True, 0
    # Keras doesn't read how the model was compiled.
    for entry in _objects({**config, "compile_config": None}):
        its_module = entry.get("module", module)
        n_layers += its_module == "keras.layers"
        if _is_registered(entry):
            are_keras = False
        elif not _is_keras(entry, its_module):
            raise UserError(
                f"{name}: it has {shown(entry['class_name'])} of the module "
                f"{shown(its_module)}, which is not one of Keras' layers that "
                "only compute: register your own class with Keras before, or give the "
                "function that makes the model, as module:function."
            )
    if n_layers > _MOST_LAYERS:
        raise UserError(
            f"{name}: it has {n_layers:,} layers, more than the {_MOST_LAYERS:,} that "
            "are accepted: merge some of them."
        )
    return are_keras


def _objects(config: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the dicts inside a config that name a class."""
    left = [config]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            if "class_name" in each:
                yield each
            left += each.values()
        elif isinstance(each, list):
            left += each


def _is_keras(entry: Mapping[str, Any], module: Any) -> bool:
    """Return whether an object is a value, or of a class of Keras that computes."""
    kind = entry["class_name"]
    if kind in ("__numpy__", "__tensor__"):  # an item of a text can be of any size
        inner = entry.get("config")
        dtype = inner.get("dtype") if isinstance(inner, dict) else None
        return re.fullmatch(_NUMBERS, str(dtype)) is not None
    if isinstance(kind, str) and kind.startswith("__"):
        return kind in _VALUES
    if not isinstance(kind, str) or not isinstance(module, str):
        return False
    if _MODEL_MODULES.fullmatch(module):
        return kind in _MODELS
    is_class = kind[:1].isupper() and kind not in _REFUSED
    return is_class and _MODULES.fullmatch(module) is not None


def _is_registered(entry: Mapping[str, Any]) -> bool:
    """Return whether Keras takes an object's class from those registered."""
    keras, kind = sys.modules.get("keras"), entry["class_name"]
    key = "config" if kind == "function" else "registered_name"
    # Keras takes what names no module for an object of Keras 2, whatever else it names.
    name = entry.get(key, kind) if "module" in entry else kind
    if not isinstance(name, str) or keras is None or str(kind).startswith("__"):
        return False
    return keras.saving.get_registered_object(name) is not None


def check_size(name: str, shapes: Iterable[tuple[int, ...]], nbytes: int) -> None:
    """Raise UserError if a model needs more weights than the `nbytes` of its file.

    Args:
        name: name of the file, for messages.
        shapes: shapes of the model's weights.
        nbytes: size of the weights in the file, in bytes.
    """
    # A side below 0 would hide the weights of other layers, and NaN all of them.
    sizes = (math.prod(0 if x < 0 else x for x in shape) for shape in shapes)
    if not 4 * sum(sizes) <= nbytes:
        raise UserError(
            f"{name}: its layers have more weights than the file, which has "
            f"{nbytes:,} bytes of them: write it with model.save('NAME.keras')."
        )


@functools.lru_cache(maxsize=4)
def check_stored_weights(file: bytes) -> None:
    """Check that the weights in a `.keras` file are finite numbers of bounded size.

    A child process reads them. A result is cached, as each process reads a file often.

    Raises:
        Exception: any type, if they are damaged, or larger than the file.
    """
    check_all_finite(read_hdf5(weights_file(file)).arrays)


def check_all_finite(arrays: Mapping[str, Array]) -> None:
    """Raise ValueError if an array has a number that is NaN or infinite."""
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise ValueError("it has weights that are not finite")


def unusable(name: str, error: Exception) -> UserError:
    """Return the error for a file of which Keras can't make a model."""
    reason = one_line(error).partition(". ")[0]  # the rest is a config dump
    return UserError(
        f"{name}: Keras can't make the model of it ({reason}); pass "
        "the model or its maker again, where its layers are defined."
    )
