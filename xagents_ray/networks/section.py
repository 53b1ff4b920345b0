"""Sections of a network's .cfg file; errors name the file, section and key."""

import configparser
import io
import math
import re
from collections.abc import Iterable, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from xagents_ray.core import objects
from xagents_ray.core.errors import UserError, did_you_mean, shown
from xagents_ray.core.parsing import ExcessError, read_bounded
from xagents_ray.networks.activations import ACTIVATIONS, ALIASES

_LARGEST = 1 << 20  # maximum size of a file, in bytes
_LARGEST_NUMBER = 2**31 - 1
_MOST_LAYERS = 1_000
INITIALIZERS = (
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "lecun_normal",
    "lecun_uniform",
    "orthogonal",
    "zeros",
    "constant",
    "identity",
    "ones",
    "random_normal",
    "random_uniform",
    "truncated_normal",
    "variance_scaling",
)
"""Keras initializers that a dense layer can have; a convolution can't have identity."""
_INITIALIZER_ALIASES = {
    "normal": "random_normal",
    "one": "ones",
    "uniform": "random_uniform",
    "zero": "zeros",
}
INPUT = "input"
"""Kind of the sections that select a named input."""
_OWN = "; register one of your own first, with xagents_ray.extend.register_initializer"


def keras_initializer(name: str) -> str:
    """Return a Keras initializer's name in snake case: `he_normal` for `HeNormal`."""
    words = re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()
    word = words.removesuffix("_initializer")
    return _INITIALIZER_ALIASES.get(word, word)


def known_initializers() -> list[str]:
    """Return the names of the initializers that a section may have."""
    return [*INITIALIZERS, *(name for _, name in objects.kept_names("initializer"))]


class Section:
    """A section, such as `dense-0` of the kind `dense`, with string values by key.

    Attributes:
        name: name of the section.
        kind: part of the name before the first hyphen.
        suffix: part of the name after it: a number, or the name of an input.
        values: values by key.
    """

    WEIGHTED = ("activation", "initializer", "gain")
    """Keys of layers with weights."""

    def __init__(self, path: Path, name: str, values: MutableMapping[str, str]) -> None:
        self._path, self.name, self.values = path, name, values
        self.kind, _, self.suffix = name.partition("-")

    def copy(self, name: str, **more: str) -> "Section":
        """Return a copy with another name and more values."""
        return Section(self._path, name, {**self.values, **more})

    def check(self, keys: Sequence[str], kinds: Sequence[str]) -> None:
        """Raise UserError for a wrong section name or an unknown key."""
        if self.kind not in kinds or not self.suffix.isalnum():
            words = ", ".join(kinds)
            remedy = f"sections are named KIND-NUMBER with a kind of {words}"
            raise self.error("", remedy)
        for key in self.values:
            if key not in keys:
                known = ", ".join(keys)
                raise self.error(key, f"unknown key; {self.kind} takes {known}")

    def check_input(self, names: Iterable[str]) -> None:
        """Raise UserError unless it selects one of the named inputs, without keys."""
        if self.suffix not in names:
            known = ", ".join(names)
            remedy = f"no input has this name; they are {known}"
            if not known:
                remedy = "the observation has no named inputs; remove the section"
            raise self.error("", remedy)
        for key in self.values:
            raise self.error(key, "unknown key; input sections have none")

    def error(self, key: str, remedy: str) -> UserError:
        """Return an error about a key of this section."""
        where = f"[{self.name:.80}] {key:.80}".rstrip()
        return UserError(f"{self._path}: {where}: {remedy}.")

    def number(self, key: str, default: int | None = None) -> int:
        """Return a positive integer."""
        text = self.values.get(key, default)
        if text is None:
            raise self.error(key, f"missing; add {key}=NUMBER")
        try:
            number = int(text)
        except ValueError:
            number = 0
        if number < 1:
            raise self.error(key, f"must be a whole number ≥ 1, got {shown(text)}")
        if number > _LARGEST_NUMBER:
            remedy = f"must be {_LARGEST_NUMBER:,} or less, got {shown(text)}"
            raise self.error(key, remedy)
        return number

    def switch(self, key: str) -> bool:
        """Return whether the value of a key is 1."""
        text = self.values.get(key, "0")
        if text not in ("0", "1"):
            raise self.error(key, f"must be 0 or 1, got {shown(text)}")
        return text == "1"

    def weighted(self) -> dict[str, Any]:
        """Return the name, activation, initializer and gain of a layer with weights."""
        activation = self._word("activation", "linear", (*ACTIVATIONS, *ALIASES))
        text = self.values.get("gain", "1.0")
        try:
            gain = float(text)
        except ValueError:
            gain = math.nan
        if not math.isfinite(gain):
            raise self.error("gain", f"must be a number, got {shown(text)}")
        initializer = self._initializer()
        if "gain" in self.values and initializer in {*INITIALIZERS} - {"orthogonal"}:
            raise self.error("gain", "only initializer=orthogonal takes a gain")
        return {
            "name": self.name,
            "activation": ALIASES.get(activation, activation),
            "initializer": initializer,
            "gain": gain,
        }

    def _initializer(self) -> str:
        """Return the name of the kernel's initializer."""
        known = known_initializers()
        text = self.values.get("initializer", "glorot_uniform")
        if text not in known and (name := keras_initializer(text)) in INITIALIZERS:
            return name
        return self._word("initializer", "glorot_uniform", known, _OWN)

    def _word(
        self, key: str, default: str, known: Sequence[str], more: str = ""
    ) -> str:
        text = self.values.get(key, default)
        if text not in known:
            advice = f"{did_you_mean(text, known) or '.'} Known are {', '.join(known)}"
            raise self.error(key, f"unknown {shown(text)}{advice}{more}")
        return text


def read_sections(path: Path) -> list[Section]:
    """Return the sections of a file in order; UserError if it has none."""
    parser = configparser.ConfigParser(interpolation=None, default_section="")
    try:
        text = read_bounded(path, _LARGEST).decode()
        _check_count(path, text)
        parser.read_file(io.StringIO(text, newline=None))
    except ExcessError as error:
        raise UserError(f"{path}: {error}; give --model a .cfg file.") from None
    except OSError as error:
        raise UserError(
            f"{path}: can't be read ({error.strerror}); give --model a .cfg file."
        ) from None
    except (configparser.Error, UnicodeDecodeError) as error:
        raise UserError(
            f"{path}: not a .cfg file: {_reason(error)}; sections look like [dense-0], "
            "keys like units=64."
        ) from None
    return [Section(path, name, parser[name]) for name in parser.sections()]


def _check_count(path: Path, text: str) -> None:
    """Raise UserError for more sections than are accepted, which take long to parse."""
    count = sum(line.lstrip().startswith("[") for line in text.splitlines())
    if count > _MOST_LAYERS:
        raise UserError(
            f"{path}: has {count:,} layers, more than the {_MOST_LAYERS:,} that are "
            "accepted; merge some of them."
        )


def _reason(error: configparser.Error | UnicodeDecodeError) -> str:
    """Return why a file's sections can't be read."""
    if isinstance(error, UnicodeDecodeError):
        return "it is no text in UTF-8"
    if isinstance(error, configparser.DuplicateSectionError):
        return f"line {error.lineno} begins [{error.section}] again"
    if isinstance(error, configparser.DuplicateOptionError):
        return f"line {error.lineno} gives {error.option} of [{error.section}] again"
    if isinstance(error, configparser.MissingSectionHeaderError):
        return f"line {error.lineno} is in no section"
    assert isinstance(error, configparser.ParsingError)
    return f"line {error.errors[0][0]} is neither a section nor a key with a value"
