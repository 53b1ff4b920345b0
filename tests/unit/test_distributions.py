"""Distributions against closed forms and sums of probabilities."""

import math
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from xagents_ray.learners.distributions import (
    categorical_entropy,
    categorical_log_prob,
    gaussian_entropy,
    gaussian_log_prob,
)


def test_categorical_by_hand() -> None:
    # Probabilities 1/2, 1/3, 1/6, and logits that are off by a constant.
    logits = tf.constant([[0.0] * 3, [100.0] * 3]) + tf.math.log([3.0, 2.0, 1.0])
    for action, p in enumerate((1 / 2, 1 / 3, 1 / 6)):
        got = categorical_log_prob(logits, tf.constant([action, action]))
        np.testing.assert_allclose(got, np.log([p, p]), rtol=1e-4)
    entropy = math.log(2) / 2 + math.log(3) / 3 + math.log(6) / 6
    np.testing.assert_allclose(categorical_entropy(logits), [entropy] * 2, rtol=1e-5)


def test_categorical_against_numpy() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 3, (50, 7)).astype(np.float32)
    actions = rng.integers(0, 7, 50, np.int32)
    p = np.exp(logits.astype(np.float64))
    p /= p.sum(axis=1, keepdims=True)
    got = categorical_log_prob(tf.constant(logits), tf.constant(actions))
    np.testing.assert_allclose(got, np.log(p[np.arange(50), actions]), rtol=1e-4)
    expected = -(p * np.log(p)).sum(axis=1)
    np.testing.assert_allclose(categorical_entropy(logits), expected, rtol=1e-4)


@pytest.mark.parametrize("n", [1, 2, 18])
def test_entropy_of_equal_chances(n: int) -> None:
    got = categorical_entropy(tf.fill([1, n], 5.0))
    np.testing.assert_allclose(got, [math.log(n)], atol=1e-6)


def test_certain_actions_stay_finite() -> None:
    logits = tf.constant([[1e4, 0, -1e4]])
    np.testing.assert_array_equal(categorical_entropy(logits), [0])
    got = [float(categorical_log_prob(logits, [a])[0]) for a in range(3)]
    assert got == [0, -1e4, -2e4]


def density(x: Any, mean: float, log_std: float) -> Any:
    std = np.exp(log_std)
    return np.exp(-((x - mean) ** 2) / (2 * std**2)) / (std * np.sqrt(2 * np.pi))


def test_gaussian_by_hand() -> None:
    # At the mean of a unit Gaussian, one deviation off, and with a deviation of 2.
    constant = 0.5 * math.log(2 * math.pi)
    for log_std, action, expected in (
        (0.0, 0.0, -constant),
        (0.0, 1.0, -constant - 0.5),
        (math.log(2), 0.0, -constant - math.log(2)),
        (math.log(2), 2.0, -constant - math.log(2) - 0.5),
    ):
        got = gaussian_log_prob(
            tf.zeros([1, 1]), tf.constant([log_std]), tf.constant([[action]])
        )
        np.testing.assert_allclose(got, [expected], rtol=1e-6)
    entropy = gaussian_entropy(tf.constant([0.0, math.log(2)]))
    np.testing.assert_allclose(entropy, 1 + math.log(2 * math.pi) + math.log(2))


def test_gaussian_against_numpy() -> None:
    rng = np.random.default_rng(1)
    means, actions = rng.normal(size=(2, 40, 3))
    log_std = np.array([-1.0, 0.0, 0.7])
    expected = np.log(density(actions, means, log_std)).sum(axis=1)
    got = gaussian_log_prob(
        tf.constant(means), tf.constant(log_std), tf.constant(actions)
    )
    np.testing.assert_allclose(got, expected, rtol=1e-4)


@pytest.mark.parametrize("log_std", [-1.0, 0.5])
def test_gaussian_densities_sum_to_one(log_std: float) -> None:
    """And give the entropy, without a closed form."""
    x = np.linspace(-15, 15, 3001, dtype=np.float32)[:, None]
    log_density = gaussian_log_prob(
        tf.ones_like(x), tf.constant([log_std]), tf.constant(x)
    ).numpy()
    weights = np.exp(log_density.astype(np.float64)) * 0.01
    np.testing.assert_allclose(weights.sum(), 1, rtol=1e-4)
    entropy = -(weights * log_density).sum()
    np.testing.assert_allclose(
        gaussian_entropy(tf.constant([log_std])), entropy, rtol=1e-3
    )
