"""Recurrent layers, which give a network memory: LSTM and GRU."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pkgutil import resolve_name
from typing import Any, ClassVar

import numpy as np

from xagents_ray.core.trajectory import Array, FloatArray
from xagents_ray.networks.layers import Dense, Initializer, Layer, Step, product_with
from xagents_ray.networks.layout import Layout
from xagents_ray.networks.onnx import OnnxGraph
from xagents_ray.networks.section import Section

_KERAS = "xagents_ray.networks.keras_recurrent:"
_Advance = Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]
"""Returns output and next state, given the input's product and the state."""


@dataclass(frozen=True, kw_only=True)
class Recurrent(Layer):
    """A layer whose output depends on a state, which it advances at each step.

    Its Keras layer computes whole sequences and is called with two more arguments: the
    state before the first row, float32 [B, state_units], and `starts`, bool [T, B].
    Inputs and outputs are [T * B, ...], time-major. The state is zeroed at rows where
    an episode starts. It returns the output and the state after the last row.
    """

    keys = ("units", "initializer", "gain", "common")
    gates: ClassVar[int]  # number of products with the input for each unit
    inputs: int  # size of the input vector
    initializer: str  # the kernel's, one of `known_initializers`
    gain: float  # for an orthogonal initializer, or one of the user's

    @classmethod
    def read(
        cls, section: Section, source: int, shape: tuple[int, ...], units: int | None
    ) -> "Recurrent":
        """Return the layer of a section."""
        if len(shape) != 1:
            raise section.error("", "a recurrent layer needs a [flatten-0] before it")
        count = (section.number("units"),)
        weighted = section.weighted()
        if weighted["initializer"] == "identity":
            raise section.error("initializer", "identity is for dense layers only")
        return cls(source=source, output_shape=count, inputs=shape[0], **weighted)

    @property
    def units(self) -> int:
        """Size of the output."""
        return self.output_shape[0]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the weights by name, as Keras has them."""
        width = self.gates * self.units
        return {
            f"{self.name}/kernel": (self.inputs, width),
            f"{self.name}/recurrent_kernel": (self.units, width),
            f"{self.name}/bias": self._bias_shape,
        }

    @property
    def flops(self) -> int:
        """Return the floating-point operations of the product with one input.

        The product with the state is computed row by row, which threads don't share.
        """
        return 2 * self.gates * self.units * self.inputs

    @property
    @abstractmethod
    def _bias_shape(self) -> tuple[int, ...]:
        """Shape of the bias."""

    @abstractmethod
    def _advancing(self, kernel: FloatArray, bias: FloatArray) -> _Advance:
        """Return the step in NumPy, given the recurrent kernel and the bias."""

    @abstractmethod
    def _onnx_advance(
        self, graph: OnnxGraph, x: str, state: str, kernel: FloatArray, bias: FloatArray
    ) -> tuple[str, str]:
        """Add the same step to an ONNX graph; return the names of its results."""

    def onnx_step(
        self, graph: OnnxGraph, x: str, state: str, arrays: Mapping[str, FloatArray]
    ) -> tuple[str, str]:
        """Add a step to an ONNX graph; return the names of output and next state."""
        kernel, recurrent, bias = (arrays[name] for name in self.shapes)
        x = graph.add("MatMul", x, kernel)
        return self._onnx_advance(graph, x, state, recurrent, bias)

    def bind(self, arrays: Mapping[str, FloatArray], scale: float) -> Step:
        """Return a step in NumPy; its input is multiplied by `scale`.

        It maps [B, inputs] and the state, float32 [B, state_units], to float32
        [B, units] and the next state.
        """
        kernel, recurrent, bias = (arrays[name] for name in self.shapes)
        if scale != 1:
            kernel = kernel * np.float32(scale)
        product, advance = product_with(kernel), self._advancing(recurrent, bias)

        def step(x: Array, state: FloatArray) -> tuple[FloatArray, FloatArray]:
            if x.dtype != np.float32:
                x = x.astype(np.float32)
            return advance(product(x), state)

        return step  # type: ignore[return-value]


@dataclass(frozen=True, kw_only=True)
class LSTM(Recurrent):
    """A long short-term memory; its state is the output and the cell, in this order.

    Weights are those of `keras.layers.LSTM`: input, forget, cell and output gate.

    Source: Hochreiter and Schmidhuber, Neural Computation 9(8), 1997; the forget gate
    is that of Gers et al., 2000, with a bias of 1 at first.
    """

    gates = 4

    @property
    def state_units(self) -> int:
        """Size of output and cell."""
        return 2 * self.units

    @property
    def _bias_shape(self) -> tuple[int, ...]:
        return (4 * self.units,)

    def keras(self, layers: Any, initializer: Initializer) -> Any:
        """Return the equivalent Keras layer."""
        return resolve_name(f"{_KERAS}KerasLSTM")(self, initializer)

    def _advancing(self, kernel: FloatArray, bias: FloatArray) -> _Advance:
        u = self.units

        def advance(x: FloatArray, state: FloatArray) -> tuple[FloatArray, FloatArray]:
            x += state[:, :u].dot(kernel)
            x += bias
            gates = _sigmoid(x[:, : 2 * u])
            new = np.tanh(x[:, 2 * u : 3 * u])
            new *= gates[:, :u]
            after = np.empty_like(state)
            cell = np.multiply(gates[:, u:], state[:, u:], out=after[:, u:])
            cell += new
            y: FloatArray = np.tanh(cell)
            y *= _sigmoid(x[:, 3 * u :])
            after[:, :u] = y
            return y, after

        return advance

    def _onnx_advance(
        self, graph: OnnxGraph, x: str, state: str, kernel: FloatArray, bias: FloatArray
    ) -> tuple[str, str]:
        h, c = (_slice(graph, state, i, self.units) for i in range(2))
        z = graph.add("Add", x, graph.add("MatMul", h, kernel))
        z = graph.add("Add", z, bias)
        i, f, g, o = (
            graph.add("Tanh" if k == 2 else "Sigmoid", _slice(graph, z, k, self.units))
            for k in range(4)
        )
        c = graph.add("Add", graph.add("Mul", f, c), graph.add("Mul", i, g))
        y = graph.add("Mul", o, graph.add("Tanh", c))
        return y, graph.add("Concat", y, c, axis=1)


@dataclass(frozen=True, kw_only=True)
class GRU(Recurrent):
    """A gated recurrent unit; its state is its output.

    Weights are those of `keras.layers.GRU`: update gate, reset gate and new state; the
    reset gate is applied after the product.

    Source: arXiv:1406.1078.
    """

    gates = 3

    @property
    def state_units(self) -> int:
        """Size of the output."""
        return self.units

    @property
    def _bias_shape(self) -> tuple[int, ...]:
        return (2, 3 * self.units)

    def keras(self, layers: Any, initializer: Initializer) -> Any:
        """Return the equivalent Keras layer."""
        return resolve_name(f"{_KERAS}KerasGRU")(self, initializer)

    def _advancing(self, kernel: FloatArray, bias: FloatArray) -> _Advance:
        u = self.units

        def advance(x: FloatArray, state: FloatArray) -> tuple[FloatArray, FloatArray]:
            x += bias[0]
            products: FloatArray = state.dot(kernel)
            products += bias[1]
            gates = _sigmoid(x[:, : 2 * u] + products[:, : 2 * u])
            new = gates[:, u:]
            new *= products[:, 2 * u :]
            new += x[:, 2 * u :]
            new = np.tanh(new)
            y: FloatArray = state - new
            y *= gates[:, :u]
            y += new
            return y, y.copy()  # the caller may change either

        return advance

    def _onnx_advance(
        self, graph: OnnxGraph, x: str, state: str, kernel: FloatArray, bias: FloatArray
    ) -> tuple[str, str]:
        read = graph.add("Add", x, bias[0])
        kept = graph.add("Add", graph.add("MatMul", state, kernel), bias[1])
        parts = [
            [_slice(graph, each, k, self.units) for k in range(3)]
            for each in (read, kept)
        ]
        (xz, xr, xn), (hz, hr, hn) = parts
        z = graph.add("Sigmoid", graph.add("Add", xz, hz))
        r = graph.add("Sigmoid", graph.add("Add", xr, hr))
        new = graph.add("Tanh", graph.add("Add", xn, graph.add("Mul", r, hn)))
        change = graph.add("Mul", z, graph.add("Sub", state, new))
        y = graph.add("Add", new, change)
        return y, y


def _sigmoid(x: FloatArray) -> FloatArray:
    """Return the logistic function of numbers, by tanh, which can't overflow."""
    y: FloatArray = np.tanh(x * np.float32(0.5))
    y *= np.float32(0.5)
    y += np.float32(0.5)
    return y


def _slice(graph: OnnxGraph, x: str, index: int, units: int) -> str:
    """Return the name of a part of [B, n * units] in an ONNX graph: [B, units]."""
    begin = index * units
    end = np.array([begin + units])
    return graph.add("Slice", x, np.array([begin]), end, np.array([1]))


def with_memory(layout: Layout, kind: type[Recurrent], units: int) -> Layout:
    """Return a network with a recurrent layer before its outputs.

    Outputs that read the same layer share one; they must be dense.

    Args:
        layout: the network.
        kind: class of the new layers.
        units: the number of units of each new layer.
    """
    layers: list[Layer] = []
    places: dict[int, int] = {}
    made: dict[tuple[int, ...], int] = {}
    for i, layer in enumerate(layout.layers):
        moved = layer.moved(places)
        if i in layout.outputs:
            assert isinstance(layer, Dense)
            if moved.sources not in made:
                number = f"-{len(made) + 1}" if made else ""
                added = kind(
                    name=f"{kind.__name__.lower()}-0{number}",
                    source=moved.source,
                    more_sources=moved.more_sources,
                    output_shape=(units,),
                    inputs=layer.kernel_shape[0],
                    initializer="glorot_uniform",
                    gain=1.0,
                )
                made[moved.sources] = len(layers)
                layers.append(added)
            shape = (units, *layer.kernel_shape[1:])
            source = made[moved.sources]
            moved = replace(layer, source=source, more_sources=(), kernel_shape=shape)
        places[i] = len(layers)
        layers.append(moved)
    outputs = tuple(places[i] for i in layout.outputs)
    return replace(layout, layers=tuple(layers), outputs=outputs)
