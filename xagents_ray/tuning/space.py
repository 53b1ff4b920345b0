"""Search spaces of the settings that a sweep varies."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from xagents_ray.core.errors import UserError
from xagents_ray.settings.options import HpType, Option, plain_values, suggest_option


@dataclass(frozen=True)
class Space:
    """The search space of one setting.

    Attributes:
        kind: categorical for one of the values; int and log_uniform for the range
            from the first to the last value; None if the setting can't vary.
        values: the values, two or more.
    """

    kind: HpType | None
    values: tuple[Any, ...]


def categorical(*values: Any) -> Space:
    """Vary a setting over these values, two or more.

    >>> n_envs = xagents_ray.categorical(8, 16, 32)  # of xagents_ray.tune
    """
    return Space("categorical", values)


def integer(low: int, high: int) -> Space:
    """Vary a setting over the whole numbers from `low` to `high`, both included.

    >>> target_sync_steps = xagents_ray.integer(500, 5_000)  # of xagents_ray.tune
    """
    return Space("int", (low, high))


def log_uniform(low: float, high: float) -> Space:
    """Vary a setting from `low` > 0 to `high`, evenly in its logarithm.

    >>> lr = xagents_ray.log_uniform(1e-5, 1e-2)  # of xagents_ray.tune
    """
    return Space("log_uniform", (low, high))


def split_varied(
    options: Iterable[Option], given: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Space]]:
    """Return the settings that are fixed, and those that vary.

    Args:
        options: all options that may be given.
        given: settings by flat name; several values of an option with an
            `hp_type` vary it.
    Raises:
        UserError: a setting is unknown, can't vary, or has invalid values.
    """
    known = {option.name: option for option in options}
    fixed: dict[str, Any] = {}
    spaces: dict[str, Space] = {}
    for name, value in given.items():
        if name not in known:
            hint = suggest_option(name, known.values()) or "."
            raise UserError(f"There is no setting {name!r} of tune{hint}")
        option = known[name]
        if isinstance(value, list | tuple) and not option.many:
            several = Space(option.hp_type, tuple(value))
            value = value[0] if len(value) == 1 else several
        if isinstance(value, Space):
            spaces[name] = Space(value.kind, tuple(map(option.plain, value.values)))
            _check(option, spaces[name])
        else:
            fixed |= plain_values([option], {name: value})
    return fixed, spaces


def _check(option: Option, space: Space) -> None:
    """Raise UserError if a search space is invalid for an option."""
    flag, values = option.flag, space.values
    if option.hp_type is None:
        raise UserError(f"{flag} does not vary: give it one value.")
    for value in values:
        option.check(value)
    given = " ".join(map(str, values))
    if space.kind == "categorical":
        if len(values) < 2:
            raise UserError(f"{flag} needs two values or more to vary over.")
        if len({repr(value) for value in values}) < len(values):
            raise UserError(f"{flag} {given} names a value twice: leave one out.")
        return
    if len(values) != 2:
        raise UserError(
            f"{flag} takes a minimum and a maximum, or one value, got {given}."
        )
    if any(isinstance(value, str) for value in values):
        raise UserError(
            f"{flag} {given}: a schedule is no end of a range: give two numbers, or "
            "one schedule."
        )
    low, high = values
    whole = option.type is int
    if whole != (space.kind == "int"):
        helper = "integer" if whole else "log_uniform"
        raise UserError(f"{flag} varies with {helper} or categorical: use one of them.")
    if low >= high:
        raise UserError(f"{flag} {given}: the minimum must be below the maximum.")
    if space.kind == "log_uniform" and low <= 0:
        raise UserError(
            f"{flag} {given}: it varies by its logarithm, so give a minimum above 0."
        )
