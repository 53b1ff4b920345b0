"""The convolutional layer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.lib.stride_tricks import as_strided

from xagents_ray.core.trajectory import Array, FloatArray
from xagents_ray.networks.layers.dense import Dense
from xagents_ray.networks.layers.layer import Initializer, Step
from xagents_ray.networks.section import Section


@dataclass(frozen=True, kw_only=True)
class Convolutional(Dense):
    """A dense layer on each square patch of an image, without padding.

    Attributes:
        stride: between patches.
    """

    keys: ClassVar[tuple[str, ...]] = (
        *("filters", "size", "stride"),
        *Section.WEIGHTED,
        "common",
    )
    stride: int

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
        height, width = ((side - size) // stride + 1 for side in shape[:2])
        return cls(
            name=section.name,
            source=source,
            input_shape=shape,
            output_shape=(height, width, count),
            kernel_shape=(size, size, shape[-1], count),
            stride=stride,
            **section.weighted(),
        )

    def bind(self, arrays: Mapping[str, FloatArray], scale: float) -> Step:
        """Return its forward pass in NumPy: one matrix product of all patches."""
        dense = super().bind(arrays, scale)

        def convolution(x: Array) -> FloatArray:
            patches = self._patches(np.ascontiguousarray(x))
            return dense(patches).reshape(-1, *self.output_shape)

        return convolution

    def keras(self, layers: Any, initializer: Initializer) -> Any:
        """Return it as a layer of the module `keras.layers`."""
        size, *_, units = self.kernel_shape
        settings = self._settings(initializer)
        return layers.Conv2D(units, size, self.stride, **settings)

    def _patches(self, x: Array) -> Array:
        """Return the patches of [B, H, W, C] as [B * h * w, size * size * C]."""
        size, _, channels, _ = self.kernel_shape
        b, h, w, c = x.strides
        patches = as_strided(
            x,
            (len(x), *self.output_shape[:2], size, size, channels),
            (b, h * self.stride, w * self.stride, h, w, c),
            writeable=False,
        )
        return patches.reshape(-1, size * size * channels)
