"""Distributions against closed forms and sums of probabilities."""

import math
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from xagents_ray.core.spec import EnvSpec
from xagents_ray.learners.math.distributions import (
    Categorical,
    Gaussian,
    MultiCategorical,
    PolicyHead,
    SquashedGaussian,
)
from xagents_ray.learners.math.noise import standard_normal

MEANS = tf.zeros([1, 2])


def test_categorical_by_hand() -> None:
    # Probabilities 1/2, 1/3, 1/6, and logits that are off by a constant.
    logits = tf.constant([[0.0] * 3, [100.0] * 3]) + tf.math.log([3.0, 2.0, 1.0])
    for action, p in enumerate((1 / 2, 1 / 3, 1 / 6)):
        got = Categorical(logits).log_prob(tf.constant([action, action]))
        np.testing.assert_allclose(got, np.log([p, p]), rtol=1e-4)
    entropy = math.log(2) / 2 + math.log(3) / 3 + math.log(6) / 6
    np.testing.assert_allclose(Categorical(logits).entropy(), [entropy] * 2, rtol=1e-5)


def test_a_gaussian_sample_is_its_mean_and_noise() -> None:
    seed, log_std = tf.constant([3, 4]), tf.constant([-1.0, 0.5])
    means = tf.constant([[1.0, 2.0], [-3.0, 4.0], [0.0, 0.0]])
    noise = standard_normal(seed, [3, 2]).numpy()
    expected = means.numpy() + np.exp(log_std.numpy()) * noise
    np.testing.assert_allclose(Gaussian(means, log_std).sample(seed), expected, 1e-5)
    assert np.abs(noise).min() > 0.01


def test_categorical_against_numpy() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 3, (50, 7)).astype(np.float32)
    actions = rng.integers(0, 7, 50, np.int32)
    p = np.exp(logits.astype(np.float64))
    p /= p.sum(axis=1, keepdims=True)
    got = Categorical(tf.constant(logits)).log_prob(tf.constant(actions))
    np.testing.assert_allclose(got, np.log(p[np.arange(50), actions]), rtol=1e-4)
    expected = -(p * np.log(p)).sum(axis=1)
    np.testing.assert_allclose(Categorical(logits).entropy(), expected, rtol=1e-4)


def test_more_dimensions_before_the_actions() -> None:
    """Five steps of two environments."""
    rng = np.random.default_rng(0)
    outputs, others = (rng.normal(size=(5, 2, 3)).astype(np.float32) for _ in range(2))
    log_std, choices = tf.constant([-1.0, 0.0, 0.5]), rng.integers(0, 3, (5, 2))
    for kind, actions in (
        (Categorical, tf.constant(choices, tf.int32)),
        (lambda x: Gaussian(x, log_std), tf.constant(others)),
        (lambda x: Gaussian(x, 0.1 * x), tf.constant(others)),
    ):
        whole = kind(tf.constant(outputs))
        rows = [kind(tf.constant(x)) for x in outputs]
        for t, row in enumerate(rows):
            expected = row.log_prob(actions[t])
            np.testing.assert_allclose(whole.log_prob(actions)[t], expected, rtol=1e-5)
            if len(whole.entropy().shape):
                np.testing.assert_allclose(whole.entropy()[t], row.entropy(), rtol=1e-5)


def test_several_actions_are_one_of_all_pairs() -> None:
    """Their joint distribution: of 3 * 2 pairs, with sums of logits."""
    rng = np.random.default_rng(0)
    both, others = (rng.normal(0, 2, (9, 5)).astype(np.float32) for _ in range(2))
    several, theirs = (MultiCategorical(tf.constant(x), (3, 2)) for x in (both, others))
    joint, joints = (
        Categorical((x[:, :3, None] + x[:, None, 3:]).reshape(9, 6))
        for x in (both, others)
    )
    actions = np.stack([rng.integers(3, size=9), rng.integers(2, size=9)], axis=1)
    actions = actions.astype(np.int32)
    pairs = actions[:, 0] * 2 + actions[:, 1]
    for found, expected in (
        (several.log_prob(actions), joint.log_prob(pairs)),
        (several.entropy(), joint.entropy()),
        (several.kl(theirs), joint.kl(joints)),
        (several[2:4].entropy(), joint.entropy()[2:4]),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    mode = several.mode()
    np.testing.assert_array_equal(mode[:, 0] * 2 + mode[:, 1], joint.mode())


def test_several_actions_are_drawn_independently() -> None:
    logits = tf.math.log([[0.7, 0.2, 0.1, 0.25, 0.75]])
    several = MultiCategorical(tf.repeat(logits, 40_000, axis=0), (3, 2))
    drawn = several.sample(tf.constant([1, 2])).numpy()
    assert (drawn.shape, drawn.dtype) == ((40_000, 2), np.int32)
    counts = np.bincount(drawn[:, 0] * 2 + drawn[:, 1], minlength=6) / 40_000
    expected = np.outer([0.7, 0.2, 0.1], [0.25, 0.75]).ravel()
    np.testing.assert_allclose(counts, expected, atol=0.01)


@pytest.mark.parametrize("n", [1, 2, 18])
def test_entropy_of_equal_chances(n: int) -> None:
    got = Categorical(tf.fill([1, n], 5.0)).entropy()
    np.testing.assert_allclose(got, [math.log(n)], atol=1e-6)


def test_certain_actions_stay_finite() -> None:
    logits = tf.constant([[1e4, 0, -1e4]])
    np.testing.assert_array_equal(Categorical(logits).entropy(), [0])
    got = [float(Categorical(logits).log_prob([a])[0]) for a in range(3)]
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
        got = Gaussian(tf.zeros([1, 1]), tf.constant([log_std])).log_prob(
            tf.constant([[action]])
        )
        np.testing.assert_allclose(got, [expected], rtol=1e-6)
    entropy = Gaussian(MEANS, tf.constant([0.0, math.log(2)])).entropy()
    np.testing.assert_allclose(entropy, 1 + math.log(2 * math.pi) + math.log(2))


def test_gaussian_against_numpy() -> None:
    rng = np.random.default_rng(1)
    means, actions = rng.normal(size=(2, 40, 3))
    log_std = np.array([-1.0, 0.0, 0.7])
    expected = np.log(density(actions, means, log_std)).sum(axis=1)
    got = Gaussian(tf.constant(means), tf.constant(log_std)).log_prob(
        tf.constant(actions)
    )
    np.testing.assert_allclose(got, expected, rtol=1e-4)


@pytest.mark.parametrize("log_std", [-1.0, 0.5])
def test_gaussian_densities_sum_to_one(log_std: float) -> None:
    """And give the entropy, without a closed form."""
    x = np.linspace(-15, 15, 3001, dtype=np.float32)[:, None]
    log_density = (
        Gaussian(tf.ones_like(x), tf.constant([log_std]))
        .log_prob(tf.constant(x))
        .numpy()
    )
    weights = np.exp(log_density.astype(np.float64)) * 0.01
    np.testing.assert_allclose(weights.sum(), 1, rtol=1e-4)
    entropy = -(weights * log_density).sum()
    np.testing.assert_allclose(
        Gaussian(MEANS, tf.constant([log_std])).entropy(), entropy, rtol=1e-3
    )


def test_categorical_kl_by_hand() -> None:
    """From (1/2, 1/4, 1/4) to (1/4, 1/4, 1/2), off by constants, and to itself."""
    logs = np.log([[2, 1, 1], [2, 1, 1]]).astype(np.float32)
    old = tf.constant(logs) + tf.constant([[0.0], [50.0]])
    new = tf.constant(np.log([[1, 1, 2], [2, 1, 1]]).astype(np.float32)) - 3
    expected = [0.5 * math.log(2) - 0.25 * math.log(2), 0]
    np.testing.assert_allclose(
        Categorical(old).kl(Categorical(new)), expected, atol=1e-5
    )


def test_categorical_kl_against_numpy() -> None:
    rng = np.random.default_rng(2)
    old, new = rng.normal(0, 2, (2, 30, 5))
    p, q = (np.exp(x) / np.exp(x).sum(axis=1, keepdims=True) for x in (old, new))
    expected = [
        sum(a * math.log(a / b) for a, b in zip(*row, strict=True))
        for row in zip(p, q, strict=True)
    ]
    assert min(expected) > 0.01
    np.testing.assert_allclose(
        Categorical(old).kl(Categorical(new)), expected, rtol=1e-9
    )


def test_categorical_kl_of_certain_actions_stays_finite() -> None:
    sure, other = tf.constant([[1e4, 0, -1e4]]), tf.constant([[0.0, 0.0, 0.0]])
    np.testing.assert_allclose(
        Categorical(sure).kl(Categorical(other)), [math.log(3)], rtol=1e-6
    )
    np.testing.assert_array_equal(Categorical(sure).kl(Categorical(sure)), [0])


def kl_by_hand(mean: float, log_std: float) -> float:
    """Return that of a unit Gaussian from another: one dimension."""
    old = tf.zeros([1, 1]), tf.zeros([1])
    got = Gaussian(*old).kl(Gaussian(tf.constant([[mean]]), tf.constant([log_std])))
    return float(got[0])


def test_gaussian_kl_by_hand() -> None:
    assert kl_by_hand(0.0, 0.0) == 0
    assert kl_by_hand(2.0, 0.0) == pytest.approx(2)  # half the squared distance
    # log 2 + 1 / (2 * 4) - 1/2, and with the mean moved by 2: + 4 / (2 * 4)
    wider = math.log(2) + 1 / 8 - 1 / 2
    assert kl_by_hand(0.0, math.log(2)) == pytest.approx(wider, rel=1e-6)
    assert kl_by_hand(2.0, math.log(2)) == pytest.approx(wider + 0.5, rel=1e-6)


def test_gaussian_kl_sums_densities_without_a_closed_form() -> None:
    """Of two dimensions, whose divergences add up."""
    x = np.linspace(-20, 20, 40001)
    old, new = ((0.5, -0.3), (-1.0, 0.4)), ((-0.2, 0.1), (1.0, -0.2))
    expected = 0.0
    for (mean, log_std), (to_mean, to_log_std) in zip(old, new, strict=True):
        p, q = density(x, mean, log_std), density(x, to_mean, to_log_std)
        expected += float((p * np.log(p / q)).sum() * 0.001) if q.all() else math.nan
    means, log_stds = ([row[i] for row in old] for i in (0, 1))
    to_means, to_log_stds = ([row[i] for row in new] for i in (0, 1))
    constants = (tf.constant(x, tf.float64) for x in (means, to_means))
    old_means, new_means = (x[None] for x in constants)
    got = Gaussian(old_means, tf.constant(log_stds, tf.float64)).kl(
        Gaussian(new_means, tf.constant(to_log_stds, tf.float64))
    )
    np.testing.assert_allclose(got, [expected], rtol=1e-6)


# Actions.


def test_categorical_samples_and_modes() -> None:
    """Drawn as often as they are probable; the same again for the same seed."""
    logits = tf.repeat(tf.math.log([[3.0, 2.0, 1.0]]), 6000, axis=0)
    policy = Categorical(logits)
    drawn = policy.sample([1, 2])
    assert drawn.dtype == tf.int32
    counts = np.bincount(drawn, minlength=3) / 6000
    np.testing.assert_allclose(counts, [1 / 2, 1 / 3, 1 / 6], atol=0.03)
    np.testing.assert_array_equal(drawn, policy.sample([1, 2]))
    assert (drawn.numpy() != policy.sample([1, 3]).numpy()).any()
    np.testing.assert_array_equal(policy[:2].mode(), [0, 0])


def test_gaussian_samples_and_modes() -> None:
    means = tf.repeat([[1.0, -2.0]], 6000, axis=0)
    policy = Gaussian(means, tf.math.log([0.5, 2.0]))
    drawn = policy.sample([1, 2]).numpy()
    np.testing.assert_allclose(drawn.mean(0), [1, -2], atol=0.1)
    np.testing.assert_allclose(drawn.std(0), [0.5, 2], rtol=0.05)
    np.testing.assert_array_equal(drawn, policy.sample([1, 2]))
    np.testing.assert_array_equal(policy[:1].mode(), [[1, -2]])


def test_a_head_makes_what_the_action_space_needs() -> None:
    """What is frozen stays as it is while log_std is learned."""
    outputs = tf.ones([4, 2])
    discrete = PolicyHead(EnvSpec((3,), "float32", 1, 2))
    assert not discrete.variables
    assert isinstance(discrete(outputs), Categorical)
    continuous = PolicyHead(EnvSpec((3,), "float32", 1, 0, (-1.0,) * 2, (1.0,) * 2))
    policy = continuous(outputs)
    frozen, before = policy.frozen(), float(policy.entropy())
    continuous.variables["log_std"].assign([1.0, 2.0])
    assert float(policy.entropy()) == pytest.approx(before + 3)
    assert float(frozen.entropy()) == before


def test_a_head_starts_with_the_deviation_that_was_asked_for() -> None:
    spec = EnvSpec((3,), "float32", 1, 0, (-1.0,) * 2, (1.0,) * 2)
    head = PolicyHead(spec, -1.5)
    np.testing.assert_array_equal(head.variables["log_std"], [-1.5, -1.5])
    assert not PolicyHead(EnvSpec((3,), "float32", 1, 2), -1.5).variables


def probability_below(action: float, mean: float, deviation: float) -> float:
    """Return that of squashed normal numbers, from the error function."""
    return 0.5 * (1 + math.erf((math.atanh(action) - mean) / deviation / math.sqrt(2)))


@pytest.mark.parametrize("log_std", [-1.5, 0.0, 0.7])
def test_squashed_density_is_the_slope_of_probabilities(log_std: float) -> None:
    deviation, means = math.exp(log_std), np.float32([0.4, -1.1])
    noise = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    squashed = SquashedGaussian(
        tf.tile(means[None], [40, 1]), tf.fill([40, 2], log_std)
    )
    actions, log_densities = squashed.actions_of(tf.constant(noise))
    for row, given, got in zip(actions.numpy(), noise, log_densities, strict=True):
        expected = 0.0
        for action, mean, x in zip(row, means, given, strict=True):
            exact = math.tanh(mean + deviation * x)
            assert action == pytest.approx(exact, abs=1e-6)
            step = 1e-3 * (1 - abs(exact))
            below, above = (
                probability_below(exact + side, mean, deviation)
                for side in (-step, step)
            )
            expected += math.log((above - below) / (2 * step))
        assert float(got) == pytest.approx(expected, abs=1e-3)
    np.testing.assert_allclose(squashed.mode()[0], np.tanh(means), rtol=1e-5)


def test_squashed_density_stays_finite_at_the_bounds() -> None:
    """Where 1 - tanh(x)^2 is 0 in float32: its logarithm is log(4) - 2x there."""
    means = tf.constant([[-40.0], [12.0], [40.0]])
    squashed = SquashedGaussian(means, tf.zeros([3, 1]))
    with tf.GradientTape() as tape:
        tape.watch(means)
        actions, log_densities = SquashedGaussian(means, squashed.log_stds).actions_of(
            tf.zeros([3, 1])
        )
    np.testing.assert_array_equal(actions[:, 0], [-1, 1, 1])
    expected = -0.5 * math.log(2 * math.pi) - math.log(4) + 2 * np.array([40, 12, 40])
    np.testing.assert_allclose(log_densities, expected, rtol=1e-5)
    np.testing.assert_allclose(
        tape.gradient(log_densities, means)[:, 0], [-2, 2, 2], rtol=1e-5
    )
