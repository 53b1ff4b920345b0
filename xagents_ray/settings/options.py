"""Options as dataclass fields; each field defines a flag of the command line."""

import contextlib
import dataclasses
import functools
import math
import os
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import numpy as np

from xagents_ray.core import errors
from xagents_ray.core.errors import Mistakes, UserError, did_you_mean
from xagents_ray.settings import from_python, paths, schedules

HpType = Literal["categorical", "int", "log_uniform"]


def flag(name: str) -> str:
    """Return the flag of a setting: `--n-envs` for `n_envs`."""
    return "--" + name.replace("_", "-")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Properties of an option other than its name, type and default."""

    help: str = dataclasses.field(kw_only=False)  # one sentence
    unit: str = ""  # unit of the value, such as `env steps`; "" for none
    low: float | None = None  # smallest allowed value; None for no bound
    high: float | None = None  # largest allowed value; None for no bound
    exclusive: bool = False  # whether `low` itself is excluded
    choices: tuple[str, ...] = ()  # allowed values; empty for any
    # Flag that turns the option off, such as `--greedy`; "" for `--no-…`, or none.
    off: str = ""
    bare: str = ""  # value of the flag without an argument; "" if one is required
    hp_type: HpType | None = None  # how `tune` varies the option; None for not at all
    known_as: tuple[str, ...] = ()  # names in other libraries, to suggest this option
    is_path: bool = False  # names files that a run reads
    is_folder: bool = False  # names a directory of runs, or of one run
    is_written: bool = False  # names files that a run writes
    names_directory: bool = False  # names a directory, without parent directories
    needs_ray: bool = False  # not allowed with --local
    needs_max_steps: bool = False  # decays to 0 over --max-steps, so requires it
    scheduled: bool = False  # a number, or the text of a `Schedule` over --max-steps
    acts: bool = False  # affects how a policy acts: `play` and `evaluate` have it
    explores: bool = False  # affects how a trained policy acts with --sample
    common: bool = False  # shown by --help, not only by --help-all
    new_run: bool = False  # for new runs only, not for --resume
    of_one_run: bool = False  # not taken by --config from a run's config.yaml
    own_loop: bool = False  # also in a user's own loop; see `xagents_ray.Agent`
    # The flag, `--resume` or `--run`, with which it may differ from the run's value.
    free_with: str = ""
    in_presets: bool = True  # may be part of a preset
    # Settings without effect once this one is changed from its default.
    replaces: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()  # no effect unless one of these settings is set
    instead: str = ""  # what `tune` uses instead; "" if `tune` has the option
    not_with_seeds: str = ""  # why runs of several --seeds can't share it; "" if so
    not_launched: str = ""  # why a run with it can't be launched; "" if it can
    group: type | None = None  # class of its group: `settings.algorithm.Group`
    remedy_for: str = ""  # bottleneck that it may relieve, as `--profile` names it
    word: str = ""  # text that is allowed in place of a number; "" for none
    takes: str = ""  # further Python type, with its module or as `typed` imports it
    expected: str = ""  # description of allowed values; "" for the type's default
    # Converts further Python values to the option's type; leaves that and None as is.
    to_plain: Callable[[Any], Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Option(Facts):
    """An option: a field of a config and a flag of the command line."""

    name: str  # name of the field, `n_envs`; its flag is `--n-envs`
    type: type  # bool, int, float or str
    default: Any  # default value; None is shown as '-'
    many: bool = False  # takes a tuple of values

    @property
    def flag(self) -> str:
        """The flag, such as `--n-envs`."""
        return flag(self.name)

    @property
    def bounds(self) -> str:
        """The bounds as text, such as `> 0 and ≤ 1`, or ''."""
        low = None if self.low is None else f"{'>' if self.exclusive else '≥'} "
        parts = [] if low is None else [f"{low}{self.low:.10g}"]
        if self.high is not None:
            parts.append(f"≤ {self.high:.10g}")
        return " and ".join(parts)

    @property
    def described(self) -> str:
        """The help text, with the unit and the choices or bounds."""
        limits = "|".join(self.choices) or self.bounds
        extra = ", ".join(part for part in (self.unit, limits) if part)
        return f"{self.help} ({extra})" if extra else self.help

    def parse(self, text: str) -> Any:
        """Return the value of a command line argument; UserError if invalid."""
        value = self.read(text)
        self.check(value)
        return value

    def read(self, text: str) -> Any:
        """Return the value of a command line argument, unchecked."""
        with contextlib.suppress(ValueError):
            return self.type(text)
        return self.plain(text) if self.type is int or self.scheduled else text

    def plain(self, value: Any) -> Any:
        """Convert a NumPy value, integral float or path to this option's type.

        A whole number may be text such as `1e5`, `100k` or `1.5M`. If the flag may be
        bare, True stands for the bare flag and False for no flag. Other values are
        returned unchanged, for `check` to reject.

        Raises:
            UserError: an object can't be converted.
        """
        if self.to_plain is not None:
            value = self.to_plain(value)
        if self.many:
            if isinstance(value, str | Path):
                value = (value,)
            if not isinstance(value, tuple):
                return value
            one = dataclasses.replace(self, many=False, to_plain=None)
            return tuple(map(one.plain, value))
        if isinstance(value, np.generic):
            value = value.item()
        if self.bare and isinstance(value, bool):
            return self.bare if value else self.default
        if self.type is int and isinstance(value, str):
            value = from_python.whole_number(value)
        if self.type is int and isinstance(value, float) and value.is_integer():
            return int(value)
        if self.type is str and isinstance(value, Path):
            value = os.fspath(value)
        return paths.expand(value) if self.is_local and value else value

    @property
    def is_local(self) -> bool:
        return self.is_path or self.is_written or self.is_folder  # on this machine

    def check(self, value: Any) -> None:
        """Raise UserError when `value` has the wrong type or is out of bounds."""
        if (value is None and self.default is None) or (
            self.word and value == self.word
        ):
            return
        if self.many:
            if not isinstance(value, tuple) or not value:
                what = f"{self.flag} takes {self.expected or 'one value or more'}"
                raise UserError(f"{what}, got {errors.shown(value)}.")
            for each in value:
                dataclasses.replace(self, many=False, default="").check(each)
            return
        if self.scheduled and not isinstance(value, int | float):
            return schedules.check_schedule(self, value)
        number = self.type in (int, float)
        allowed = (int, float) if self.type is float else self.type
        wrong = not isinstance(value, allowed) or (number and isinstance(value, bool))
        wrong = wrong or (isinstance(value, int) and abs(value) >= 2**63)
        if wrong or (self.type is float and not math.isfinite(value)):
            kind = {int: "a whole number", float: "a number", bool: "true or false"}
            expected = self.expected or kind.get(self.type, "text")
            raise UserError(f"{self.flag} takes {expected}, got {errors.shown(value)}.")
        if self.type is str and errors.has_controls(value):
            what = f"{self.flag} takes text without control characters"
            raise UserError(f"{what}, got {errors.shown(value)}.")
        if self.to_plain is not None and from_python.is_json(value):
            return
        if self.choices and value not in self.choices:
            words = ", ".join(self.choices)
            hint = did_you_mean(value, self.choices) or "."
            what = f"{self.flag} takes one of {words}, got {value!r:.80}"
            raise UserError(f"{what}{hint}")
        if self.is_local:
            paths.check_path(self.flag, value)
        if self.names_directory:
            paths.check_name(self.flag, value)
        below = self.low is not None and (
            value <= self.low if self.exclusive else value < self.low
        )
        if below or (self.high is not None and value > self.high):
            raise UserError(f"{self.flag} must be {self.bounds}, got {value}.")


_P = ParamSpec("_P")
_C = TypeVar("_C", bound="Checked")


def _declaration(
    facts: Callable[_P, Facts], **usual: Any
) -> Callable[Concatenate[Any, _P], Any]:
    """Return a function of a default and `Facts` arguments, with preset arguments."""

    def declare(default: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> Any:
        for name, value in usual.items():
            kwargs.setdefault(name, value)
        metadata = {"facts": facts(*args, **kwargs)}
        return dataclasses.field(default=default, metadata=metadata)

    return declare


_LOG: HpType = "log_uniform"
option = _declaration(Facts)
"""Declare an option as a config's field: `option(DEFAULT, HELP, low=…, …)`."""
count = _declaration(Facts, low=1)
"""Declare an option with values of 1 or more."""
positive = _declaration(Facts, low=0, exclusive=True, hp_type=_LOG)
"""Declare an option with values above 0, which `tune` samples log-uniformly."""
coefficient = _declaration(Facts, low=0, hp_type=_LOG)
"""Declare an option with values of 0 or more, which `tune` samples log-uniformly."""
fraction = _declaration(Facts, low=0, high=1, hp_type=_LOG)
"""Declare an option with values from 0 to 1, which `tune` samples log-uniformly."""


def shared(declare: Callable[..., Any], help: str, **facts: Any) -> Callable[..., Any]:
    """Return a function that declares an option shared by algorithms: `lr(3e-4)`.

    It takes an algorithm's default, and other properties that differ, such as `help=…`.
    """
    return lambda default, **own: declare(default, **{"help": help, **facts, **own})


def options(config: type) -> tuple[Option, ...]:
    """Return the options of a config class in the order of its fields."""
    return _options(config)


@functools.cache  # reading the hints of a class takes long
def _options(config: type) -> tuple[Option, ...]:
    found = list[Option]()
    hints = typing.get_type_hints(config)
    for field in dataclasses.fields(config):
        hint = hints[field.name]
        if isinstance(hint, types.UnionType):
            hint = next(t for t in hint.__args__ if t is not type(None))
        many = typing.get_origin(hint) is tuple
        kind = typing.get_args(hint)[0] if many else hint
        facts = vars(field.metadata["facts"]) | {"type": kind, "many": many}
        found.append(Option(name=field.name, default=field.default, **facts))
    return (*found,)


def plain_values(known: Iterable[Option], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by flat name as plain Python values; see `Option.plain`.

    Lists become tuples. Unknown names are kept, for `check_known` to reject.
    """
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
    own = {each.name: each for each in known}
    return {k: own[k].plain(v) if k in own else v for k, v in values.items()}


def suggest_option(
    name: str, known: Iterable[Option], flags: Iterable[str] = ()
) -> str:
    """Return `; did you mean A?` for an unknown name that resembles an option's.

    Args:
        name: the unknown name, such as `learning_rate` or `--learning-rate`.
        known: the existing options.
        flags: flags to suggest; without any, options are suggested by their names.
    """
    known, word = list(known), name.lstrip("-").replace("-", "_").lower()
    texts = {each.lstrip("-").replace("-", "_"): each for each in flags}
    texts = texts or {each.name: each.name for each in known}
    for each in known:
        if word in each.known_as:
            return f"; did you mean {texts[each.name]}?"
    return did_you_mean(word, texts, texts)


def check_known(names: Iterable[str], known: Iterable[Option]) -> None:
    """Raise UserError when a name isn't an option's."""
    options = {each.name: each for each in known}
    mistakes = Mistakes()
    for name in names:
        if name not in options:
            hint = suggest_option(name, options.values()) or ": leave it out."
            mistakes.found.append(UserError(f"There is no setting {name!r}{hint}"))
    mistakes.report()


def check_values(known: Iterable[Option], given: Mapping[str, Any]) -> None:
    """Raise UserError when a value isn't allowed for its option."""
    mistakes = Mistakes()
    for each in known:
        if each.name in given:
            with mistakes:
                each.check(given[each.name])
    mistakes.report()


class Checked:
    """Base of every config; construction validates all values."""

    @classmethod
    def of(cls: type[_C], values: Mapping[str, Any]) -> _C:
        """Return the config with the values of its own settings, by flat name."""
        return cls(**{o.name: values[o.name] for o in options(cls) if o.name in values})

    def __post_init__(self) -> None:
        for each in options(type(self)):
            object.__setattr__(self, each.name, each.plain(getattr(self, each.name)))
        check_values(options(type(self)), vars(self))

    def not_default(self, *names: str) -> list[str]:
        """Return the names of the settings that differ from their defaults."""
        return [n for n in names if getattr(self, n) != getattr(type(self), n)]
