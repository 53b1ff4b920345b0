"""Projections of distributions against the paper's loop, and by hand."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from xagents_ray.learners.math.categorical import logits_of, projected_targets

SUPPORT = np.linspace(-2, 6, 5, dtype=np.float32)  # -2, 0, 2, 4, 6


def project(rewards: Any, discounts: Any, probs: Any, support: Any = SUPPORT) -> Any:
    floats = [tf.constant(x, tf.float32) for x in (rewards, discounts, probs)]
    return [x.numpy() for x in projected_targets(*floats, support)]


def by_the_paper(reward: float, discount: float, probs: Any, support: Any) -> Any:
    """Return what algorithm 1 of arXiv:1707.06887 does, atom by atom."""
    low, high, count = float(support[0]), float(support[-1]), len(support)
    distance, found = (high - low) / (count - 1), np.zeros(count)
    for j in range(count):
        target = min(max(reward + discount * float(support[j]), low), high)
        place = (target - low) / distance
        lower, upper = int(np.floor(place)), int(np.ceil(place))
        if lower == upper:  # on which the paper is silent
            found[lower] += probs[j]
        else:
            found[lower] += probs[j] * (upper - place)
            found[upper] += probs[j] * (place - lower)
    return found


def test_projection_is_that_of_the_paper() -> None:
    rng = np.random.default_rng(0)
    support = np.linspace(-10, 10, 51, dtype=np.float32)
    probs = rng.dirichlet(np.ones(51), 64)
    rewards, discounts = rng.normal(0, 8, 64), rng.choice([0, 0.5, 0.99], 64)
    got, share = project(rewards, discounts, probs, support)
    for row, *given in zip(got, rewards, discounts, probs, strict=True):
        np.testing.assert_allclose(row, by_the_paper(*given, support), atol=2e-5)
    np.testing.assert_allclose(got.sum(-1), 1, atol=1e-5)
    returns = rewards[:, None] + discounts[:, None] * support
    outside = (returns < -10.2) | (returns > 10.2)
    np.testing.assert_allclose(share, (probs * outside).sum(-1), atol=1e-5)
    assert 0 < share.mean() < 1


def test_projection_by_hand() -> None:
    """A shift by an atom, by half of one, an end, and returns that are clipped."""
    probs = [0.1, 0.2, 0.3, 0.4, 0.0]
    got, share = project(
        [2, 1, 3, 8], [1, 1, 0, 1], [probs, probs, probs, [0.5, 0.5, 0, 0, 0]]
    )
    expected = [
        [0, 0.1, 0.2, 0.3, 0.4],
        [0.05, 0.15, 0.25, 0.35, 0.2],
        [0, 0, 0.5, 0.5, 0],
        [0, 0, 0, 0, 1],
    ]
    np.testing.assert_allclose(got, expected, atol=1e-6)
    np.testing.assert_allclose(share, [0, 0, 0, 0.5], atol=1e-6)


def test_the_edge_is_not_clipped() -> None:
    """CartPole's 1 + 0.99 * 100 is 100, whatever rounding says."""
    support = np.linspace(0, 100, 51, dtype=np.float32)
    top = np.eye(51)[-1:]
    assert project([1.0], [0.99], top, support)[1] == [0]
    assert project([3.0], [0.99], top, support)[1] == [1]


@pytest.mark.parametrize("action", [0, 1, 2])
def test_logits_of_actions(action: int) -> None:
    logits = tf.range(12.0)[None]
    got = logits_of(logits, tf.constant([action]), 4).numpy()
    np.testing.assert_array_equal(got, [np.arange(4) + 4 * action])
