"""Scores of several seeds: against tables worked by hand, and what is known of them."""

import numpy as np
import pytest

from xagents_ray.tuning.scores import interquartile_mean, iqm_interval, standard_error


@pytest.mark.parametrize(
    ("scores", "mean"),
    [
        ([5], 5),
        ([1, 2, 9], 4),  # nothing is cut off
        ([9, 1, 2, 4], 3),
        ([0, 1, 2, 3, 100], 2),
        ([8, 7, 6, 5, 4, 3, 2, 100], 5.5),
    ],
)
def test_the_interquartile_mean(scores: list[float], mean: float) -> None:
    assert interquartile_mean(np.array(scores, np.float64)) == mean


def test_the_standard_error() -> None:
    assert standard_error(np.array([2.0, 4.0, 6.0])) == pytest.approx(2 / np.sqrt(3))
    assert standard_error(np.array([2.0])) is None


def test_the_interval_is_that_of_every_column() -> None:
    scores = np.random.default_rng(1).normal(size=(9, 4))
    low, high = iqm_interval(scores)
    for column in range(4):
        assert iqm_interval(scores[:, column]) == (low[column], high[column])


def test_the_interval_covers_the_mean_as_often_as_it_says() -> None:
    """Of a normal distribution, its interquartile mean is the mean."""
    scores = np.random.default_rng(2).normal(size=(30, 400))
    low, high = iqm_interval(scores)
    covered = float(((low < 0) & (0 < high)).mean())
    assert covered == pytest.approx(0.95, abs=0.04)


def test_seeds_that_agree_have_no_spread() -> None:
    low, high = iqm_interval(np.full(5, 3.0))
    assert low == high == 3.0
