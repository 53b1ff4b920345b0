"""The user's whole Keras models as parts of a network."""

import contextlib
import functools
import json
import os
from collections.abc import Callable
from typing import Any

from xagents_ray.core.process import quiet_stderr
from xagents_ray.core.trajectory import FloatArray
from xagents_ray.networks.keras_conversion import without_softmax
from xagents_ray.networks.keras_layers import WholeModel
from xagents_ray.networks.layout import Layout

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
with quiet_stderr():  # hides TensorFlow's output during import
    import keras
    import tensorflow as tf


def _made(whole: WholeModel) -> Any:
    """Return a new instance of the model, with new weights."""
    config, custom = json.loads(whole.config), whole.custom.load()
    return keras.saving.deserialize_keras_object(
        config, custom_objects=custom, safe_mode=not whole.is_own
    )


@functools.lru_cache(maxsize=8)
def saved_model(layout: Layout) -> tuple[Any, dict[str, Any]]:
    """Return a user's whole model as files have it, and its variables by name.

    It is the model that the user gave, with a tanh where the agent bounds an output.

    Args:
        layout: layout of the network, with its softmax.
    """
    whole, *parts = layout.layers
    assert isinstance(whole, WholeModel)
    model = _made(whole)
    ends = [output._keras_history.operation for output in model.outputs]
    learned, _ = without_softmax(model)
    for layer, part in zip(ends, parts, strict=False):  # heads may follow the parts
        if part.activation != "linear" and not isinstance(layer, keras.layers.Softmax):
            layer.activation = keras.activations.get(part.activation)
    return model, dict(zip(whole.shapes, learned.weights, strict=True))


class WholeLayer(keras.layers.Layer):
    """A model as one layer that concatenates its outputs."""

    def __init__(self, whole: WholeModel) -> None:
        super().__init__(name=whole.name)
        self.model, _ = without_softmax(_made(whole))
        self.names = [name for name, _ in whole.weights]

        self._whole = whole

    def call(self, x: Any) -> Any:
        """Return float32 [B, units] from [B, *input_shape], or a list of arrays."""
        read = self._whole.parts_of(x) if self._whole.parts else x
        return _joined(self.model(read, training=False))


class SlicedOutput(keras.layers.Layer):
    """A slice of a vector."""

    def __init__(self, first: int, end: int, activation: str, name: str) -> None:
        super().__init__(name=name)
        self._first, self._end = first, end
        self._activate = keras.activations.get(activation)

    def call(self, x: Any) -> Any:
        """Return float32 [B, n] from [B, units]."""
        return self._activate(x[:, self._first : self._end])


def _joined(outputs: Any) -> Any:
    if isinstance(outputs, dict):
        outputs = list(outputs.values())
    if isinstance(outputs, list | tuple):
        return keras.ops.concatenate(list(outputs), axis=-1)
    return outputs


def set_threads(within: int, across: int) -> None:
    """Set TensorFlow's threads, unless the user has, or it is in use already.

    Args:
        within: number of threads that share an operation.
        across: number of operations that run at once.
    """
    threading = tf.config.threading
    set_within = threading.get_intra_op_parallelism_threads()
    if set_within or threading.get_inter_op_parallelism_threads():
        return
    with contextlib.suppress(RuntimeError):
        threading.set_intra_op_parallelism_threads(within)
        threading.set_inter_op_parallelism_threads(across)


@functools.lru_cache(maxsize=8)
def forward_function(
    whole: WholeModel,
) -> Callable[[list[FloatArray], Any], tf.Tensor]:
    """Return the model as a function of its weights and inputs [B, *input_shape].

    If it reads named parts, the inputs are a list of these.
    """
    set_threads(1, 1)
    model, _ = without_softmax(_made(whole))
    held = {id(v): i for i, v in enumerate(model.weights)}

    @tf.function(reduce_retracing=True)
    def outputs(weights: list[tf.Tensor], x: tf.Tensor) -> tf.Tensor:
        learned, others = (
            # The state of a random generator isn't among the weights.
            [weights[held[id(v)]] if id(v) in held else v.value for v in variables]
            for variables in (model.trainable_variables, model.non_trainable_variables)
        )
        found, _ = model.stateless_call(learned, others, x, training=False)
        return _joined(found)

    def call(weights: list[FloatArray], x: Any) -> tf.Tensor:
        return outputs(*tf.nest.map_structure(tf.constant, (weights, x)))

    return call
