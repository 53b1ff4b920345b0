"""The base of all kinds of layers."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from xagents_ray.core.trajectory import Array, FloatArray
from xagents_ray.networks.section import Section

Step = Callable[[Array], FloatArray]
"""A layer with its weights bound, [B, *input_shape] to float32 [B, *output_shape]."""
Initializer = Callable[[str, float], Any]
"""Returns a Keras initializer by its name and gain."""


@dataclass(frozen=True, kw_only=True)
class Layer(ABC):
    """One layer.

    Attributes:
        keys: of its section in a .cfg file.
        name: its section, `dense-0`.
        source: index of the layer that it reads; -1 for the input.
        input_shape: without the batch.
        output_shape: without the batch.
        activation: one of ACTIVATIONS.
    """

    keys: ClassVar[tuple[str, ...]] = ("common",)
    name: str
    source: int
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    activation: str = "linear"

    @classmethod
    @abstractmethod
    def read(
        cls, section: Section, source: int, shape: tuple[int, ...], units: int | None
    ) -> "Layer":
        """Return the layer of a section; UserError when it doesn't fit.

        Args:
            section: of the .cfg file.
            source: index of the layer that it reads.
            shape: of its input.
            units: that the agent needs of an output; None for other layers.
        """

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of its weights by name, `dense-0/kernel`."""
        return {}

    @abstractmethod
    def bind(self, arrays: Mapping[str, FloatArray], scale: float) -> Step:
        """Return its forward pass in NumPy, of its input times a scale."""

    @abstractmethod
    def keras(self, layers: Any, initializer: Initializer) -> Any:
        """Return it as a layer of the module `keras.layers`."""
