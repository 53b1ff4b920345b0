"""The user's Keras models: saving and loading."""

import json
import os
import random
import re
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xagents_ray.core import objects
from xagents_ray.core.errors import UserError
from xagents_ray.core.process import drawing_by, quiet_stderr
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import FloatArray
from xagents_ray.networks.inputs import NetworkInputs, inputs_of
from xagents_ray.networks.keras_archive import unusable
from xagents_ray.networks.keras_conversion import (
    before_softmax,
    inputs_struct,
    without_softmax,
)
from xagents_ray.networks.keras_layers import CustomClasses, OutputSlice, WholeModel
from xagents_ray.networks.keras_translation import reads_one_array, translated_model
from xagents_ray.networks.layers import Layer
from xagents_ray.networks.layout import Layout

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
with quiet_stderr():  # hides TensorFlow's output during import
    import keras


def model_bytes(model: Any, name: str) -> bytes:
    """Return a Keras model as the content of a `.keras` file.

    Raises:
        UserError: it isn't a model, isn't built, or has weights that aren't float32.
    """
    if not isinstance(model, keras.Model):
        raise UserError(
            f"{name}: {model!r:.80} is no keras.Model; give one, or a function that "
            "returns one."
        )
    if not model.built:
        raise UserError(f"{name}: the model is not built: begin it with keras.Input.")
    if kinds := {str(v.dtype) for v in model.weights} - {"float32"}:
        raise UserError(
            f"{name}: the model has weights of {min(kinds)}: make it in float32; "
            "--precision bfloat16 lets its layers compute in less."
        )
    with tempfile.TemporaryDirectory(prefix="xagents-ray-") as folder:
        path = Path(folder, "model.keras")
        with warnings.catch_warnings():
            # Keras' notice about NumPy 2.
            warnings.simplefilter("ignore", DeprecationWarning)
            model.save(path)
        return path.read_bytes()


def _opened(
    name: str, file: bytes, is_own: bool, custom: dict[str, Any] | None = None
) -> Any:
    """Return the model in a `.keras` file; `is_own` is that of `WholeModel`."""
    with tempfile.TemporaryDirectory(prefix="xagents-ray-") as folder:
        path = Path(folder, "model.keras")
        path.write_bytes(file)
        try:
            return keras.saving.load_model(
                path, custom, compile=False, safe_mode=not is_own
            )
        except Exception as error:
            raise unusable(name, error) from None


def weights_of(
    name: str, file: bytes, layout: Layout, redrawn: str | None = None
) -> dict[str, FloatArray]:
    """Return the weights in a `.keras` file, by their names in the layout.

    If `redrawn` is a seed, the model's initializers draw new weights from it.
    """
    own = layout.layers[0]
    whole = own if isinstance(own, WholeModel) else None
    custom = None if whole is None else whole.custom.load()
    is_own = whole is not None and whole.is_own
    model = _opened(name, file, is_own, custom)
    if redrawn is not None:
        model = _redrawn(model, custom, redrawn, is_own)
    if whole is not None:
        model, _ = without_softmax(model)  # Keras orders weights by layer depth
    return dict(zip(layout.shapes, model.get_weights(), strict=True))


def user_variables(model: Any, spec: EnvSpec, action_units: int = 0) -> dict[str, Any]:
    """Return the variables of a user's Keras model by their names in its layout.

    Args:
        model: the model.
        spec: spec of the environment.
        action_units: size of the action that follows the observation vector; 0 for
            none.
    """
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(model)))
    network = translated_model(config, inputs_of(spec, action_units))
    if network is not None:
        names = [name for layer in network.layers for name in layer.shapes]
        return dict(zip(names, model.weights, strict=True))
    ends = [before_softmax(x) for x in model.outputs]
    variables = keras.Model(model.inputs, ends).weights
    named = _named_shapes(variables)
    return {name: each for (name, _), each in zip(named, variables, strict=True)}


def redrawn_model(model: Any, seed: str) -> Any:
    """Return a copy of a user's Keras model with new weights, drawn from a seed."""
    custom = _user_kinds(model._flatten_layers(include_self=False))
    return _redrawn(model, custom, seed, is_own=True)


def _user_kinds(layers: Sequence[Any]) -> dict[str, Any]:
    """Return the classes of layers from outside Keras, by the names they load by."""
    kinds = {type(x) for x in layers if not type(x).__module__.startswith("keras.")}
    return {keras.saving.get_registered_name(kind): kind for kind in kinds}


def _redrawn(model: Any, custom: dict[str, Any] | None, seed: str, is_own: bool) -> Any:
    """Return a model with new weights; `seed` replaces its initializers' seeds."""
    config = keras.saving.serialize_keras_object(model)
    draws = random.Random(seed)
    with drawing_by(seed):  # for random numbers without a seed in the config
        return keras.saving.deserialize_keras_object(
            _reseeded(config, draws), custom, safe_mode=not is_own
        )


def _reseeded(config: Any, draws: random.Random) -> Any:
    """Return a Keras config with new seeds."""
    if isinstance(config, list | tuple):
        return [_reseeded(each, draws) for each in config]
    if not isinstance(config, dict):
        return config
    return {
        key: draws.randrange(1, 2**31)
        if key == "seed" and not isinstance(value, dict)
        else _reseeded(value, draws)
        for key, value in config.items()
    }


def _is_own(name: str, file: bytes) -> bool:
    """Return whether code of this run made a model; a file of Keras 2 is no code."""
    is_kept = objects.find_kept("network-file", name) is file
    return is_kept and not name.endswith(".h5")


def whole_model(
    name: str, file: bytes, inputs: NetworkInputs
) -> tuple[tuple[Layer, ...], tuple[int, ...], dict[str, tuple[int, ...]]]:
    """Return a model that NumPy can't compute as a `keras_files.KerasNetwork`."""
    is_own = _is_own(name, file)
    model = _opened(name, file, is_own)
    shapes = named_inputs(model)
    is_known = len(shapes) == 1 or bool(inputs.parts)
    if not is_known or any(len(x.shape) != 2 for x in model.outputs):
        every = ", ".join(str(tuple(x.shape)) for x in (*model.inputs, *model.outputs))
        raise UserError(
            f"{name}: a network has one input, and outputs of the form (None, units); "
            f"this one has {every}."
        )
    named = [] if reads_one_array(shapes, inputs) else [*shapes]
    parts = tuple(inputs.parts[name] for name in named if name in inputs.parts)
    config = json.dumps(keras.saving.serialize_keras_object(model))
    model, activations = without_softmax(model)
    layers = model._flatten_layers(include_self=False)
    _check_regularizers(name, layers)
    units = [int(x.shape[-1]) for x in model.outputs]
    whole = WholeModel(
        name="model-0",
        source=-1,
        output_shape=(sum(units),),
        model=name,
        config=config,
        custom=CustomClasses(_user_kinds(layers)),
        weights=_named_shapes(model.weights),
        is_own=is_own,
        parts=parts,
    )
    slices = [
        OutputSlice(
            name=f"part-{i}",
            source=0,
            output_shape=(n,),
            first=sum(units[:i]),
            activation=activations[i],
            is_linear=activations[i] == "linear" and _is_linear(model.outputs[i]),
        )
        for i, n in enumerate(units)
    ]
    ends = tuple(range(1, len(slices) + 1))
    return (whole, *slices), ends, shapes


def _check_regularizers(name: str, layers: Sequence[Any]) -> None:
    """Raise UserError for a layer that regularizes its activity."""
    for layer in layers:
        if layer.activity_regularizer is not None:
            raise UserError(
                f"{name}: the activity_regularizer of {layer.name} has no part in an "
                "agent's loss: leave it out, or regularize the layer's weights."
            )


def named_inputs(model: Any) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a model's inputs, without the batch, by name.

    The name is the key in the model's dict of inputs, or that of the layer.
    """
    given = inputs_struct(model)
    pairs = given.items() if isinstance(given, dict) else ()
    keys = {id(each): key for key, each in pairs}
    named = {keys.get(id(x), x._keras_history.operation.name): x for x in model.inputs}
    return {name: tuple(x.shape[1:]) for name, x in named.items()}


def _named_shapes(variables: Sequence[Any]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return the shapes of variables, by names that are the same in each process."""
    # Keras numbers unnamed variables per process.
    names = [re.sub(r"^variable_\d+$", "variable", v.name) for v in variables]
    return tuple(
        (f"model-0/{i}-{name}", tuple(variables[i].shape))
        for i, name in enumerate(names)
    )


def _is_linear(output: Any) -> bool:
    """Return whether an output comes from a dense layer without an activation."""
    layer = output._keras_history.operation
    # Other layers and subclasses may bound their outputs.
    is_dense = type(layer) is keras.layers.Dense
    return is_dense and layer.activation is keras.activations.linear
