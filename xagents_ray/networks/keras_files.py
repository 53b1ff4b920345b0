"""Networks from `.keras` files, read without TensorFlow.

Layers that NumPy supports are converted to this package's layers. Their names, such as
`dense-0`, depend only on kind and order, so weights fit regardless of Keras' names.
"""

from collections.abc import Mapping, Sequence
from pkgutil import resolve_name
from typing import Any

from xagents_ray.core import objects
from xagents_ray.core.errors import UserError
from xagents_ray.core.files import read_regular
from xagents_ray.core.installation import is_complete
from xagents_ray.networks import keras_archive
from xagents_ray.networks.inputs import NetworkInputs
from xagents_ray.networks.keras_translation import (
    KerasNetwork,
    reads_one_array,
    translated_model,
)
from xagents_ray.networks.layers import Layer


def content(name: str | None) -> bytes | None:
    """Return a Keras file's content, given its path or the name of a Python object.

    Return None for a .cfg file or if the name is None.

    Raises:
        UserError: the file can't be read.
    """
    if name is None:
        return None
    kept: bytes | None = objects.find_kept("network-file", name)
    if kept is not None or not name.endswith(".keras"):
        return kept
    try:
        return read_regular(name)
    except OSError as error:
        raise unreadable(name, error) from None


def unreadable(name: str, error: OSError) -> UserError:
    """Return the error for a network's file that can't be read."""
    return UserError(
        f"{name}: can't be read ({error.strerror}); give the path of a .cfg or "
        ".keras file."
    )


def read_keras_layers(
    name: str,
    file: bytes,
    inputs: NetworkInputs,
    outputs: Sequence[int],
) -> tuple[tuple[Layer, ...], tuple[int, ...]]:
    """Return the layers of a Keras file and the indices of the output layers.

    A file that wasn't made in this run may have layers of Keras only, or registered
    ones, and its weights must be as large as the layers need.

    Args:
        name: name of the file, for messages.
        file: content of the file.
        inputs: the inputs of the network: an array, or parts of it by their names.
        outputs: units of each output, in order.
    Raises:
        UserError: the file is invalid, has other layers, or its inputs or outputs have
            other sizes.
    """
    largest: int | None = None
    try:
        config, nbytes = keras_archive.read_archive(file)
        if objects.find_kept("network-file", name) is not file:
            # Own classes may make weights in ways that can't be counted.
            largest = nbytes if keras_archive.check_classes(name, config) else None
            if is_complete():  # else nothing can read them
                keras_archive.check_stored_weights(file)
        network = translated_model(config, inputs)
    except UserError:
        raise
    except Exception:  # zipfile and zlib raise anything at a damaged file
        raise UserError(
            f"{name}: not a Keras model, or a damaged one; write it with "
            "model.save('NAME.keras')."
        ) from None
    if network is None:
        network = _whole(name, file, config, inputs, largest)
    _check_inputs(name, network, inputs)
    _check_outputs(name, network, outputs)
    if largest is not None:
        shapes = (x for layer in network.layers for x in layer.shapes.values())
        keras_archive.check_size(name, shapes, largest)
    return network.layers, network.outputs


def _whole(
    name: str,
    file: bytes,
    config: Mapping[str, Any],
    inputs: NetworkInputs,
    largest: int | None,
) -> KerasNetwork:
    """Return a model that NumPy can't compute, which Keras reads.

    Args:
        name: name of the file, for messages.
        file: content of the file.
        config: config of the model in it.
        inputs: the inputs of the network.
        largest: maximum size of its weights, in bytes; None for any.
    """
    if largest is not None:
        check = resolve_name("xagents_ray.networks.keras_limits:check_weights")
        check(name, config, largest)
    whole = resolve_name("xagents_ray.networks.keras_models:whole_model")
    return KerasNetwork(*whole(name, file, inputs))


def _check_inputs(name: str, model: KerasNetwork, inputs: NetworkInputs) -> None:
    """Raise UserError if the model's inputs don't fit the network's."""
    shape = inputs.arrays[0].shape
    if reads_one_array(model.inputs, inputs):
        return
    if not inputs.has_several_arrays and len(model.inputs) == 1:
        (found,) = model.inputs.values()
        raise UserError(
            f"{name}: the model reads {_shown(found)} and the network's "
            f"input here is {_shown(shape)}: build it on keras.Input({shape})."
        )
    for each, found in model.inputs.items():
        part = inputs.parts.get(each)
        if part is None:
            known = ", ".join(inputs.parts) or "none"
            raise UserError(
                f"{name}: the model has an input {each!r:.80} and the observation has "
                f"{known}: name its inputs like these, as in keras.Input(…, name=…)."
            )
        if part.shape != found:
            raise UserError(
                f"{name}: the model reads {_shown(found)} as {each} and this is "
                f"{_shown(part.shape)}: build it on keras.Input({part.shape})."
            )


def _check_outputs(name: str, model: KerasNetwork, outputs: Sequence[int]) -> None:
    """Raise UserError if the model's outputs don't fit the agent."""
    found = [model.layers[i].output_shape for i in model.outputs]
    if found != [(units,) for units in outputs]:
        needed = " and ".join(f"{units} units" for units in outputs)
        raise UserError(
            f"{name}: the model's outputs are {' and '.join(map(_shown, found))} and "
            f"this agent needs {len(outputs)}, in this order: {needed}; "
            "feature_maker= adds them to a model without."
        )


def _shown(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "one number"
