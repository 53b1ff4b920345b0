"""Reads the curves of training histories, and joins those of several seeds."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from xagents_ray.core.errors import UserError, did_you_mean
from xagents_ray.storage.history import read_history
from xagents_ray.storage.history_parts import COLUMNS, NAMES
from xagents_ray.storage.run_directory import RunDirectory, run_directories
from xagents_ray.tuning.scores import Floats, interquartile_mean, iqm_interval

# More points than a wide image has pixel columns.
_POINTS = 3_000
_BAND_POINTS = 300


class Curve(NamedTuple):
    """A curve, and a band around it if it is the middle of several."""

    x: Floats  # [points], env steps or seconds
    y: Floats  # [points]
    band: tuple[Floats, Floats] | None = None  # lower and upper end, [points] each


def runs_below(path: str | Path) -> list[list[str | Path]]:
    """Return the histories that a path names, those of one curve together.

    A directory that is neither a run nor a history stands for the runs below it, which
    are grouped by agent and environment.
    """
    run = RunDirectory(Path(path))
    is_above = Path(path).is_dir() and not run.has_started and not run.history.exists()
    found = run_directories(Path(path)) if is_above else []
    groups: dict[Path, list[str | Path]] = {}
    for each in found:
        if each.history.exists():
            groups.setdefault(each.path.parent, []).append(each.path)
    return [*groups.values()] or [[path]]


def middle_of(curves: Sequence[Curve]) -> Curve:
    """Return the interquartile mean of curves with its 95 % bootstrap interval.

    It ends where the shortest one does. A single curve is returned unchanged.
    """
    if len(curves) == 1:
        return curves[0]
    first = max(curve.x[0] for curve in curves)
    last = max(first, min(curve.x[-1] for curve in curves))
    x = np.linspace(first, last, _BAND_POINTS)
    y = np.stack([np.interp(x, curve.x, curve.y) for curve in curves])
    return Curve(x, interquartile_mean(y), iqm_interval(y))


def read_curve(
    path: str | Path, plot: str, benchmark: str, interval: int = 1, smoothing: int = 1
) -> Curve:
    """Return what a history draws.

    Args:
        path: a history, or the directory of a run.
        plot: column on the y axis.
        benchmark: column on the x axis, `step` or `time`.
        interval: interval of the drawn episodes; the last one is always drawn.
        smoothing: window of the trailing mean, in episodes.
    Raises:
        UserError: the history can't be read, or has no such values.
    """
    run = RunDirectory(Path(path))
    if not run.history.exists() and run.has_started:
        raise UserError(
            f"{path} has no history yet, as no episode of the run has ended: let it "
            "train longer, or name another run."
        )
    rows = read_history(run.history if run.history.exists() else path)
    own = (each for each in rows.dtype.names or () if each not in NAMES)
    check_choice(str(path), "column", plot, [*COLUMNS, *own])
    x, y = rows[benchmark].astype(np.float64), rows[plot].astype(np.float64)
    there = np.isfinite(y)
    if not there.any():
        raise UserError(
            f"The column {plot} of {path} has no values; plot another column."
        )
    x, y = x[there], y[there]
    order = np.argsort(x, kind="stable")
    x, y = x[order], _smooth(y[order], smoothing)
    kept = np.union1d(np.arange(0, len(x), interval), len(x) - 1)
    return _thin(x[kept], y[kept])


def _smooth(y: Floats, episodes: int) -> Floats:
    """Return the trailing mean over `episodes` values, fewer at the start."""
    if episodes == 1:
        return y
    sums = np.concatenate([[0.0], np.cumsum(y)])
    ends = np.arange(1, len(y) + 1)
    starts = np.maximum(ends - episodes, 0)
    smooth: Floats = (sums[ends] - sums[starts]) / (ends - starts)
    return smooth


def _thin(x: Floats, y: Floats) -> Curve:
    """Reduce the points to the ends and the extremes of each interval."""
    if len(y) <= _POINTS:
        return Curve(x, y)
    stretches = np.array_split(np.arange(len(y)), _POINTS // 2 - 1)
    extremes = [s[f(y[s])] for s in stretches for f in (np.argmin, np.argmax)]
    kept = np.unique([0, *extremes, len(y) - 1])
    return Curve(x[kept], y[kept])


def check_choice(owner: str, what: str, name: str, known: Sequence[str]) -> None:
    """Raise UserError when a name isn't known."""
    if name not in known:
        remedy = did_you_mean(name, known) or f"; choose from {', '.join(known)}."
        raise UserError(f"{owner} has no {what} {name!r}{remedy}")
