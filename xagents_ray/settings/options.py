"""One dataclass field makes a flag: its default, help, unit, bounds and hp_type."""

import contextlib
import dataclasses
import math
import os
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from xagents_ray.core.errors import UserError, near

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
        known_as: what other libraries call it; such a name is answered with ours.
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
    known_as: tuple[str, ...] = ()

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
        if self.type is int and value is text:
            with contextlib.suppress(ValueError):
                whole = self.plain(float(text))  # 1e5
                value = whole if isinstance(whole, int) else text
        self.check(value)
        return value

    def plain(self, value: Any) -> Any:
        """Return a value of NumPy, a whole float, or a path as this option's own type.

        Whatever is nothing of that kind is returned as it is, for `check` to refuse.
        """
        if self.many:
            if isinstance(value, str | Path):
                value = (value,)
            if not isinstance(value, tuple):
                return value
            one = dataclasses.replace(self, many=False)
            return tuple(one.plain(each) for each in value)
        if isinstance(value, np.generic):
            value = value.item()
        if self.type is int and isinstance(value, float) and value.is_integer():
            return int(value)
        if self.type is str and isinstance(value, Path):
            return os.fspath(value)
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
    known_as: tuple[str, ...] = (),
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
        "known_as": known_as,
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


def plain(known: Iterable[Option], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by flat name as Python's own values; see `Option.plain`.

    Lists become tuples; names that are not known stay, for others to refuse.
    """
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
    own = {each.name: each for each in known}
    return {k: own[k].plain(v) if k in own else v for k, v in values.items()}


def suggestion(name: str, known: Iterable[Option], as_flags: bool = False) -> str:
    """Return `; did you mean A?` for the options that a wrong name may stand for.

    Args:
        name: as it was given, `learning_rate` or `--learning-rate`.
        known: the options that there are.
        as_flags: whether to answer with flags.
    """
    word = name.removeprefix("--").replace("-", "_").lower()
    shown = {each: each.flag if as_flags else each.name for each in known}
    for each, own in shown.items():
        if word in each.known_as:
            return f"; did you mean {own}?"
    return near(name, shown.values())


def check_directory(flag: str, name: str | None) -> None:
    """Raise UserError when a name that was given can't be a directory's."""
    if name is not None and (name in ("", ".", "..") or set("/\\\0") & set(name)):
        raise UserError(f"{flag} {name!r} is no directory's name: leave out / and \\.")


class Checked:
    """Base of every config: refuses values outside their bounds when it is made."""

    def __post_init__(self) -> None:
        for each in options(type(self)):
            value = each.plain(getattr(self, each.name))
            each.check(value)
            object.__setattr__(self, each.name, value)
