"""Running means and variances of observations and returns."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from xagents_ray.core.spec import Goals

STD_EPSILON = 1e-8
"""Added to variances before the square root."""
CLIP_RANGE = 10.0
"""Largest absolute value of normalized numbers; others are clipped."""
OBSERVATION = "observation"
"""Prefix of a normalizing policy's arrays: `observation/mean`, …."""
WRAPPER = "wrapper-"
"""Prefix of the names of statistics of an environment's normalizing wrappers."""
POLICY_STATISTICS = OBSERVATION, WRAPPER
"""Prefixes of the float64 arrays among the weights to act with."""


class Moments(NamedTuple):
    """Moments of scalar samples, or of each component of array samples."""

    size: float  # number of samples
    mean: npt.NDArray[Any]  # float64 [...]
    variance: npt.NDArray[Any]  # float64 [...], not bias-corrected


Statistics = dict[str, Moments]
"""Moments by name: `observation`, the discounted `return`, and `wrapper-0`, ….

It has only those that a run normalizes by.
"""


def moments_of(rows: npt.NDArray[Any]) -> Moments:
    """Return the moments of [N, ...] rows, N > 0."""
    rows = rows.astype(np.float64)
    return Moments(float(len(rows)), rows.mean(axis=0), rows.var(axis=0))


def merge_moments(one: Moments, other: Moments) -> Moments:
    """Return the moments of the union of two samples.

    Source: Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for
    computing sample variances", 1979.
    """
    size = one.size + other.size
    if size == 0:
        return one
    part = other.size / size
    apart = other.mean - one.mean
    variance = one.variance + part * (other.variance - one.variance)
    variance = variance + part * (1 - part) * np.square(apart)
    return Moments(size, one.mean + part * apart, variance)


def pool_goals(moments: Moments, goals: Goals) -> Moments:
    """Return the moments of observations, with the moments of both goals pooled.

    Achieved goals can then replace desired ones, because both are normalized alike.
    """
    size, mean, variance = moments
    parts = [Moments(size, mean[each], variance[each]) for each in goals.slices]
    pooled, mean, variance = merge_moments(*parts), mean.copy(), variance.copy()
    for each in goals.slices:
        mean[each], variance[each] = pooled.mean, pooled.variance
    return Moments(size, mean, variance)


def merge_all(*statistics: Mapping[str, Moments]) -> Statistics:
    """Return the statistics of the union of all samples, by name."""
    merged: Statistics = {}
    for each in statistics:
        for name, moments in each.items():
            merged[name] = (
                merge_moments(merged[name], moments) if name in merged else moments
            )
    return merged


def to_json(statistics: Statistics) -> dict[str, Any]:
    """Return statistics as JSON, without loss of precision."""
    return {
        name: [size, np.asarray(mean).tolist(), np.asarray(variance).tolist()]
        for name, (size, mean, variance) in statistics.items()
    }


def from_json(data: Mapping[str, Any]) -> Statistics:
    """Return the statistics that `to_json` wrote.

    Raises:
        Exception: any type, if they are damaged.
    """
    found: Statistics = {}
    for name, (size, *parts) in data.items():
        mean, variance = (np.array(part, np.float64) for part in parts)
        moments = found[name] = Moments(float(size), mean, variance)
        is_finite = all(np.isfinite(part).all() for part in moments)
        if mean.shape != variance.shape or not is_finite:
            raise ValueError(f"its statistics {name!r:.80} are damaged")
    return found


def wrapper_name(index: int) -> str:
    """Return the name of the statistics of normalizing wrapper `index`."""
    return f"{WRAPPER}{index}"


def statistics_shapes(observation_shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a normalizing policy's float64 arrays, by name."""
    return moments_shapes(OBSERVATION, observation_shape)


def moments_shapes(name: str, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays that hold moments, by name."""
    return {f"{name}/size": (), f"{name}/mean": shape, f"{name}/variance": shape}
