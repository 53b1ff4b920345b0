"""Schedules: values of a setting that change over a run."""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

ScheduleLike = str | Sequence[tuple[float, float]] | Callable[[float], float]
"""What a setting such as `lr` takes in place of a number; see `Schedule`."""

_MOST_POINTS = 1_000
_INTERVALS = 100  # in which functions are sampled
_LINEAR = "linear:"


class Schedule(NamedTuple):
    """A value that is linear between points and constant before and after them.

    Attributes:
        done: increasing fractions of the run's env steps, from 0 to 1.
        values: the value at each of them.
    """

    done: tuple[float, ...]
    values: tuple[float, ...]

    @classmethod
    def of(cls, points: Iterable[Iterable[float]]) -> "Schedule":
        """Return the schedule through points, (fraction of the run, value) each.

        Raises:
            ValueError: there are none or more than 1,000, or they aren't such pairs.
            TypeError: they aren't such pairs.
        """
        pairs = [(float(done), float(value)) for done, value in points]
        if not 0 < len(pairs) <= _MOST_POINTS:
            raise ValueError(f"a schedule has 1 to {_MOST_POINTS:,} points")
        done, values = zip(*pairs, strict=True)
        if not (0 <= done[0] and done[-1] <= 1) or min(np.diff(done), default=1) <= 0:
            raise ValueError("fractions of a run increase, from 0 to 1")
        if not all(map(math.isfinite, (*done, *values))):
            raise ValueError("values are finite")
        return cls(done, values)

    @classmethod
    def parse(cls, text: str) -> "Schedule":
        """Return the schedule of a text: `linear:3e-4:0`, or `0:3e-4,0.5:1e-4,1:0`.

        Raises:
            ValueError: the text is no schedule.
        """
        if text.startswith(_LINEAR):
            first, last = text.removeprefix(_LINEAR).split(":")
            return cls.of([(0, float(first)), (1, float(last))])
        pairs = (point.split(":") for point in text.split(",", _MOST_POINTS))
        return cls.of((float(done), float(value)) for done, value in pairs)

    @classmethod
    def sampled(cls, function: Callable[[float], float]) -> "Schedule":
        """Return the schedule of a function of the fraction of the run that remains.

        The function is evaluated at 101 fractions, from 1 to 0.
        """
        done = [i / _INTERVALS for i in range(_INTERVALS + 1)]
        points = [(each, float(function(1 - each))) for each in done]
        kept = points[:1]
        for point, following in pairwise(points[1:]):
            if not _is_between(kept[-1], point, following):
                kept.append(point)
        return cls.of([*kept, points[-1]])

    def at(self, done: float) -> float:
        """Return the value at a fraction of the run."""
        return float(np.interp(done, self.done, self.values))

    def __str__(self) -> str:
        if [*self.done] == [0, 1]:
            return f"{_LINEAR}{self.values[0]:.10g}:{self.values[1]:.10g}"
        pairs = zip(self.done, self.values, strict=True)
        return ",".join(f"{done:.10g}:{value:.10g}" for done, value in pairs)


def schedule_of(setting: float | str) -> Schedule:
    """Return the schedule of a setting that is a number or a schedule's text."""
    if isinstance(setting, str):
        return Schedule.parse(setting)
    return Schedule((0,), (setting,))


def _is_between(
    first: tuple[float, float], point: tuple[float, float], last: tuple[float, float]
) -> bool:
    """Return whether a point is on the line between two others."""
    share = (point[0] - first[0]) / (last[0] - first[0])
    expected = first[1] + share * (last[1] - first[1])
    largest = max(abs(first[1]), abs(point[1]), abs(last[1]))
    return abs(point[1] - expected) <= 1e-9 * largest
