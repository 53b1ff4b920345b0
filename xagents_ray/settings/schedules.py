"""Settings that are numbers or schedules over the run."""

import contextlib
import dataclasses
from typing import Any

from xagents_ray.core.errors import UserError, shown
from xagents_ray.core.schedule import Schedule


def plain_schedule(value: Any) -> Any:
    """Return the text of a schedule that a value means, or the value if it is none.

    See `ScheduleLike` for what means a schedule.

    Raises:
        UserError: a function doesn't return numbers.
    """
    with contextlib.suppress(ValueError, TypeError):
        if isinstance(value, str):
            return str(Schedule.parse(value))
        if isinstance(value, tuple):
            return str(Schedule.of(value))
    if not callable(value):
        return value
    try:
        return str(Schedule.sampled(value))
    except Exception as error:
        raise UserError(
            "A schedule's function takes the fraction of the run that remains, from 1 "
            f"to 0, and returns a finite number; {shown(value)} doesn't: {error}."
        ) from error


def check_schedule(option: Any, value: Any) -> None:
    """Raise UserError if a value is no schedule of values that an option allows.

    They may fall to a bound that a constant value must not reach.
    """
    values: tuple[float, ...] | None = None
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            values = Schedule.parse(value).values
    if values is None:
        raise UserError(
            f"{option.flag} takes a number, or a schedule such as linear:3e-4:0 or "
            f"0:3e-4,0.5:1e-4,1:0, got {shown(value)}."
        )
    one = dataclasses.replace(option, scheduled=False, exclusive=False)
    for each in values:
        one.check(each)


def check_constant(flag: str, value: float | str, decay: str) -> None:
    """Raise UserError if a setting that another flag decays has a schedule itself."""
    if isinstance(value, str):
        raise UserError(
            f"{decay} and a schedule of {flag} contradict each other: drop one."
        )
