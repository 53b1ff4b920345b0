"""Reads a network's .cfg file into layers with known shapes.

Layers form a chain. A layer with `output=1` ends a branch; the next layer continues
from the last `common=1` layer, or from the input if there is none. A dense output layer
without `units` has as many as the algorithm requires.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from xagents_ray.core.errors import UserError, pluralize
from xagents_ray.core.spec import EnvSpec
from xagents_ray.networks import keras_files
from xagents_ray.networks.keras_layers import (
    Activation,
    Embedding,
    LayerNorm,
    OutputSlice,
    WholeModel,
)
from xagents_ray.networks.kinds import find_kind, known_kinds
from xagents_ray.networks.layers import Convolutional, Dense, Flatten, Layer
from xagents_ray.networks.section import Section, read_sections
from xagents_ray.networks.small_images import fit_to_image

_BYTES = 16  # of a weight, its gradient and an optimizer's two averages


@dataclass(frozen=True)
class Layout:
    """A network: its layers, the indices of its output layers, and its input."""

    layers: tuple[Layer, ...]
    outputs: tuple[int, ...]
    input_shape: tuple[int, ...]
    scale: float
    """Factor by which inputs are multiplied: 1/255 for uint8."""
    stack: int = 1
    """Number of frames in an input image."""
    softmax: tuple[int, ...] = ()
    """Numbers of the outputs whose softmax was removed."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the weights by name, `dense-0/kernel`."""
        return {k: shape for layer in self.layers for k, shape in layer.shapes.items()}

    @property
    def n_weights(self) -> int:
        """Number of parameters."""
        return sum(map(math.prod, self.shapes.values()))

    @property
    def noise_units(self) -> int:
        """Number of standard normal samples that the layers take per input as noise."""
        return sum(layer.noise_units for layer in self.layers)

    @property
    def noise_places(self) -> list[slice | None]:
        """Each layer's slice of a noise vector; None for layers without noise."""
        ends = itertools.accumulate(layer.noise_units for layer in self.layers)
        return [
            slice(end - layer.noise_units, end) if layer.noise_units else None
            for layer, end in zip(self.layers, ends, strict=True)
        ]

    @property
    def is_keras_model(self) -> bool:
        """Whether it is a user's whole model, or has no layers that Keras lacks."""
        first, *others = self.layers
        if isinstance(first, WholeModel):
            return all(type(layer) is OutputSlice for layer in others)
        kinds = Dense, Convolutional, Flatten, Activation, Embedding, LayerNorm
        return all(type(layer) in kinds for layer in self.layers)

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
        layers: list[Layer] = []
        ends: list[int] = []
        for number, end in enumerate(self.outputs, 1):
            path = [end]
            while (source := self.layers[path[0]].source) >= 0:
                path.insert(0, source)
            used, begin = {layer.name for layer in layers}, len(layers)
            for i, layer in enumerate(self.layers[index] for index in path):
                name = f"{layer.name}-{number}" if layer.name in used else layer.name
                source = begin + i - 1 if i else -1
                layers.append(replace(layer, name=name, source=source))
            ends.append(len(layers) - 1)
        return replace(self, layers=tuple(layers), outputs=tuple(ends))


def read_layout(
    path: Path, input_shape: tuple[int, ...], outputs: Sequence[int], scale: float
) -> Layout:
    """Return the network of a .cfg file for the given input and output sizes.

    Args:
        path: path of the file.
        input_shape: shape of the input without the batch, `(H, W, C)` or `(D,)`.
        outputs: units of each output, in order.
        scale: factor by which inputs are multiplied.
    Raises:
        UserError: the file doesn't fit; the message names the file, section and key,
            and a remedy.
    """
    return _laid_out(path, read_sections(path), input_shape, outputs, scale)


def _laid_out(
    path: Path,
    sections: Sequence[Section],
    input_shape: tuple[int, ...],
    outputs: Sequence[int],
    scale: float,
) -> Layout:
    """Return the layout of a file's sections; see `read_layout` for arguments."""
    layers: list[Layer] = []
    ends: list[int] = []
    source = common = -1
    for section in sections:
        kind = find_kind(section.kind) or Layer
        section.check(kind.keys, known_kinds() if kind is Layer else [section.kind])
        units = None
        if section.switch("output"):
            if len(ends) == len(outputs):
                needed = pluralize(len(outputs), "output")
                remedy = f"the agent needs only {needed}; remove this one"
                raise section.error("output", remedy)
            units = outputs[len(ends)]
        shape = layers[source].output_shape if source >= 0 else input_shape
        layers.append(kind.read(section, source, shape, units))
        source = len(layers) - 1
        if section.switch("common"):
            common = source
        if units is not None:
            ends.append(source)
            source = common
    layout = Layout(tuple(layers), tuple(ends), input_shape, scale)
    _check_outputs(path, layout, len(outputs))
    check_parameters(layout, str(path))
    return layout


def _check_outputs(path: Path, layout: Layout, count: int) -> None:
    """Raise UserError if outputs are missing, or a layer leads to no output."""
    if len(layout.outputs) != count:
        raise UserError(
            f"{path}: has {pluralize(len(layout.outputs), 'output layer')} and the "
            f"agent needs {count}; mark them with output=1."
        )
    read = {layer.source for layer in layout.layers}.union(layout.outputs)
    for i, layer in enumerate(layout.layers):
        if i not in read:
            raise UserError(
                f"{path}: [{layer.name}]: no output is reached from it; remove it or "
                "put it before an output."
            )


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


def layout_for(
    model: str | None,
    default: str,
    spec: EnvSpec,
    outputs: Sequence[int],
    action_units: int = 0,
) -> Layout:
    """Return an agent's network for an environment.

    Args:
        model: path of the user's .cfg or .keras file, or name of a Python object saved
            as one; None for the default, which is fitted to small images.
        default: name of the default file; `{kind}` becomes `vector` or `image`.
        spec: specification of the environment.
        outputs: units of each output.
        action_units: size of the action that is concatenated to the observation vector;
            0 for none.
    """
    kind = "image" if spec.is_image else "vector"
    scale = 1 / 255 if spec.observation_dtype == "uint8" else 1.0
    shape = spec.input_shape
    if action_units:
        scale = 1.0  # the learner scales observations before it appends actions
        shape = (shape[0] + action_units,)
    file = keras_files.content(model)
    if model is not None and file is not None:
        layers, ends = keras_files.read_keras_layers(model, file, shape, outputs, scale)
        return Layout(layers, ends, shape, scale, spec.stack)
    path = Path(model) if model else Path(__file__).parent / default.format(kind=kind)
    sections = read_sections(path)
    if model is None and spec.is_image:
        fit_to_image(sections, shape)
    layout = _laid_out(path, sections, shape, outputs, scale)
    return replace(layout, stack=spec.stack)
