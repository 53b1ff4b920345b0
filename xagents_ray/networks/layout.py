"""The layout of a network: its layers, with known shapes, and its inputs."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import psutil

from xagents_ray.core.errors import UserError
from xagents_ray.networks.inputs import InputArray
from xagents_ray.networks.keras_layers import (
    Activation,
    Embedding,
    LayerNorm,
    OutputSlice,
    WholeModel,
)
from xagents_ray.networks.layers import Convolutional, Dense, Flatten, Layer

_BYTES = 16  # of a weight, its gradient and an optimizer's two averages


@dataclass(frozen=True)
class Layout:
    """A network: its layers, the indices of its output layers, and its input.

    If it reads several arrays, shape and scale of the input are those of the first.
    """

    layers: tuple[Layer, ...]
    outputs: tuple[int, ...]
    input_shape: tuple[int, ...]
    scale: float
    """Factor by which inputs are multiplied: 1/255 for uint8."""
    stack: int = 1
    """Number of frames in an input image."""
    softmax: tuple[int, ...] = ()
    """Numbers of the outputs whose softmax was removed."""
    inputs: tuple[InputArray, ...] = ()
    """The arrays that it reads if they are several; see `Layer.source`."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the weights by name, `dense-0/kernel`."""
        return {k: shape for layer in self.layers for k, shape in layer.shapes.items()}

    @property
    def n_weights(self) -> int:
        """Number of parameters."""
        return sum(map(math.prod, self.shapes.values()))

    @cached_property
    def noise_units(self) -> int:
        """Number of standard normal samples that the layers take per input as noise."""
        return sum(layer.noise_units for layer in self.layers)

    @cached_property
    def noise_places(self) -> list[slice | None]:
        """Each layer's slice of a noise vector; None for layers without noise."""
        return _places([layer.noise_units for layer in self.layers])

    @cached_property
    def state_units(self) -> int:
        """Size of the state of its recurrent layers; 0 without memory."""
        return sum(layer.state_units for layer in self.layers)

    @cached_property
    def state_places(self) -> list[slice | None]:
        """Each layer's slice of a state; None for layers without memory."""
        return _places([layer.state_units for layer in self.layers])

    @property
    def arrays(self) -> tuple[InputArray, ...]:
        """The arrays that it reads, one or several."""
        return self.inputs or (InputArray("", self.input_shape, self.scale),)

    def shape_at(self, source: int) -> tuple[int, ...]:
        """Return the shape of what a layer with this source reads."""
        if source < 0:
            return self.arrays[-1 - source].shape
        return self.layers[source].output_shape

    def reached(self, outputs: Sequence[int]) -> list[int]:
        """Return the indices of the layers that outputs depend on, ascending."""
        found, new = set[int](), [*outputs]
        while new:
            if (i := new.pop()) >= 0 and i not in found:
                found.add(i)
                new += self.layers[i].sources
        return sorted(found)

    def pruned(self) -> "Layout":
        """Return the network without the layers that no output depends on."""
        used = self.reached(self.outputs)
        places = {i: place for place, i in enumerate(used)}
        layers = tuple(self.layers[i].moved(places) for i in used)
        outputs = tuple(places[i] for i in self.outputs)
        return replace(self, layers=layers, outputs=outputs)

    @property
    def is_keras_model(self) -> bool:
        """Whether it is a user's whole model, or has no layers that Keras lacks."""
        first, *others = self.layers
        if isinstance(first, WholeModel):
            return all(type(layer) is OutputSlice for layer in others)
        kinds = Dense, Convolutional, Flatten, Activation, Embedding, LayerNorm
        is_chain = not any(layer.more_sources for layer in self.layers)
        is_one_array = not self.inputs and is_chain
        return is_one_array and all(type(layer) in kinds for layer in self.layers)

    def without_softmax(self) -> "Layout":
        """Return the network with the softmax of each output removed."""
        ends = enumerate(self.layers[i] for i in self.outputs)
        found = tuple(n for n, layer in ends if layer.activation == "softmax")
        return self._ending_in("linear", found, self.softmax + found)

    def with_softmax(self) -> "Layout":
        """Return the network with each softmax that was removed."""
        return self._ending_in("softmax", self.softmax, ())

    def _ending_in(
        self, activation: str, numbers: Sequence[int], softmax: tuple[int, ...]
    ) -> "Layout":
        """Return the network with an activation at some of its outputs."""
        ends = {self.outputs[number] for number in numbers}
        layers = tuple(
            replace(layer, activation=activation) if i in ends else layer
            for i, layer in enumerate(self.layers)
        )
        return replace(self, layers=layers, softmax=softmax)

    def bounded(self) -> "Layout":
        """Return the network with a tanh on each linear output."""
        layers = [
            layer.bounded() if i in self.outputs else layer
            for i, layer in enumerate(self.layers)
        ]
        return replace(self, layers=tuple(layers))

    def separated(self) -> "Layout":
        """Return the network with separate layers for each output.

        Shared layers are copied for all outputs but the first: `dense-0-2`.
        """
        return join_branches([(self, number) for number in range(len(self.outputs))])


def _places(sizes: Sequence[int]) -> list[slice | None]:
    """Return each layer's slice of a vector; None for layers without a part of it."""
    ends = itertools.accumulate(sizes)
    pairs = zip(sizes, ends, strict=True)
    return [slice(end - size, end) if size else None for size, end in pairs]


def join_branches(branches: Sequence[tuple[Layout, int]]) -> Layout:
    """Return a network of branches that share no layers.

    Layers that are named like those of an earlier branch are renamed: `dense-0-2`.

    Args:
        branches: for each output, the network that it is from, and its number there.
    """
    layers: list[Layer] = []
    ends: list[int] = []
    for number, (layout, output) in enumerate(branches, 1):
        used = {layer.name for layer in layers}
        places: dict[int, int] = {}
        for i in layout.reached([layout.outputs[output]]):
            layer, places[i] = layout.layers[i].moved(places), len(layers)
            name = f"{layer.name}-{number}" if layer.name in used else layer.name
            layers.append(replace(layer, name=name))
        ends.append(len(layers) - 1)
    first, _ = branches[0]
    return replace(first, layers=tuple(layers), outputs=tuple(ends))


def check_parameters(layout: Layout, name: str, remedy: str = "fewer units") -> None:
    """Raise UserError if this machine's memory can't hold what learning needs.

    Args:
        layout: the network.
        name: name of its file, for the message.
        remedy: change that the message advises, such as `fewer units`.
    """
    needed, there = _BYTES * layout.n_weights, psutil.virtual_memory().total
    if needed > there:
        raise UserError(
            f"{name}: its layers have {layout.n_weights:,} weights, which need "
            f"{needed >> 30:,} GiB for learning and this machine has {there >> 30}; "
            f"give them {remedy}."
        )
