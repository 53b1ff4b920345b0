"""Read a network's .cfg file into layers with known shapes.

Layers form a chain. A layer with `output=1` ends a branch; the next layer continues
from the newest `common=1` layer, or from the input when there is none. A dense
output layer without `units` gets as many as the algorithm expects there.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from xagents_ray.core.errors import UserError, counted
from xagents_ray.core.spec import EnvSpec
from xagents_ray.networks import keras_files
from xagents_ray.networks.kinds import find_kind, kinds
from xagents_ray.networks.layers import Layer
from xagents_ray.networks.section import read_sections


@dataclass(frozen=True)
class Layout:
    """A whole network: its layers, which of them are outputs, and its input."""

    layers: tuple[Layer, ...]
    outputs: tuple[int, ...]
    input_shape: tuple[int, ...]
    scale: float
    """What inputs are multiplied by: 1/255 for uint8."""
    stack: int = 1
    """Frames that an input image shows."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of its weights by name, `dense-0/kernel`."""
        return {k: shape for layer in self.layers for k, shape in layer.shapes.items()}

    @property
    def n_weights(self) -> int:
        """How many numbers its weights are."""
        return sum(map(math.prod, self.shapes.values()))

    @property
    def noise_units(self) -> int:
        """Standard normal numbers that its layers take besides each input."""
        return sum(layer.noise_units for layer in self.layers)

    @property
    def noise_places(self) -> list[slice | None]:
        """The part of a row of noise that each layer takes; None if it takes none."""
        ends = itertools.accumulate(layer.noise_units for layer in self.layers)
        return [
            slice(end - layer.noise_units, end) if layer.noise_units else None
            for layer, end in zip(self.layers, ends, strict=True)
        ]

    def without_softmax(self) -> "Layout":
        """Return it with logits for each output that ends in a softmax."""
        layers = [
            replace(layer, activation="linear")
            if i in self.outputs and layer.activation == "softmax"
            else layer
            for i, layer in enumerate(self.layers)
        ]
        return replace(self, layers=tuple(layers))

    def bounded(self) -> "Layout":
        """Return it with a tanh for each output that ends linearly."""
        layers = [
            layer.bounded() if i in self.outputs else layer
            for i, layer in enumerate(self.layers)
        ]
        return replace(self, layers=tuple(layers))

    def separated(self) -> "Layout":
        """Return it with layers of its own for each output; the first keeps its names.

        What another output reads besides gets copies: `dense-0-2` for the second.
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
    """Return the network of a .cfg file for these input and output sizes.

    Args:
        path: the file.
        input_shape: without the batch, `(H, W, C)` or `(D,)`.
        outputs: units of each output, in order.
        scale: what inputs are multiplied by.
    Raises:
        UserError: names the file, section and key, and what to write there.
    """
    layers: list[Layer] = []
    ends: list[int] = []
    source = common = -1
    for section in read_sections(path):
        kind = find_kind(section.kind) or Layer
        section.check(kind.keys, kinds() if kind is Layer else [section.kind])
        units = None
        if section.switch("output"):
            if len(ends) == len(outputs):
                needed = counted(len(outputs), "output")
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
    return layout


def _check_outputs(path: Path, layout: Layout, count: int) -> None:
    """Raise UserError when outputs are missing, or a layer leads to none."""
    if len(layout.outputs) != count:
        raise UserError(
            f"{path}: has {counted(len(layout.outputs), 'output layer')} and the "
            f"agent needs {count}; mark them with output=1."
        )
    read = {layer.source for layer in layout.layers}.union(layout.outputs)
    for i, layer in enumerate(layout.layers):
        if i not in read:
            raise UserError(
                f"{path}: [{layer.name}]: no output is reached from it; remove it or "
                "put it before an output."
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
        model: path of the user's .cfg or .keras file, or name of an object that a
            file was made of; None for the default.
        default: name of the default file, `{kind}` becomes `vector` or `image`.
        spec: the environment.
        outputs: units of each output.
        action_units: of an action that is read together with an observation vector.
    """
    kind = "image" if spec.is_image else "vector"
    scale = 1 / 255 if spec.observation_dtype == "uint8" else 1.0
    shape = spec.input_shape
    if action_units:
        scale = 1.0  # the learner scales what it puts side by side
        shape = (shape[0] + action_units,)
    file = keras_files.content(model)
    if model is not None and file is not None:
        layers, ends = keras_files.read(model, file, shape, outputs, scale)
        return Layout(layers, ends, shape, scale, spec.stack)
    path = Path(model) if model else Path(__file__).parent / default.format(kind=kind)
    return replace(read_layout(path, shape, outputs, scale), stack=spec.stack)
