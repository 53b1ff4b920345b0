"""Construction of ONNX graphs; imports onnx on demand."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xagents_ray.core.trajectory import Array

_OPSET, _IR_VERSION = 17, 8
"""Versions of 2022, which newer runtimes support."""


class OnnxGraph:
    """An ONNX graph under construction: operations in order, and constant arrays."""

    def __init__(self) -> None:
        self._operations: list[tuple[str, list[str], str, dict[str, Any]]] = []
        self._arrays: dict[str, Array] = {}

    def add(self, operation: str, *inputs: str | Array, **attributes: Any) -> str:
        """Add an ONNX operation; return the name of its output.

        The inputs are names of other outputs, or constant arrays.
        """
        names = [x if isinstance(x, str) else self._constant(x) for x in inputs]
        output = f"{operation.lower()}-{len(self._operations)}"
        self._operations.append((operation, names, output, attributes))
        return output

    def cast(self, x: str, dtype: Any) -> str:
        """Convert an output to a NumPy dtype; return the result's name."""
        from onnx.helper import np_dtype_to_tensor_dtype

        return self.add("Cast", x, to=np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def model(
        self,
        given: tuple[str, Any, tuple[int, ...]],
        results: Mapping[str, tuple[str, Any, tuple[int, ...]]],
        **facts: str,
    ) -> Any:
        """Return the graph as an `onnx.ModelProto`.

        Args:
            given: name and dtype of the input, and its shape without the batch.
            results: the model's outputs by name, each with the name of an operation's
                output, its dtype, and its shape without the batch.
            facts: fields of the model, such as `doc_string` or `producer_name`.
        """
        from onnx import helper, numpy_helper

        def declared(name: str, dtype: Any, shape: tuple[int, ...]) -> Any:
            kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
            return helper.make_tensor_value_info(name, kind, ["batch", *shape])

        nodes = [
            helper.make_node(operation, inputs, [output], **attributes)
            for operation, inputs, output, attributes in self._operations
        ]
        nodes += [
            helper.make_node("Identity", [output], [name])
            for name, (output, *_) in results.items()
        ]
        graph = helper.make_graph(
            nodes,
            "policy",
            [declared(*given)],
            [declared(name, *kind) for name, (_, *kind) in results.items()],
            [numpy_helper.from_array(a, name) for name, a in self._arrays.items()],
        )
        opsets = [helper.make_opsetid("", _OPSET)]
        return helper.make_model(
            graph, opset_imports=opsets, ir_version=_IR_VERSION, **facts
        )

    def _constant(self, array: Array) -> str:
        name = f"array-{len(self._arrays)}"
        self._arrays[name] = np.array(array, order="C")
        return name


def add_activation(graph: OnnxGraph, activation: str, x: str) -> str:
    """Add an activation, given its Keras name; return the name of its output."""
    return _ACTIVATIONS[activation](graph, x)


def _gelu(graph: OnnxGraph, x: str) -> str:
    scaled = graph.add("Mul", x, np.float32(np.sqrt(0.5)))
    half = graph.add("Mul", x, np.float32(0.5))
    return graph.add(
        "Mul", half, graph.add("Add", graph.add("Erf", scaled), np.float32(1))
    )


_ACTIVATIONS: dict[str, Callable[[OnnxGraph, str], str]] = {
    "linear": lambda graph, x: x,
    "relu": lambda graph, x: graph.add("Relu", x),
    "tanh": lambda graph, x: graph.add("Tanh", x),
    "sigmoid": lambda graph, x: graph.add("Sigmoid", x),
    "softmax": lambda graph, x: graph.add("Softmax", x, axis=-1),
    "elu": lambda graph, x: graph.add("Elu", x),
    "softplus": lambda graph, x: graph.add("Softplus", x),
    "gelu": _gelu,
    "silu": lambda graph, x: graph.add("Mul", x, graph.add("Sigmoid", x)),
    "selu": lambda graph, x: graph.add("Selu", x),
    "leaky_relu": lambda graph, x: graph.add("LeakyRelu", x, alpha=0.2),
}
