"""Construction of ONNX graphs; imports onnx on demand."""

from collections.abc import Callable, Mapping, Sequence
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

    @property
    def weights(self) -> dict[str, Array]:
        """The float32 arrays by name, without numbers."""
        arrays = self._arrays.items()
        return {name: x for name, x in arrays if x.ndim and x.dtype == np.float32}

    def cast(self, x: str, dtype: Any) -> str:
        """Convert an output to a NumPy dtype; return the result's name."""
        from onnx.helper import np_dtype_to_tensor_dtype

        return self.add("Cast", x, to=np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def model(
        self,
        given: Sequence[tuple[str, Any, tuple[int, ...]]],
        results: Mapping[str, tuple[str, Any, tuple[int, ...]]],
        holds_weights: bool = True,
        **facts: str,
    ) -> Any:
        """Return the graph as an `onnx.ModelProto`.

        Args:
            given: name and dtype of each input, and its shape without the batch.
            results: the model's outputs by name, each with the name of an operation's
                output, its dtype, and its shape without the batch.
            holds_weights: whether the model contains its `weights`; if not, a session
                is given them.
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
            [declared(*each) for each in given],
            [declared(name, *kind) for name, (_, *kind) in results.items()],
            [numpy_helper.from_array(a, name) for name, a in self._arrays.items()],
        )
        for tensor in graph.initializer:
            if not holds_weights and tensor.name in self.weights:
                _leave_out(tensor)
        opsets = [helper.make_opsetid("", _OPSET)]
        return helper.make_model(
            graph, opset_imports=opsets, ir_version=_IR_VERSION, **facts
        )

    def _constant(self, array: Array) -> str:
        name = f"array-{len(self._arrays)}"
        self._arrays[name] = np.array(array, order="C")
        return name


def _leave_out(tensor: Any) -> None:
    """Remove the numbers of an ONNX tensor, which are elsewhere in memory."""
    facts = {"location": "memory", "offset": "0", "length": str(len(tensor.raw_data))}
    tensor.ClearField("raw_data")
    tensor.data_location = type(tensor).EXTERNAL
    for key, value in facts.items():
        tensor.external_data.add(key=key, value=value)


def add_activation(graph: OnnxGraph, activation: str, x: str) -> str:
    """Add an activation, given its Keras name; return the name of its output."""
    return _ACTIVATIONS[activation](graph, x)


def _gelu(graph: OnnxGraph, x: str) -> str:
    scaled = graph.add("Mul", x, np.float32(np.sqrt(0.5)))
    half = graph.add("Mul", x, np.float32(0.5))
    return graph.add(
        "Mul", half, graph.add("Add", graph.add("Erf", scaled), np.float32(1))
    )


def _clip(graph: OnnxGraph, x: str, low: float, high: float) -> str:
    return graph.add("Clip", x, np.float32(low), np.float32(high))


def _halved(graph: OnnxGraph, x: str) -> str:
    return graph.add("Mul", x, np.float32(0.5))


def _log_sigmoid(graph: OnnxGraph, x: str) -> str:
    return graph.add("Neg", graph.add("Softplus", graph.add("Neg", x)))


def _mish(graph: OnnxGraph, x: str) -> str:
    return graph.add("Mul", x, graph.add("Tanh", graph.add("Softplus", x)))


def _sparse_plus(graph: OnnxGraph, x: str) -> str:
    root = _halved(graph, graph.add("Add", _clip(graph, x, -1, 1), np.float32(1)))
    above = graph.add("Relu", graph.add("Sub", x, np.float32(1)))
    return graph.add("Add", graph.add("Mul", root, root), above)


def _sparsemax(graph: OnnxGraph, x: str) -> str:
    """Add `activations._sparsemax`, which compares all numbers in place of sorting.

    Equal numbers follow each other in the cumulative sums, so on average each of `m`
    adds half of `m + 1` times itself.
    """
    last, one = np.array([-1]), np.float32(1)
    this = graph.add("Unsqueeze", x, last)
    other = graph.add("Unsqueeze", x, np.array([-2]))
    larger, equal = (
        graph.cast(graph.add(compare, other, this), np.float32)
        for compare in ("Greater", "Equal")
    )
    products = graph.add("Mul", larger, other)
    above, count, equals = (
        graph.add("ReduceSum", each, last, keepdims=0)
        for each in (products, larger, equal)
    )
    own = graph.add("Mul", x, _halved(graph, graph.add("Add", equals, one)))
    sums = graph.add("Add", above, own)
    gap = graph.add("Sub", graph.add("Mul", x, count), above)
    is_nonzero = graph.cast(graph.add("Greater", gap, np.float32(-1)), np.float32)
    total, nonzero = (
        graph.add("ReduceSum", each, last, keepdims=1)
        for each in (graph.add("Mul", is_nonzero, sums), is_nonzero)
    )
    threshold = graph.add("Div", graph.add("Sub", total, one), nonzero)
    return graph.add("Relu", graph.add("Sub", x, threshold))


def _squareplus(graph: OnnxGraph, x: str) -> str:
    square = graph.add("Add", graph.add("Mul", x, x), np.float32(4))
    return _halved(graph, graph.add("Add", x, graph.add("Sqrt", square)))


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
    "celu": lambda graph, x: graph.add("Elu", x),
    "exponential": lambda graph, x: graph.add("Exp", x),
    "hard_shrink": lambda graph, x: graph.add("Shrink", x, bias=0.0, lambd=0.5),
    "hard_sigmoid": lambda graph, x: graph.add("HardSigmoid", x, alpha=1 / 6),
    "hard_silu": lambda graph, x: graph.add("HardSwish", x),
    "hard_tanh": lambda graph, x: _clip(graph, x, -1, 1),
    "log_sigmoid": _log_sigmoid,
    "log_softmax": lambda graph, x: graph.add("LogSoftmax", x, axis=-1),
    "mish": _mish,
    "relu6": lambda graph, x: _clip(graph, x, 0, 6),
    "soft_shrink": lambda graph, x: graph.add("Shrink", x, bias=0.5, lambd=0.5),
    "softsign": lambda graph, x: graph.add("Softsign", x),
    "sparse_plus": _sparse_plus,
    "sparse_sigmoid": lambda graph, x: graph.add("HardSigmoid", x, alpha=0.5),
    "sparsemax": _sparsemax,
    "squareplus": _squareplus,
    "tanh_shrink": lambda graph, x: graph.add("Sub", x, graph.add("Tanh", x)),
}
