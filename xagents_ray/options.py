"""One dataclass field makes a flag: its default, help, unit, bounds and hp_type."""

import contextlib
import dataclasses
import math
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from xagents_ray.errors import UserError

HpType = Literal["categorical", "int", "log_uniform"]


@dataclass(frozen=True)
class Option:
    """What a config field says of itself.

    Attributes:
        name: the field, `n_envs`; its flag is `--n-envs`.
        type: bool, int, float or str.
        default: value when nothing is given; None is shown as '-'.
        help: one sentence.
        unit: of the value, `env steps`; '' for none.
        low: smallest allowed value, None for no bound.
        high: largest allowed value, None for no bound.
        exclusive: `low` itself is not allowed.
        choices: the allowed words, empty for any.
        off: flag that turns a true one off, `--greedy`; '' for `--no-…`, or none.
        bare: value when the flag stands alone; '' where it needs one.
        many: takes several values, as a tuple.
        hp_type: how `tune` varies it, None when it does not.
    """

    name: str
    type: type
    default: Any
    help: str
    unit: str
    low: float | None
    high: float | None
    exclusive: bool
    choices: tuple[str, ...]
    hp_type: HpType | None
    off: str = ""
    bare: str = ""
    many: bool = False

    @property
    def flag(self) -> str:
        """The flag, `--n-envs`."""
        return "--" + self.name.replace("_", "-")

    @property
    def bounds(self) -> str:
        """The bounds in words, `> 0 and ≤ 1`, or ''."""
        low = None if self.low is None else f"{'>' if self.exclusive else '≥'} "
        parts = [] if low is None else [f"{low}{self.low:g}"]
        if self.high is not None:
            parts.append(f"≤ {self.high:g}")
        return " and ".join(parts)

    def parse(self, text: str) -> Any:
        """Return the value that a command line's text means; UserError if none."""
        value: Any = text
        with contextlib.suppress(ValueError):
            value = self.type(text)
        self.check(value)
        return value

    def check(self, value: Any) -> None:
        """Raise UserError when `value` is of the wrong type or outside the bounds."""
        if value is None and self.default is None:
            return
        if self.many:
            if not isinstance(value, tuple) or not value:
                raise UserError(f"{self.flag} takes one value or more, got {value!r}.")
            for each in value:
                dataclasses.replace(self, many=False, default="").check(each)
            return
        number = self.type in (int, float)
        allowed = (int, float) if self.type is float else self.type
        wrong = not isinstance(value, allowed) or (number and isinstance(value, bool))
        if wrong or (self.type is float and not math.isfinite(value)):
            kind = {int: "a whole number", float: "a number", bool: "true or false"}
            expected = kind.get(self.type, "text")
            raise UserError(f"{self.flag} takes {expected}, got {value!r}.")
        if self.choices and value not in self.choices:
            words = ", ".join(self.choices)
            raise UserError(f"{self.flag} takes one of {words}, got {value!r}.")
        below = self.low is not None and (
            value <= self.low if self.exclusive else value < self.low
        )
        if below or (self.high is not None and value > self.high):
            raise UserError(f"{self.flag} must be {self.bounds}, got {value}.")


def option(
    default: Any,
    *,
    help: str,
    unit: str = "",
    low: float | None = None,
    high: float | None = None,
    exclusive: bool = False,
    choices: tuple[str, ...] = (),
    hp_type: HpType | None = None,
    off: str = "",
    bare: str = "",
) -> Any:
    """Declare a config field that is a flag too; see `Option` for the arguments."""
    metadata = {
        "help": help,
        "unit": unit,
        "low": low,
        "high": high,
        "exclusive": exclusive,
        "choices": choices,
        "hp_type": hp_type,
        "off": off,
        "bare": bare,
    }
    return dataclasses.field(default=default, metadata=metadata)


def changed(
    config: type, name: str, default: Any = None, help: str = "", unit: str = ""
) -> Any:
    """Declare a parent's field anew, with another default, help or unit."""
    field = next(f for f in dataclasses.fields(config) if f.name == name)
    said = {"help": help, "unit": unit}
    metadata = {**field.metadata, **{k: text for k, text in said.items() if text}}
    default = field.default if default is None else default
    return dataclasses.field(default=default, metadata=metadata)


def options(config: type) -> Iterator[Option]:
    """Yield the options of a config dataclass in the order of its fields."""
    hints = typing.get_type_hints(config)
    for field in dataclasses.fields(config):
        hint = hints[field.name]
        if isinstance(hint, types.UnionType):
            hint = next(t for t in hint.__args__ if t is not type(None))
        many = typing.get_origin(hint) is tuple
        kind = typing.get_args(hint)[0] if many else hint
        yield Option(field.name, kind, field.default, **field.metadata, many=many)


def check_directory(flag: str, name: str | None) -> None:
    """Raise UserError when a name that was given can't be a directory's."""
    if name is not None and (name in ("", ".", "..") or set("/\\\0") & set(name)):
        raise UserError(f"{flag} {name!r} is no directory's name: leave out / and \\.")


class Checked:
    """Base of every config: refuses values outside their bounds when it is made."""

    def __post_init__(self) -> None:
        for each in options(type(self)):
            each.check(getattr(self, each.name))
