"""Base class of layers, and the built-in kinds: dense, convolutional, flatten."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.lib.stride_tricks import as_strided

from xagents_ray.core.errors import UserError
from xagents_ray.core.trajectory import Array, FloatArray
from xagents_ray.networks.activations import ACTIVATIONS
from xagents_ray.networks.onnx import OnnxGraph, add_activation
from xagents_ray.networks.section import Section

Step = Callable[..., FloatArray]
"""A layer with its weights bound: maps [B, *input] to float32 [B, *output_shape].

Layers with `noise_units` take noise as an optional second argument, float32 [B,
noise_units].
"""
Initializer = Callable[[str, float], Any]
"""Returns a Keras initializer by its name and gain."""
_FEW, _LARGE = 8, 2**19
"""Maximum number of rows, and minimum size of a kernel, of a product in blocks."""
_UNPACKED = 1_000_000
"""Maximum multiplications of a product for which OpenBLAS packs no matrix."""


@dataclass(frozen=True, kw_only=True)
class Layer(ABC):
    """Base of all layers of a network."""

    keys: ClassVar[tuple[str, ...]] = ("common",)  # keys of its .cfg section
    name: str  # name of its .cfg section, such as `dense-0`
    source: int  # index of the layer that it reads; -1 - i for input array i
    output_shape: tuple[int, ...]  # without the batch
    activation: str = "linear"  # one of ACTIVATIONS
    # Indices of further layers that it reads; all inputs are vectors and concatenated.
    more_sources: tuple[int, ...] = ()

    @classmethod
    @abstractmethod
    def read(
        cls, section: Section, source: int, shape: tuple[int, ...], units: int | None
    ) -> "Layer":
        """Return the layer of a section; UserError if it doesn't fit.

        `shape` is the input's shape without the batch; `units` is the number of units
        that the agent requires if the layer is an output, else None.
        """

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the weights by name, `dense-0/kernel`."""
        return {}

    @property
    def sources(self) -> tuple[int, ...]:
        """Indices of all layers and input arrays that it reads."""
        return (self.source, *self.more_sources)

    @property
    def reads_inputs(self) -> bool:
        """Whether it reads a list of all input arrays in place of its source."""
        return False

    @property
    def flops(self) -> int:
        """Return the floating-point operations of the forward pass on one input."""
        return 0

    @property
    def noise_units(self) -> int:
        """Number of standard normal samples that it takes per input as noise."""
        return 0

    @property
    def state_units(self) -> int:
        """Size of the state that it has from step to step; 0 without memory."""
        return 0

    def moved(self, places: Mapping[int, int]) -> "Layer":
        """Return the layer with its sources' indices mapped to new ones.

        Those of input arrays stay.
        """
        source, *more = (i if i < 0 else places[i] for i in self.sources)
        return replace(self, source=source, more_sources=tuple(more))

    def bounded(self) -> "Layer":
        """Return the layer with a tanh if it is known to have no activation."""
        return self

    @abstractmethod
    def bind(self, arrays: Mapping[str, FloatArray], scale: float) -> Step:
        """Return the forward pass in NumPy; its input is multiplied by `scale`."""

    @abstractmethod
    def keras(self, layers: Any, initializer: Initializer) -> Any:
        """Return the equivalent Keras layer; `layers` is `keras.layers`."""

    def onnx(self, graph: OnnxGraph, x: str, arrays: Mapping[str, FloatArray]) -> str:
        """Add the forward pass to an ONNX graph; return the name of its output.

        `x` is the name of its input, and `arrays` are the network's.
        """
        raise UserError(
            f"[{self.name}] can't be exported: {type(self).__name__} layers have no "
            "ONNX form; define their method onnx(graph, x, arrays)."
        )


@dataclass(frozen=True, kw_only=True)
class Flatten(Layer):
    """Flattens all axes except the batch into a vector."""

    @classmethod
    def read(
        cls, section: Section, source: int, shape: tuple[int, ...], units: int | None
    ) -> "Flatten":
        """Return the layer of a section."""
        joined = (math.prod(shape),)
        return cls(name=section.name, source=source, output_shape=joined)

    def bind(self, arrays: Mapping[str, FloatArray], scale: float) -> Step:
        """Return the forward pass in NumPy, without scaling."""
        return lambda x: x.reshape(len(x), -1)

    def keras(self, layers: Any, initializer: Initializer) -> Any:
        """Return the equivalent Keras layer; `layers` is `keras.layers`."""
        return layers.Flatten(name=self.name)

    def onnx(self, graph: OnnxGraph, x: str, arrays: Mapping[str, FloatArray]) -> str:
        """Add the forward pass to an ONNX graph."""
        return graph.add("Flatten", x)


@dataclass(frozen=True, kw_only=True)
class Dense(Layer):
    """A dense layer on a vector; the only built-in kind that can be an output."""

    keys: ClassVar[tuple[str, ...]] = ("units", *Section.WEIGHTED, "common", "output")
    kernel_shape: tuple[int, ...]  # the last axis is the units
    initializer: str  # the kernel's, one of `known_initializers`
    gain: float  # for an orthogonal initializer, or one of the user's

    @classmethod
    def read(
        cls, section: Section, source: int, shape: tuple[int, ...], units: int | None
    ) -> "Dense":
        """Return the layer of a section; an output may omit its units."""
        if len(shape) != 1:
            raise section.error("", "a dense layer needs a [flatten-0] before it")
        if "units" not in section.values and units is None:
            raise section.error("units", "missing; only output=1 layers have none")
        count = section.number("units", units)
        if units is not None and count != units:
            remedy = f"this output needs {units}; leave the key out"
            raise section.error("units", remedy)
        return cls(
            source=source,
            output_shape=(count,),
            kernel_shape=(*shape, count),
            **section.weighted(),
        )

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of kernel and bias by name."""
        kernel, bias = self.kernel_shape, self.kernel_shape[-1:]
        return {f"{self.name}/kernel": kernel, f"{self.name}/bias": bias}

    @property
    def flops(self) -> int:
        """Return the floating-point operations of the forward pass on one input."""
        return 2 * math.prod(self.kernel_shape) * math.prod(self.output_shape[:-1])

    def bounded(self) -> "Dense":
        """Return the layer with a tanh if it has no activation."""
        return replace(self, activation="tanh") if self.activation == "linear" else self

    def bind(self, arrays: Mapping[str, FloatArray], scale: float) -> Step:
        """Return the forward pass in NumPy, from [N, inputs] multiplied by `scale`."""
        kernel, bias = arrays[f"{self.name}/kernel"], arrays[f"{self.name}/bias"]
        kernel = kernel.reshape(-1, len(bias))
        if scale != 1:
            kernel = kernel * np.float32(scale)
        product, activate = product_with(kernel), ACTIVATIONS[self.activation]

        def dense(x: Array) -> FloatArray:
            if x.dtype != np.float32:
                x = x.astype(np.float32)
            y = product(x)
            y += bias
            return activate(y)

        return dense

    def keras(self, layers: Any, initializer: Initializer) -> Any:
        """Return the equivalent Keras layer; `layers` is `keras.layers`."""
        return layers.Dense(self.kernel_shape[-1], **self._settings(initializer))

    def onnx(self, graph: OnnxGraph, x: str, arrays: Mapping[str, FloatArray]) -> str:
        """Add the forward pass to an ONNX graph."""
        product = graph.add("MatMul", x, arrays[f"{self.name}/kernel"])
        y = graph.add("Add", product, arrays[f"{self.name}/bias"])
        return add_activation(graph, self.activation, y)

    def _settings(self, initializer: Initializer) -> dict[str, Any]:
        kernel = initializer(self.initializer, self.gain)
        settings = {"name": self.name, "activation": self.activation}
        return {**settings, "kernel_initializer": kernel}


@dataclass(frozen=True, kw_only=True)
class Convolutional(Dense):
    """A 2D convolution with square kernels and without padding."""

    keys = ("filters", "size", "stride", *Section.WEIGHTED, "common")
    stride: int  # between patches

    @classmethod
    def read(
        cls, section: Section, source: int, shape: tuple[int, ...], units: int | None
    ) -> "Convolutional":
        """Return the layer of a section."""
        if len(shape) != 3:
            raise section.error("", "a convolution needs images; remove the section")
        count, size = section.number("filters"), section.number("size")
        stride = section.number("stride", 1)
        if size > min(shape[:2]):
            remedy = f"{size} is larger than its {shape[0]}x{shape[1]} input"
            raise section.error("size", remedy)
        if (weighted := section.weighted())["initializer"] == "identity":
            raise section.error("initializer", "identity is for dense layers only")
        height, width = ((side - size) // stride + 1 for side in shape[:2])
        return cls(
            source=source,
            output_shape=(height, width, count),
            kernel_shape=(size, size, shape[-1], count),
            stride=stride,
            **weighted,
        )

    def bind(self, arrays: Mapping[str, FloatArray], scale: float) -> Step:
        """Return the forward pass in NumPy: one matrix product of all patches."""
        dense = super().bind(arrays, scale)

        def convolution(x: Array) -> FloatArray:
            patches = self._patches(np.ascontiguousarray(x))
            return dense(patches).reshape(-1, *self.output_shape)

        return convolution

    def keras(self, layers: Any, initializer: Initializer) -> Any:
        """Return the equivalent Keras layer; `layers` is `keras.layers`."""
        size, *_, units = self.kernel_shape
        settings = self._settings(initializer)
        return layers.Conv2D(units, size, self.stride, **settings)

    def onnx(self, graph: OnnxGraph, x: str, arrays: Mapping[str, FloatArray]) -> str:
        """Add the forward pass to an ONNX graph, which has channels first."""
        kernel = arrays[f"{self.name}/kernel"].transpose(3, 2, 0, 1)
        image = graph.add("Transpose", x, perm=[0, 3, 1, 2])
        strides = [self.stride, self.stride]
        bias = arrays[f"{self.name}/bias"]
        y = graph.add("Conv", image, kernel, bias, strides=strides)
        y = graph.add("Transpose", y, perm=[0, 2, 3, 1])
        return add_activation(graph, self.activation, y)

    def _patches(self, x: Array) -> Array:
        """Return patches of [B, H, W, C] as float32 [B * h * w, size * size * C]."""
        size, _, channels, _ = self.kernel_shape
        b, h, w, c = x.strides
        patches = as_strided(
            x,
            (len(x), *self.output_shape[:2], size, size, channels),
            (b, h * self.stride, w * self.stride, h, w, c),
            writeable=False,
        )
        # Converting while copying avoids a second copy.
        copied = patches.astype(np.float32, order="C")
        return copied.reshape(-1, size * size * channels)


def product_with(kernel: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Return a function that multiplies [B, K] by a kernel, [K, N].

    Few rows are multiplied by a large kernel in blocks: for the whole one, OpenBLAS
    would copy it in each call, which takes longer than the product.
    """
    size, units = kernel.shape
    step = 0
    if kernel.size >= _LARGE:
        most = min(128, _UNPACKED // (_FEW * units))
        step = max((n for n in range(32, most + 1) if size % n == 0), default=0)
    if not step:
        return lambda x: x.dot(kernel)  # calls BLAS with less overhead than @
    blocks = kernel.reshape(-1, step, units)

    def product(x: FloatArray) -> FloatArray:
        y: FloatArray
        if 1 < len(x) <= _FEW:
            parts = x.reshape(len(x), -1, step).swapaxes(0, 1)  # [K / step, B, step]
            y = np.matmul(parts, blocks).sum(axis=0)
        else:
            y = x.dot(kernel)
        return y

    return product
