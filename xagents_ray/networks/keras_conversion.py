"""Converts what a user's function returns, or an old file holds, to a Keras model."""

import contextlib
import json
import os
import random
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from xagents_ray.core.errors import UserError, one_line, pluralize
from xagents_ray.core.parsing import parse_json
from xagents_ray.core.process import quiet_stderr
from xagents_ray.networks import keras_archive
from xagents_ray.networks.hdf5 import Hdf5, read_hdf5

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
with quiet_stderr():  # hides TensorFlow's output during import
    import keras

_OLD = "tensorflow.python.keras"
"""The Keras 2 that TensorFlow contains, which drlbox imported."""
_MODEL = "model_weights"
"""Path of a model's weights in its `.h5` file."""


def as_keras_model(given: Any, name: str) -> Any:
    """Return a user's network as a Keras model; other objects are returned unchanged.

    Args:
        given: a model, or a tuple of its input and its outputs, of Keras or of
            `tensorflow.python.keras`.
        name: name of the network, for messages.
    Raises:
        UserError: Keras can't make a model of it.
    """
    try:
        if isinstance(given, tuple) and len(given) == 2:
            first, ends = given
            ends = list(ends) if isinstance(ends, tuple | list) else ends
            given = _model_class(first)(first, ends)
        if type(given).__module__.startswith(_OLD):
            # TensorFlow left out the version, which the old Keras writes into files.
            vars(resolve_name(_OLD)).setdefault("__version__", "2")
            with tempfile.TemporaryDirectory(prefix="xagents-ray-") as folder:
                path = Path(folder, "model.h5")
                given.save(str(path), include_optimizer=False)
                given = keras.models.load_model(path, compile=False, safe_mode=False)
    except Exception as error:
        raise UserError(
            f"{name}: Keras can't make a model of what was returned "
            f"({one_line(error)}): return a keras.Model, or its input and features."
        ) from error
    return given


@contextlib.contextmanager
def drawing_as_python() -> Iterator[None]:
    """Seed TensorFlow by Python's `random` within the block; the old Keras draws by it.

    The state of `random` stays as it is, as Keras draws by that.
    """
    context = resolve_name("tensorflow.python.eager.context:context")()
    state = {name: getattr(context, name, None) for name in ("_seed", "_rng")}
    draws = random.Random()
    draws.setstate(random.getstate())
    context._set_global_seed(draws.getrandbits(31))
    try:
        yield
    finally:
        vars(context).update(state)


def _model_class(tensor: Any) -> Any:
    """Return the class of models with an input tensor: Keras' or the old one."""
    is_old = type(tensor).__module__.startswith(_OLD)
    return resolve_name(f"{_OLD}.models:Model") if is_old else keras.Model


def with_heads(given: Any, units: Sequence[int], name: str) -> Any:
    """Return a model with a dense output per entry of `units` after the features.

    Args:
        given: a Keras model with one output, which all of these follow; or a tuple of
            an input and a feature, or of an input and a feature for each of them.
        units: units of each output, in order.
        name: name of the user's function, for messages.
    Raises:
        UserError: it is something else.
    """
    count = len(units)
    features = as_keras_model(given, name)
    ends = features.outputs if isinstance(features, keras.Model) else ()
    if len(ends) != 1 and not (isinstance(given, tuple) and len(ends) == count):
        raise UserError(
            f"{name}: return a keras.Model with one output, the features, or a tuple "
            f"of its input and {pluralize(count, 'feature')}."
        )
    flat = [x if len(x.shape) == 2 else keras.layers.Flatten()(x) for x in ends]
    flat = flat * count if len(flat) == 1 else flat
    outputs = [keras.layers.Dense(n)(x) for n, x in zip(units, flat, strict=True)]
    return keras.Model(inputs_struct(features), outputs)


def inputs_struct(model: Any) -> Any:
    """Return a model's inputs: a dict if it was made of one, else a list."""
    given = getattr(model, "_inputs_struct", None)
    return given if isinstance(given, dict) else model.inputs


def without_softmax(model: Any) -> tuple[Any, list[str]]:
    """Return a model without final softmaxes, and its outputs' original activations.

    Several inputs become a list.
    """
    activations = [_ended_by_softmax(x) for x in model.outputs]
    before = [before_softmax(x) for x in model.outputs]
    is_changed = any(x is not y for x, y in zip(before, model.outputs, strict=True))
    if is_changed or len(model.inputs) > 1:
        model = keras.Model(model.inputs, before)
    return model, activations


def before_softmax(output: Any) -> Any:
    """Return the input of a softmax layer, or the output itself."""
    layer, node, _ = output._keras_history
    if not isinstance(layer, keras.layers.Softmax):
        return output
    return layer._inbound_nodes[node].input_tensors[0]


def _ended_by_softmax(output: Any) -> str:
    """Return "softmax" or "linear"; remove a softmax activation from the layer."""
    layer = output._keras_history.operation
    if isinstance(layer, keras.layers.Softmax):
        return "softmax"
    if getattr(layer, "activation", None) is not keras.activations.softmax:
        return "linear"
    layer.activation = keras.activations.linear
    return "softmax"


def keras_file_of_h5(name: str, content: bytes) -> bytes:
    """Return the model in a file of Keras 2, `.h5`, as the content of a `.keras` file.

    Raises:
        UserError: the file is damaged, or has no model, or one with other classes than
            those of Keras that only compute, or with more weights than the file.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = _model_of_h5(name, content)
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"{name}: Keras can't make a model of it ({one_line(error)}): write it "
            "with model.save('NAME.keras')."
        ) from None
    to_bytes = resolve_name("xagents_ray.networks.keras_models:model_bytes")
    return to_bytes(model, name)  # type: ignore[no-any-return]


def _model_of_h5(name: str, content: bytes) -> Any:
    """Return the model in an `.h5` file, of which Keras reads the config alone."""
    file = read_hdf5(content, with_texts=True)
    keras_archive.check_all_finite(file.arrays)
    text = "".join(file.names("", "model_config"))
    if not text:
        raise ValueError("it has no model")
    config = parse_json(text)
    keras_archive.check_classes(name, config, module="keras.layers")
    is_sequence = config["class_name"] == "Sequential"
    kind = keras.Sequential if is_sequence else keras.Model

    def make() -> Any:
        own = json.loads(text)["config"]  # a copy, which Keras changes
        return kind.from_config(own)

    nbytes = sum(array.nbytes for array in file.arrays.values())
    resolve_name("xagents_ray.networks.keras_limits:check_model")(name, make, nbytes)
    model = make()
    _load_weights(model, file)
    return model


def _load_weights(model: Any, file: Hdf5) -> None:
    """Assign the weights in a file of Keras 2, which are in the order of the layers.

    Raises:
        ValueError: the file has other layers or weights.
    """
    layers = [layer for layer in model.layers if layer.weights]
    names = [
        [f"{_MODEL}/{layer}/{name}" for name in own]
        for layer in file.names(_MODEL, "layer_names")
        if (own := file.names(f"{_MODEL}/{layer}", "weight_names"))
    ]
    for layer, own in zip(layers, names, strict=True):
        variables = layer.trainable_weights + layer.non_trainable_weights
        for variable, name in zip(variables, own, strict=True):
            variable.assign(file.arrays[name])
        if hasattr(layer, "finalize_state"):
            layer.finalize_state()
