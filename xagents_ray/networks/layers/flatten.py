"""The layer that turns images into vectors."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xagents_ray.core.trajectory import FloatArray
from xagents_ray.networks.layers.layer import Initializer, Layer, Step
from xagents_ray.networks.section import Section


@dataclass(frozen=True, kw_only=True)
class Flatten(Layer):
    """Joins all axes but the batch."""

    @classmethod
    def read(
        cls, section: Section, source: int, shape: tuple[int, ...], units: int | None
    ) -> "Flatten":
        """Return the layer of a section."""
        joined, name = (math.prod(shape),), section.name
        return cls(name=name, source=source, input_shape=shape, output_shape=joined)

    def bind(self, arrays: Mapping[str, FloatArray], scale: float) -> Step:
        """Return its forward pass in NumPy; it has no weights to scale."""
        return lambda x: x.reshape(len(x), -1)

    def keras(self, layers: Any, initializer: Initializer) -> Any:
        """Return it as a layer of the module `keras.layers`."""
        return layers.Flatten(name=self.name)
