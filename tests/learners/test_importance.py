"""ACER's policy gain and trust region: by hand, by slow loops, by differences."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from xagents_ray.learners.math import importance

RNG = np.random.default_rng(3)
N, ACTIONS, EPSILON = 40, 4, 1e-6


def distributions(spread: float = 1.0) -> Any:
    exp = np.exp(RNG.normal(0, spread, (N, ACTIONS)))
    return exp / exp.sum(-1, keepdims=True)


POLICY, ACTED, AVERAGE = (distributions() for _ in range(3))
TAKEN = RNG.integers(0, ACTIONS, N).astype(np.int32)
TARGETS, Q = RNG.normal(size=N), RNG.normal(size=(N, ACTIONS))
VALUES = (POLICY * Q).sum(-1)


ROWS = TAKEN, TARGETS, Q, VALUES


def gain(
    policy: Any, acted: Any, largest: float, rows: Any = ROWS, epsilon: float = EPSILON
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the gain of each row, and its gradient by the policy's outputs."""
    policy = tf.constant(policy)
    with tf.GradientTape() as tape:
        tape.watch(policy)
        ratios = importance.ratios(policy, acted, epsilon)
        gains = importance.corrected_gain(policy, ratios, *rows, largest, epsilon)
    return gains, tape.gradient(gains, policy)


def test_the_gain_by_hand() -> None:
    """One state, two actions; c is 2.

    The taken action's ratio is 0.75 / 0.25 = 3, cut to 2, its advantage 5 - 1 = 4: it
    weighs 8. What is left out of it is 1 - 2/3 of 0.75, with the advantage 2 - 1.
    The other's ratio is 1/3: nothing of it is left out.
    """
    policy = tf.constant([[0.75, 0.25]])
    rows = importance.ratios(policy, tf.constant([[0.25, 0.75]]), 1e-12)
    np.testing.assert_allclose(rows, [[3, 1 / 3]], rtol=1e-6)
    q_values, values = tf.constant([[2.0, -2.0]]), tf.constant([1.0])
    got = importance.corrected_gain(
        policy, rows, tf.constant([0]), tf.constant([5.0]), q_values, values, 2.0, 1e-12
    )
    np.testing.assert_allclose(got, [(8 + 0.25) * np.log(0.75)], rtol=1e-5)


def test_divergences_and_entropies_of_impossible_actions_are_finite() -> None:
    sure, other = tf.constant([[1.0, 0.0]]), tf.constant([[0.0, 1.0]])
    np.testing.assert_allclose(importance.entropy(sure, 1e-6), [0], atol=1e-5)
    found = importance.kl(sure, other, 1e-6)
    np.testing.assert_allclose(found, [np.log(1e6)], rtol=1e-4)


def slow_gradient(i: int, largest: float) -> Any:
    """Return the gradient by outputs of row i, from the paper's expectations."""
    policy, gradient = POLICY[i], np.zeros(ACTIONS)
    for a in range(ACTIONS):
        ratio = policy[a] / (ACTED[i, a] + EPSILON)
        weight = 0.0
        if a == TAKEN[i]:
            weight += min(largest, ratio) * (TARGETS[i] - VALUES[i])
        left_out = max(0.0, 1 - largest / (ratio + EPSILON))
        weight += left_out * policy[a] * (Q[i, a] - VALUES[i])
        gradient[a] = weight / (policy[a] + EPSILON)
    return gradient


@pytest.mark.parametrize("largest", [0.0, 0.5, 1.0, 10.0])
def test_the_gains_gradient(largest: float) -> None:
    _, got = gain(POLICY, ACTED, largest)
    expected = [slow_gradient(i, largest) for i in range(N)]
    np.testing.assert_allclose(got, expected, rtol=1e-9)


def surrogate(logits: Any, largest: float) -> Any:
    """Return each row's gain with its weights held as they were."""
    exp = np.exp(logits)
    policy = exp / exp.sum(-1, keepdims=True)
    ratios = POLICY / (ACTED + EPSILON)
    rows = np.arange(N)
    weights = np.maximum(0, 1 - largest / (ratios + EPSILON)) * POLICY
    weights *= Q - VALUES[:, None]
    own = np.minimum(largest, ratios[rows, TAKEN]) * (TARGETS - VALUES)
    weights[rows, TAKEN] += own
    return (np.log(policy + EPSILON) * weights).sum(-1)


@pytest.mark.parametrize("largest", [0.5, 1.0, 10.0])
def test_the_gradient_by_logits_is_the_finite_difference(largest: float) -> None:
    logits = tf.Variable(np.log(POLICY))
    with tf.GradientTape() as tape:
        policy = tf.nn.softmax(logits)
        ratios = importance.ratios(policy, ACTED, EPSILON)
        gains = importance.corrected_gain(policy, ratios, *ROWS, largest, EPSILON)
    got = tf.convert_to_tensor(tape.gradient(gains, logits)).numpy()
    np.testing.assert_allclose(gains, surrogate(logits.numpy(), largest), rtol=1e-9)
    step = 1e-6
    for a, axis in enumerate(np.eye(ACTIONS)):
        ends = (surrogate(logits.numpy() + s * axis, largest) for s in (step, -step))
        expected = np.subtract(*ends) / (2 * step)
        np.testing.assert_allclose(got[:, a], expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("largest", [1.0, 10.0])
def test_without_lag_nothing_is_corrected(largest: float) -> None:
    """With ratios of 1 only the taken action counts, with its whole advantage."""
    _, got = gain(POLICY, POLICY, largest)
    expected = np.zeros((N, ACTIONS))
    rows = np.arange(N)
    taken = POLICY[rows, TAKEN]
    expected[rows, TAKEN] = (TARGETS - VALUES) * taken / (taken + EPSILON) ** 2
    np.testing.assert_allclose(got, expected, rtol=1e-9)


def test_the_correction_makes_truncation_unbiased() -> None:
    """Over the acting policy's draws, the mean gradient doesn't depend on c.

    Where the targets are what the critic says.
    """
    policy, acted, q_values = POLICY[:1], ACTED[:1], Q[:1]
    value = (policy * q_values).sum(-1)
    means = []
    for largest in (0.3, 1.0, 100.0):
        total = np.zeros(ACTIONS)
        for a in range(ACTIONS):
            row = tf.constant([a]), q_values[:, a], q_values, value
            _, gradient = gain(policy, acted, largest, row, 1e-12)
            total += acted[0, a] * gradient.numpy()[0]
        means.append(total)
    np.testing.assert_allclose(means[0], means[2], rtol=1e-6)
    np.testing.assert_allclose(means[1], means[2], rtol=1e-6)


def test_entropy() -> None:
    even = np.full((1, 4), 0.25)
    np.testing.assert_allclose(importance.entropy(even, 1e-12), [np.log(4)])
    sure = tf.constant([[1.0, 0.0]])
    assert abs(float(importance.entropy(sure, EPSILON)[0])) < 1e-5


def project(gradient: Any, delta: float) -> tuple[Any, Any]:
    got, binds = importance.project(
        tf.constant(gradient), POLICY, AVERAGE, delta, EPSILON
    )
    return got.numpy(), binds.numpy()


SLOPE = -AVERAGE / (POLICY + EPSILON)
GRADIENT = RNG.normal(0, 3, (N, ACTIONS))


def test_the_projection_by_hand() -> None:
    """k is (-1/2, -2); k g = 5, 4 more than delta; k k = 4.25."""
    got, binds = importance.project(
        tf.constant([[-2.0, -2.0]]),
        tf.constant([[0.5, 0.5]]),
        tf.constant([[0.25, 1.0]]),
        1.0,
        1e-12,
    )
    np.testing.assert_allclose(got, [[-2 + 2 / 4.25, -2 + 8 / 4.25]], rtol=1e-6)
    assert bool(binds[0])


@pytest.mark.parametrize("delta", [0.0, 1.0, 3.0])
def test_the_projection_is_the_nearest_that_fits(delta: float) -> None:
    """It lies on the bound, and what was taken away is along the bound's slope."""
    got, binds = project(GRADIENT, delta)
    before, after = (SLOPE * GRADIENT).sum(-1), (SLOPE * got).sum(-1)
    np.testing.assert_array_equal(binds, before > delta)
    assert binds.any() and not binds.all()
    np.testing.assert_array_equal(got[~binds], GRADIENT[~binds])
    np.testing.assert_allclose(after[binds], delta, atol=1e-9)
    moved = GRADIENT[binds] - got[binds]
    part = moved / SLOPE[binds]
    np.testing.assert_allclose(part, np.repeat(part[:, :1], ACTIONS, 1), rtol=1e-6)
    assert (part > 0).all()


def test_k_is_the_slope_of_the_divergence() -> None:
    """A small step along a projected gradient moves KL(average ‖ policy) by delta."""
    got, binds = project(GRADIENT, 1.0)

    def divergence(policy: Any) -> Any:
        return (AVERAGE * np.log(AVERAGE / policy)).sum(-1)

    step = 1e-7
    slope = (divergence(POLICY + step * got) - divergence(POLICY - step * got)) / 2
    # All but for epsilon, which is a part in a thousand of the least probability.
    np.testing.assert_allclose(slope[binds] / step, 1.0, rtol=5e-3)
    assert (slope[~binds] / step <= 1 + 5e-3).all()


def test_sure_policies_give_numbers() -> None:
    """Probabilities of 0 and 1, as a softmax in float32 has them."""
    sure = tf.constant([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    other = tf.constant([[0.0, 1.0], [0.0, 1.0], [0.5, 0.5]])
    taken, targets = tf.constant([0, 1, 1]), tf.constant([1.0, -2, 3])
    with tf.GradientTape() as tape:
        tape.watch(sure)
        ratios = importance.ratios(sure, other, EPSILON)
        gains = importance.corrected_gain(
            sure, ratios, taken, targets, sure, tf.ones(3), 10.0, EPSILON
        )
        gains += importance.entropy(sure, EPSILON)
    gradient = tape.gradient(gains, sure)
    got, _ = importance.project(gradient, sure, other, 1.0, EPSILON)
    for each in (gains, gradient, got):
        assert np.isfinite(each).all()
