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

import h5py

from xagents_ray.core.errors import UserError, one_line, pluralize
from xagents_ray.core.process import quiet_stderr

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
with quiet_stderr():  # hides TensorFlow's output during import
    import keras

_OLD = "tensorflow.python.keras"
"""The Keras 2 that TensorFlow contains, which drlbox imported."""


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
    return keras.Model(features.inputs, outputs)


def without_softmax(model: Any) -> tuple[Any, list[str]]:
    """Return a model without final softmaxes, and its outputs' original activations."""
    activations = [_ended_by_softmax(x) for x in model.outputs]
    before = [before_softmax(x) for x in model.outputs]
    if any(x is not y for x, y in zip(before, model.outputs, strict=True)):
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
        UserError: the file is damaged, or has no model or one with code of its own.
    """
    with tempfile.TemporaryDirectory(prefix="xagents-ray-") as folder:
        path = Path(folder, "model.h5")
        path.write_bytes(content)
        try:
            with h5py.File(path) as file:  # Keras 3.10 runs the code of these layers
                config = json.loads(file.attrs["model_config"])
            if '"Lambda"' in json.dumps(config):
                raise ValueError("it has a Lambda layer, which is code")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = keras.models.load_model(path, compile=False)
        except Exception as error:
            raise UserError(
                f"{name}: Keras can't make a model of it ({one_line(error)}): write it "
                "with model.save('NAME.keras')."
            ) from None
    to_bytes = resolve_name("xagents_ray.networks.keras_models:model_bytes")
    return to_bytes(model, name)  # type: ignore[no-any-return]
