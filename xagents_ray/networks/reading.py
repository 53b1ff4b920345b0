"""Reads a network's .cfg file into layers with known shapes.

Layers form a chain. A layer with `output=1` ends a branch; the next layer continues
from the last `common=1` layer, or from the input if there is none. `from=A,B` names
earlier sections to read in place of the layer before, joined if they are several, and
`[input-NAME]` selects a named input. A dense output layer without `units` has as many
as the algorithm requires.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from xagents_ray.core.errors import UserError, pluralize
from xagents_ray.core.spec import EnvSpec
from xagents_ray.networks import keras_files
from xagents_ray.networks.default_sections import join_defaults
from xagents_ray.networks.inputs import NetworkInputs, inputs_of
from xagents_ray.networks.kinds import find_kind, known_kinds
from xagents_ray.networks.layers import Layer
from xagents_ray.networks.layout import Layout, check_parameters
from xagents_ray.networks.section import INPUT, Section, read_sections
from xagents_ray.networks.small_images import fit_to_image

_FROM = "from"


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
    inputs = NetworkInputs.one(input_shape, scale)
    return _laid_out(path, read_sections(path), inputs, outputs)


def layout_for(
    model: str | None,
    default: str,
    spec: EnvSpec,
    outputs: Sequence[int],
    action_units: int = 0,
    unread: Collection[str] = (),
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
        unread: names of inputs that the default network doesn't read.
    """
    inputs = inputs_of(spec, action_units, () if model else unread)
    file = keras_files.content(model)
    if model is not None and file is not None:
        layers, ends = keras_files.read_keras_layers(model, file, inputs, outputs)
        return _layout(layers, ends, inputs, spec.stack)
    if model is not None:
        path = Path(model)
        layout = _laid_out(path, read_sections(path), inputs, outputs)
        return replace(layout, stack=spec.stack)
    is_image = spec.is_image or inputs.has_several_arrays
    path = _default_path(default, "image" if is_image else "vector")
    sections, starts_at_first = read_sections(path), not inputs.has_several_arrays
    if inputs.has_several_arrays:
        vector = read_sections(_default_path(default, "vector"))
        sections = join_defaults(path, sections, vector, inputs)
    elif is_image:
        fit_to_image(sections, inputs.first.shape)
    layout = _laid_out(path, sections, inputs, outputs, starts_at_first)
    return replace(layout, stack=spec.stack)


def _default_path(default: str, kind: str) -> Path:
    return Path(__file__).parent / default.format(kind=kind)


def _layout(
    layers: Sequence[Layer], ends: Sequence[int], inputs: NetworkInputs, stack: int = 1
) -> Layout:
    first, *more = inputs.arrays
    arrays = inputs.arrays if more else ()
    shape, scale = first.shape, first.scale
    return Layout(tuple(layers), tuple(ends), shape, scale, stack, inputs=arrays)


def _laid_out(
    path: Path,
    sections: Sequence[Section],
    inputs: NetworkInputs,
    outputs: Sequence[int],
    starts_at_first: bool = False,
) -> Layout:
    """Return the layout of a file's sections; see `read_layout` for arguments.

    If `starts_at_first`, the first layer reads `inputs.first`, else the only array.
    """
    chain = _Chain(inputs, starts_at_first)
    ends: list[int] = []
    for section in sections:
        if section.kind == INPUT:
            chain.select(section)
            continue
        kind = find_kind(section.kind) or Layer
        known = known_kinds() if kind is Layer else [section.kind]
        section.check((*kind.keys, _FROM), known)
        units = None
        if section.switch("output"):
            if len(ends) == len(outputs):
                needed = pluralize(len(outputs), "output")
                remedy = f"the agent needs only {needed}; remove this one"
                raise section.error("output", remedy)
            units = outputs[len(ends)]
        place = chain.add(section, kind, units)
        if section.switch("common"):
            chain.common = place
        if units is not None:
            ends.append(place)
            chain.end()
    layout = _layout(chain.layers, ends, inputs)
    chain.check_inputs()
    _check_outputs(path, layout, len(outputs))
    check_parameters(layout, str(path))
    return layout


class _Chain:
    """The layers of a file that is being read.

    Attributes:
        layers: the layers so far.
        common: source of the layers that begin a branch; None if they must name one,
            as there are several arrays.
    """

    def __init__(self, inputs: NetworkInputs, starts_at_first: bool) -> None:
        self.layers: list[Layer] = []
        self._inputs = inputs
        self.common: int | None = None if inputs.has_several_arrays else -1
        if starts_at_first and inputs.first.ranges:
            self.layers.append(inputs.first.layer(f"{INPUT}-policy"))
            self.common = 0
        self._source = self.common
        self._sections: dict[str, tuple[Section, int]] = {}

    def select(self, section: Section) -> None:
        """Continue from the named input of a section."""
        section.check_input(self._inputs.parts)
        part = self._inputs.parts[section.suffix]
        place = part.source
        if part.ranges:
            place = len(self.layers)
            self.layers.append(part.layer(section.name))
        self._source = place
        self._sections[section.name] = section, place

    def add(self, section: Section, kind: type[Layer], units: int | None) -> int:
        """Add the layer of a section; return its index."""
        source, *more = self._sources(section)
        shape = self._shape_at(source)
        if more:
            shape = (sum(self._vector_size(section, i) for i in (source, *more)),)
        layer = kind.read(section, source, shape, units)
        self.layers.append(replace(layer, more_sources=tuple(more)) if more else layer)
        self._source = len(self.layers) - 1
        self._sections[section.name] = section, self._source
        return self._source

    def end(self) -> None:
        """End a branch: the next layer continues from the common one."""
        self._source = self.common

    def check_inputs(self) -> None:
        """Raise UserError if no layer reads the input of a section."""
        read = {source for layer in self.layers for source in layer.sources}
        for section, place in self._sections.values():
            if section.kind == INPUT and place not in read:
                raise section.error("", "no layer reads it; remove it")

    def _sources(self, section: Section) -> list[int]:
        """Return the sources of a section's layer."""
        text = section.values.get(_FROM)
        if text is not None:
            return [self._named(section, name.strip()) for name in text.split(",")]
        if self._source is None:
            names = ", ".join(f"[{INPUT}-{name}]" for name in self._inputs.parts)
            remedy = f"the observation has several arrays; put one of {names} before it"
            raise section.error("", f"{remedy}, or add from=")
        return [self._source]

    def _named(self, section: Section, name: str) -> int:
        if name not in self._sections:
            known = ", ".join(self._sections) or "none"
            remedy = f"{name!r:.80} is no section before it; those are {known}"
            raise section.error(_FROM, remedy)
        earlier, place = self._sections[name]
        if earlier.kind != INPUT and earlier.switch("output"):
            raise section.error(_FROM, f"{name} is an output, which no layer reads")
        return place

    def _shape_at(self, source: int) -> tuple[int, ...]:
        if source < 0:
            return self._inputs.arrays[-1 - source].shape
        return self.layers[source].output_shape

    def _vector_size(self, section: Section, source: int) -> int:
        shape = self._shape_at(source)
        if len(shape) != 1:
            raise section.error(
                _FROM, "joins vectors only; put a [flatten-N] before it"
            )
        return shape[0]


def _check_outputs(path: Path, layout: Layout, count: int) -> None:
    """Raise UserError if outputs are missing, or a layer leads to no output."""
    if len(layout.outputs) != count:
        raise UserError(
            f"{path}: has {pluralize(len(layout.outputs), 'output layer')} and the "
            f"agent needs {count}; mark them with output=1."
        )
    read = {i for layer in layout.layers for i in layer.sources}.union(layout.outputs)
    for i, layer in enumerate(layout.layers):
        if i not in read:
            raise UserError(
                f"{path}: [{layer.name}]: no output is reached from it; remove it or "
                "put it before an output."
            )
