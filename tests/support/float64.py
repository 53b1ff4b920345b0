"""Learning phases computed in float64, where rounding can't hide a difference."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2

from xagents_ray.learners.learner import Learner

_SINGLE, _DOUBLE = types_pb2.DT_FLOAT, types_pb2.DT_DOUBLE
_SUFFIX = "_in_float64"


class DoublePhases:
    """Runs a learner's learning phases in float64, on copies of its variables.

    Attributes:
        variables: the copies by the names of the learner's state.
    """

    def __init__(self, learner: Learner) -> None:
        concrete = learner._phase.get_concrete_function()
        self._learner, self._graph = learner, concrete.graph
        held = {
            name: x.value if hasattr(x, "path") else x  # Keras' variables have a path
            for name, x in learner.state.variables.items()
        }
        self._copies = {
            id(x.handle): tf.Variable(_doubled(x.numpy()), trainable=False)
            for x in (*held.values(), *self._graph.variables)
        }
        self.variables = {name: self._copies[id(x.handle)] for name, x in held.items()}
        self._call = self._imported()

    def learn(self, batch: Any, env_steps: int, version: int) -> None:
        """Run a learning phase of one chunk."""
        data = self._learner._data.of(batch)
        facts = [env_steps, version, len(data.rewards), data.rewards.shape[-1], 0]
        given = self._learner._data.tensors(data), tf.constant(facts, tf.int64)
        self._call(*(_doubled(x.numpy()) for x in tf.nest.flatten(given)))

    def _imported(self) -> Callable[..., Any]:
        """Return the phase's graph as a function, with float64 for each float32."""
        graph = self._graph.as_graph_def()
        for node in graph.node:
            _convert_attributes(node.attr)
        for function in graph.library.function:
            _convert_attributes(function.attr)
            signature = function.signature
            signature.name += _SUFFIX
            for argument in (*signature.input_arg, *signature.output_arg):
                if argument.type == _SINGLE:
                    argument.type = _DOUBLE
            for attributes in function.arg_attr.values():
                _convert_attributes(attributes.attr)
            for node in function.node_def:
                _convert_attributes(node.attr)
        captured = {inner.name: outer for outer, inner in self._graph.captures}
        inputs = [x for x in self._graph.inputs if x.name not in captured]
        ends = [operation.name for operation in self._graph.control_outputs]

        def call(*tensors: tf.Tensor) -> tf.Tensor:
            fed = {x.name: t for x, t in zip(inputs, tensors, strict=True)}
            for name, outer in captured.items():
                copy = self._copies.get(id(outer))
                held = _doubled(outer) if copy is None else copy.handle
                fed[name] = tf.compat.v1.get_default_graph().capture(held)
            done = tf.graph_util.import_graph_def(graph, fed, ends, name="")
            with tf.control_dependencies(done):
                return tf.constant(0)

        specs = [tf.TensorSpec(x.shape, _kind(x.dtype)) for x in inputs]
        return tf.compat.v1.wrap_function(call, specs)


def _kind(dtype: tf.DType) -> tf.DType:
    return tf.float64 if dtype == tf.float32 else dtype


def _doubled(x: Any) -> Any:
    """Return float64 for float32, and anything else as it is."""
    if getattr(x, "dtype", None) == tf.resource:
        return x
    array = np.asarray(x)
    return tf.constant(array.astype(np.float64) if array.dtype == np.float32 else array)


def _convert_attributes(attributes: Mapping[str, Any]) -> None:
    """Replace float32 by float64 in the attributes of a node or function."""
    for value in attributes.values():
        kind = value.WhichOneof("value")
        if kind == "type" and value.type == _SINGLE:
            value.type = _DOUBLE
        elif kind == "tensor" and value.tensor.dtype == _SINGLE:
            array = tf.make_ndarray(value.tensor).astype(np.float64)
            value.tensor.CopyFrom(tf.make_tensor_proto(array))
        elif kind == "func":
            value.func.name += _SUFFIX
            _convert_attributes(value.func.attr)
        elif kind == "list":
            for i, each in enumerate(value.list.type):
                if each == _SINGLE:
                    value.list.type[i] = _DOUBLE
            for function in value.list.func:
                function.name += _SUFFIX
                _convert_attributes(function.attr)
