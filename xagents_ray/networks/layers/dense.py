"""The dense layer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from xagents_ray.core.trajectory import Array, FloatArray
from xagents_ray.networks.layers.activations import ACTIVATIONS
from xagents_ray.networks.layers.layer import Initializer, Layer, Step
from xagents_ray.networks.section import Section


@dataclass(frozen=True, kw_only=True)
class Dense(Layer):
    """Reads a vector; it alone can be an output.

    Attributes:
        kernel_shape: its last axis are the units.
        initializer: one of INITIALIZERS, for the kernel.
        gain: of an orthogonal initializer.
    """

    keys: ClassVar[tuple[str, ...]] = ("units", *Section.WEIGHTED, "common", "output")
    kernel_shape: tuple[int, ...]
    initializer: str
    gain: float

    @classmethod
    def read(
        cls, section: Section, source: int, shape: tuple[int, ...], units: int | None
    ) -> "Dense":
        """Return the layer of a section; an output's units need not be there."""
        if len(shape) != 1:
            raise section.error("", "a dense layer needs a [flatten-0] before it")
        if "units" not in section.values and units is None:
            raise section.error("units", "missing; only output=1 layers have none")
        count = section.number("units", units)
        if units is not None and count != units:
            remedy = f"this output needs {units}; leave the key out"
            raise section.error("units", remedy)
        return cls(
            name=section.name,
            source=source,
            input_shape=shape,
            output_shape=(count,),
            kernel_shape=(*shape, count),
            **section.weighted(),
        )

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of kernel and bias by name."""
        kernel, bias = self.kernel_shape, self.kernel_shape[-1:]
        return {f"{self.name}/kernel": kernel, f"{self.name}/bias": bias}

    def bind(self, arrays: Mapping[str, FloatArray], scale: float) -> Step:
        """Return its forward pass in NumPy, of [N, inputs] times a scale."""
        kernel, bias = arrays[f"{self.name}/kernel"], arrays[f"{self.name}/bias"]
        kernel = kernel.reshape(-1, len(bias))
        if scale != 1:
            kernel = kernel * np.float32(scale)
        activate = ACTIVATIONS[self.activation]

        def dense(x: Array) -> FloatArray:
            if x.dtype != np.float32:
                x = x.astype(np.float32)
            y: FloatArray = x @ kernel
            y += bias
            return activate(y)

        return dense

    def keras(self, layers: Any, initializer: Initializer) -> Any:
        """Return it as a layer of the module `keras.layers`."""
        return layers.Dense(self.kernel_shape[-1], **self._settings(initializer))

    def _settings(self, initializer: Initializer) -> dict[str, Any]:
        return {
            "name": self.name,
            "activation": self.activation,
            "kernel_initializer": initializer(self.initializer, self.gain),
        }
