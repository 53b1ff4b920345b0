"""Read a network's .cfg file into layers with known shapes.

Layers form a chain. A layer with `output=1` ends a branch; the next layer goes on
from the newest `common=1` layer, or from the input when there is none. A dense
output layer without `units` gets as many as the algorithm expects there.
"""

import configparser
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from xagents_ray.core.errors import UserError, near
from xagents_ray.core.spec import EnvSpec

ACTIVATIONS = (
    "linear",
    "relu",
    "tanh",
    "sigmoid",
    "softmax",
    "elu",
    "softplus",
    "gelu",
    "silu",
    "selu",
    "leaky_relu",
)
_ALSO = {"swish": "silu"}
"""Other names of activations."""
INITIALIZERS = (
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "lecun_normal",
    "lecun_uniform",
    "orthogonal",
    "zeros",
)
_SHARED_KEYS = ("activation", "initializer", "gain", "common")
_KEYS = {
    "convolutional": ("filters", "size", "stride", *_SHARED_KEYS),
    "dense": ("units", *_SHARED_KEYS, "output"),
    "flatten": ("common",),
}


@dataclass(frozen=True)
class Layer:
    """One layer.

    Attributes:
        name: its section, `dense-0`.
        kind: convolutional, flatten or dense.
        source: index of the layer that it reads; -1 for the input.
        units: filters or units; 0 for flatten.
        size: of a convolution's square kernel.
        stride: of a convolution.
        activation: one of ACTIVATIONS.
        initializer: one of INITIALIZERS.
        gain: of an orthogonal initializer.
        input_shape: without the batch.
        output_shape: without the batch.
    """

    name: str
    kind: str
    source: int
    units: int
    size: int
    stride: int
    activation: str
    initializer: str
    gain: float
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]


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

    def without_softmax(self) -> "Layout":
        """Return it with logits for each output that ends in a softmax."""
        layers = [
            replace(layer, activation="linear")
            if i in self.outputs and layer.activation == "softmax"
            else layer
            for i, layer in enumerate(self.layers)
        ]
        return replace(self, layers=tuple(layers))


class _Section:
    """One section of a .cfg file, read with errors that name file, section, key."""

    def __init__(self, path: Path, name: str, values: configparser.SectionProxy):
        self.path, self.name, self.values = path, name, values
        self.kind, _, number = name.partition("-")
        if self.kind not in _KEYS or not number.isalnum():
            raise self.error(
                "", f"sections are named KIND-NUMBER with a kind of {', '.join(_KEYS)}"
            )
        for key in values:
            if key not in _KEYS[self.kind]:
                known = ", ".join(_KEYS[self.kind])
                raise self.error(key, f"unknown key; {self.kind} takes {known}")

    def error(self, key: str, remedy: str) -> UserError:
        where = f"[{self.name}] {key}".rstrip()
        return UserError(f"{self.path}: {where}: {remedy}.")

    def number(self, key: str, default: int | None = None) -> int:
        text = self.values.get(key)
        if text is None and default is not None:
            return default
        if text is None:
            raise self.error(key, f"missing; add {key}=NUMBER")
        try:
            number = int(text)
        except ValueError:
            number = 0
        if number < 1:
            raise self.error(key, f"must be a whole number ≥ 1, got {text!r}")
        return number

    def gain(self) -> float:
        text = self.values.get("gain", "1.0")
        try:
            gain = float(text)
        except ValueError:
            gain = math.nan
        if not math.isfinite(gain):
            raise self.error("gain", f"must be a number, got {text!r}")
        if "gain" in self.values and self.values.get("initializer") != "orthogonal":
            raise self.error("gain", "only initializer=orthogonal takes a gain")
        return gain

    def word(self, key: str, default: str, known: Sequence[str]) -> str:
        text = self.values.get(key, default)
        if text not in known:
            raise self.error(
                key, f"unknown {text!r}{near(text, known)}; known: {', '.join(known)}"
            )
        return text

    def activation(self) -> str:
        word = self.word("activation", "linear", (*ACTIVATIONS, *_ALSO))
        return _ALSO.get(word, word)

    def switch(self, key: str) -> bool:
        text = self.values.get(key, "0")
        if text not in ("0", "1"):
            raise self.error(key, f"must be 0 or 1, got {text!r}")
        return text == "1"

    def layer(
        self, source: int, shape: tuple[int, ...], units: Callable[[], int]
    ) -> Layer:
        """Return the layer on an input of this shape; `units` when it has none."""
        size = stride = 0
        if self.kind == "convolutional":
            if len(shape) != 3:
                raise self.error("", "a convolution needs images; remove the section")
            count, size = self.number("filters"), self.number("size")
            stride = self.number("stride", 1)
            if size > min(shape[:2]):
                raise self.error(
                    "size", f"{size} is larger than its {shape[0]}x{shape[1]} input"
                )
            out: tuple[int, ...] = (
                *((side - size) // stride + 1 for side in shape[:2]),
                count,
            )
        elif self.kind == "flatten":
            count, out = 0, (math.prod(shape),)
        else:
            if len(shape) != 1:
                raise self.error("", "a dense layer needs a [flatten-0] before it")
            count = self.number("units") if "units" in self.values else units()
            out = (count,)
        return Layer(
            name=self.name,
            kind=self.kind,
            source=source,
            units=count,
            size=size,
            stride=stride,
            activation=self.activation(),
            initializer=self.word("initializer", "glorot_uniform", INITIALIZERS),
            gain=self.gain(),
            input_shape=shape,
            output_shape=out,
        )


def _sections(path: Path) -> list[_Section]:
    parser = configparser.ConfigParser(interpolation=None, default_section="")
    try:
        with path.open(encoding="utf-8") as file:
            parser.read_file(file)
    except OSError as error:
        raise UserError(
            f"{path}: can't be read ({error.strerror}); give --model a .cfg file."
        ) from None
    except (configparser.Error, UnicodeDecodeError) as error:
        reason = " ".join(str(error).replace(f"{str(path)!r}", "").split()).rstrip(".")
        raise UserError(
            f"{path}: not a .cfg file: {reason}; sections look like [dense-0], "
            "keys like units=64."
        ) from None
    return [_Section(path, name, parser[name]) for name in parser.sections()]


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
    wanted = list(outputs)
    for section in _sections(path):
        is_output = section.kind == "dense" and section.switch("output")

        def units(section: _Section = section, is_output: bool = is_output) -> int:
            if not is_output:
                raise section.error("units", "missing; only output=1 layers have none")
            if len(ends) >= len(wanted):
                raise section.error("output", f"only {len(wanted)} outputs are needed")
            return wanted[len(ends)]

        shape = layers[source].output_shape if source >= 0 else input_shape
        layers.append(section.layer(source, shape, units))
        source = len(layers) - 1
        if section.switch("common"):
            common = source
        if is_output:
            expected = units()
            if layers[-1].units != expected:
                raise section.error(
                    "units", f"this output needs {expected}; leave the key out"
                )
            ends.append(source)
            source = common
    if len(ends) != len(wanted):
        raise UserError(
            f"{path}: has {len(ends)} output layers, the agent needs {len(wanted)}; "
            "mark them with output=1."
        )
    read = {layer.source for layer in layers}.union(ends)
    for i, layer in enumerate(layers):
        if i not in read:
            raise UserError(
                f"{path}: [{layer.name}]: no output is reached from it; remove it or "
                "put it before an output."
            )
    return Layout(tuple(layers), tuple(ends), input_shape, scale)


def layout_for(
    model: str | None,
    default: str,
    spec: EnvSpec,
    outputs: Sequence[int],
    action_units: int = 0,
) -> Layout:
    """Return an agent's network for an environment.

    Args:
        model: path of the user's .cfg file; None for the default.
        default: name of the default file, `{kind}` becomes `vector` or `image`.
        spec: the environment.
        outputs: units of each output.
        action_units: of an action that is read beside an observation vector.
    """
    kind = "image" if spec.is_image else "vector"
    path = Path(model) if model else Path(__file__).with_name(default.format(kind=kind))
    scale = 1 / 255 if spec.observation_dtype == "uint8" else 1.0
    shape = spec.input_shape
    if action_units:
        scale = 1.0  # the learner scales what it puts side by side
        shape = (shape[0] + action_units,)
    return replace(read_layout(path, shape, outputs, scale), stack=spec.stack)
