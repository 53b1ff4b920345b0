"""Aggregate scores over several seeds, as in arXiv:2108.13264 (rliable)."""

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
_RESAMPLES = 2_000
CONFIDENCE = 0.95


def standard_error(scores: Floats) -> float | None:
    """Return the standard error of the mean of scores, float64 [S]; None for one."""
    if len(scores) < 2:
        return None
    return float(scores.std(ddof=1)) / math.sqrt(len(scores))


def interquartile_mean(scores: Floats) -> Floats:
    """Return the mean of the middle half of scores, float64 [S, …], over the seeds.

    Like `scipy.stats.trim_mean(scores, 0.25)`: a quarter of the seeds, rounded down, is
    dropped at each end. With fewer than four seeds, it is the mean.
    """
    cut = len(scores) // 4
    kept = np.sort(scores, axis=0)[cut : len(scores) - cut]
    return np.asarray(kept.mean(axis=0))


def iqm_interval(scores: Floats) -> tuple[Floats, Floats]:
    """Return the 95 % interval of the interquartile mean of scores, float64 [S, …].

    It is a percentile bootstrap over the seeds with a fixed generator.
    """
    generator, count = np.random.default_rng(0), len(scores)
    drawn = generator.integers(count, size=(count, _RESAMPLES))
    means = interquartile_mean(scores[drawn])
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means, [tail, 1 - tail], axis=0)
    return low, high
