"""Losses against hand-worked tables, their gradients against finite differences."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from xagents_ray.learners.math import distributions, losses


def floats(*numbers: Any) -> tf.Tensor:
    return tf.constant(numbers, tf.float32)


def but_last(*columns: Any) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Return columns with one more row, and which rows are valid: all but this one."""
    wider = [tf.concat([floats(*x), [7.0]], axis=0) for x in columns]
    return wider, tf.range(len(wider[0])) < len(wider[0]) - 1


def test_clipped_policy_loss_by_hand() -> None:
    # ratio, advantage, clip 0.2: the smaller of ratio * A and clipped ratio * A
    rows = [
        (1.0, 1.0, 1.0),
        (1.5, 2.0, 2.4),  # gains nothing beyond 1.2
        (0.5, 2.0, 1.0),  # may grow
        (1.5, -1.0, -1.5),  # may shrink
        (0.5, -1.0, -0.8),  # gains nothing beyond 0.8
    ]
    ratios, advantages, gains = zip(*rows, strict=True)
    (ratios, advantages, old), valid = but_last(ratios, advantages, (-1, -2, -3, 0, 1))
    got = losses.clipped_policy_loss(
        old + tf.math.log(ratios), old, advantages, 0.2, valid
    )
    np.testing.assert_allclose(got, -np.mean(gains), rtol=1e-6)


@pytest.mark.parametrize(
    ("ratio", "advantage", "moves"),
    [(1.5, 1.0, False), (0.5, -1.0, False), (1.5, -1.0, True), (0.5, 1.0, True)],
)
def test_clipped_policy_loss_stops_pushing(
    ratio: float, advantage: float, moves: bool
) -> None:
    log_probs = tf.Variable(np.log([ratio]))
    with tf.GradientTape() as tape:
        loss = losses.clipped_policy_loss(log_probs, [0.0], [advantage], 0.2, [True])
    gradient = tape.gradient(loss, log_probs).numpy()
    np.testing.assert_allclose(gradient, [-ratio * advantage if moves else 0])


def test_approximate_kl_by_hand() -> None:
    # of ratios 1, 2, 0.5: ratio - 1 - log(ratio)
    (ratios, old), valid = but_last((1, 2, 0.5), (-1, -2, -3))
    got = losses.approximate_kl(old + tf.math.log(ratios), old, valid)
    expected = [0, 1 - np.log(2), -0.5 + np.log(2)]
    np.testing.assert_allclose(got, np.mean(expected), rtol=1e-6)


def test_approximate_kl_is_that_of_gaussians() -> None:
    """Over actions of the old one."""
    rng = np.random.default_rng(0)
    one, other = (
        distributions.Gaussian(tf.constant([mean]), tf.constant(log_std))
        for mean, log_std in (([0.0, 1.0], [0.0, 0.1]), ([0.3, 0.9], [-0.2, 0.3]))
    )
    noise = rng.normal(size=(200_000, 2)).astype(np.float32)
    actions = one.means + tf.exp(one.log_std) * noise
    pair = other.log_prob(actions), one.log_prob(actions)
    got = losses.approximate_kl(*pair, tf.ones(len(noise), tf.bool))
    np.testing.assert_allclose(got, one.kl(other)[0], rtol=0.02)


def test_clip_fraction_by_hand() -> None:
    # two of five ratios are beyond 0.8 to 1.2
    (ratios, old), valid = but_last((1, 1.5, 0.5, 1.15, 0.85), (-1, -2, -3, 0, 1))
    got = losses.clip_fraction(old + tf.math.log(ratios), old, 0.2, valid)
    np.testing.assert_allclose(got, 0.4, rtol=1e-6)


@pytest.mark.parametrize(
    ("values", "targets", "expected"),
    [
        pytest.param((1, 2, 3, 6), (1, 2, 3, 6), 1, id="exact"),
        pytest.param((9, 10, 11, 14), (1, 2, 3, 6), 1, id="off by a constant"),
        pytest.param((5, 5, 5, 5), (1, 2, 3, 6), 0, id="constant"),
        pytest.param((1, 1, 1, 2), (0, 1, 2, 3), 0.45, id="some"),  # 0.6875 of 1.25
        pytest.param((3, 2, 1, 0), (0, 1, 2, 3), -3, id="reversed"),
        pytest.param((0, 1, 2, 3), (4, 4, 4, 4), 0, id="equal targets"),
        pytest.param((4, 4, 4, 4), (4, 4, 4, 4), 0, id="equal targets and values"),
    ],
)
def test_explained_variance_by_hand(
    values: tuple[float, ...], targets: tuple[float, ...], expected: float
) -> None:
    columns, valid = but_last(values, targets)
    columns[1] += tf.constant([0.0] * len(values) + [1e3])  # of a row that isn't valid
    got = losses.explained_variance(*columns, valid)
    np.testing.assert_allclose(got, expected, atol=1e-6)


def test_clipped_value_loss_by_hand() -> None:
    # values, old values, returns, clip 0.5: the larger of both squared errors
    rows = [
        (1.0, 1.0, 2.0, 1.0),  # unmoved
        (2.0, 1.0, 3.0, 2.25),  # clipped to 1.5
        (-1.0, 0.0, -0.2, 0.64),  # clipped to -0.5, which is nearer
        (0.75, 1.0, 0.25, 0.25),  # within the clip
    ]
    *columns, errors = zip(*rows, strict=True)
    wider, valid = but_last(*columns)
    got = losses.clipped_value_loss(*wider, 0.5, valid)
    np.testing.assert_allclose(got, 0.5 * np.mean(errors), rtol=1e-6)


Q_ROWS = (floats(1, 2, 3), floats(0.5, 0.25, 0))
TARGET = floats((1, 5), (4, 2), (9, 8))
ONLINE = floats((3, 1), (0, 1), (1, 0))


@pytest.mark.parametrize(
    ("choosing", "expected"), [(TARGET, (3.5, 3, 3)), (ONLINE, (1.5, 2.5, 3))]
)
def test_q_targets_by_hand(choosing: tf.Tensor, expected: Any) -> None:
    got = losses.q_targets(*Q_ROWS, TARGET, choosing)
    np.testing.assert_array_equal(got, floats(*expected))


def test_huber_by_hand() -> None:
    errors = floats(0, 0.5, -1, 2, -3)
    np.testing.assert_allclose(losses.huber(errors), (0.125 + 0.5 + 1.5 + 2.5) / 5)
    for error in errors:
        alone = losses.huber(error[None])
        keras = tf.keras.losses.Huber()(tf.zeros(1), error[None])
        np.testing.assert_allclose(alone, keras, rtol=1e-6)


def test_huber_gradient_by_hand() -> None:
    errors = tf.Variable([0.0, 0.5, -0.25, 2.0, -3.0])
    with tf.GradientTape() as tape:
        loss = losses.huber(errors)
    expected = np.array([0, 0.5, -0.25, 1, -1]) / 5
    np.testing.assert_allclose(tape.gradient(loss, errors), expected, rtol=1e-6)


def test_normalize_by_hand() -> None:
    (advantages,), valid = but_last((1, 2, 3, 4))
    deviation = 1.25**0.5
    expected = np.array([-1.5, -0.5, 0.5, 1.5])
    got = losses.normalize(advantages, 0.0, valid)[:4]
    np.testing.assert_allclose(got, expected / deviation, rtol=1e-6)
    got = losses.normalize(advantages, 1.0, valid)[:4]
    np.testing.assert_allclose(got, expected / (deviation + 1), rtol=1e-6)


@pytest.mark.parametrize("advantages", [[3.0], [2.0] * 5])
def test_normalize_equal_advantages(advantages: list[float]) -> None:
    valid = tf.ones(len(advantages), tf.bool)
    got = losses.normalize(floats(*advantages), 1e-8, valid)
    np.testing.assert_array_equal(got, np.zeros(len(advantages)))


def test_masked_mean_by_hand() -> None:
    x, no = floats(1, 2, 6), tf.zeros(3, tf.bool)
    assert float(losses.masked_mean(x, tf.constant([True, False, True]))) == 3.5
    assert float(losses.masked_mean(x, ~no)) == 3
    assert float(losses.masked_mean(x, no)) == 0
    # What is left out may be anything.
    worse = floats(1, np.nan, 6)
    assert float(losses.masked_mean(worse, tf.constant([True, False, True]))) == 3.5


def test_policy_gradient_loss_by_hand() -> None:
    # log-prob times advantage: -2, 1, and one that is left out
    valid = tf.constant([True, True, False])
    log_probs, advantages = (tf.Variable(x) for x in ([-1.0, -2, -3], [2, -0.5, 7]))
    with tf.GradientTape(persistent=True) as tape:
        loss = losses.policy_gradient_loss(log_probs, advantages, valid)
    assert float(loss) == 0.5
    np.testing.assert_array_equal(tape.gradient(loss, log_probs), [-1, 0.25, 0])
    assert tape.gradient(loss, advantages) is None


def test_surrogate_gain_by_hand() -> None:
    # ratios 1, 2, 1/2 of advantages 3, -1, 4: nothing is clipped
    columns, valid = but_last((1, 2, 0.5), (-1, -2, -3), (3, -1, 4))
    ratios, old, advantages = columns
    got = losses.surrogate_gain(old + tf.math.log(ratios), old, advantages, valid)
    np.testing.assert_allclose(got, (3 - 2 + 2) / 3, rtol=1e-6)


# Gradients. A network of 3 inputs, 4 tanh units and 2 or more outputs in float64.
RNG = np.random.default_rng(0)
N = 7
INPUTS = RNG.normal(size=(N, 3))
ACTIONS = RNG.integers(0, 3, N, np.int32)
RAW = RNG.normal(size=(N, 2))
ADVANTAGES = RNG.normal(size=N)
RETURNS = RNG.normal(size=N)
OLD = RNG.normal(size=N)
LOGITS = RNG.normal(size=(N, 3))
VALID = np.arange(N) != 2


def network(theta: tf.Tensor, units: int) -> tf.Tensor:
    first, second = theta[:12], theta[12 : 12 + 4 * units]
    hidden = tf.tanh(INPUTS @ tf.reshape(first, (3, 4)))
    return hidden @ tf.reshape(second, (4, units))


def categorical(theta: tf.Tensor) -> tf.Tensor:
    return distributions.Categorical(network(theta, 3)).log_prob(ACTIONS)


def gaussian(theta: tf.Tensor) -> tf.Tensor:
    return distributions.Gaussian(network(theta, 2), theta[-2:]).log_prob(RAW)


def policy_loss(log_probs: tf.Tensor, old: Any) -> tf.Tensor:
    return losses.clipped_policy_loss(log_probs, old, ADVANTAGES, 0.2, VALID)


def q_loss(theta: tf.Tensor) -> tf.Tensor:
    taken = tf.gather(network(theta, 3), ACTIONS, axis=-1, batch_dims=1)
    return losses.huber(RETURNS * 3 - taken)


LOSSES: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "categorical policy": lambda x: policy_loss(categorical(x), OLD / 4 - 1.1),
    "gaussian policy": lambda x: policy_loss(gaussian(x), OLD / 4 - 3),
    "categorical entropy": lambda x: tf.reduce_mean(
        distributions.Categorical(network(x, 3)).entropy()
    ),
    "gaussian entropy": lambda x: distributions.Gaussian(RAW, x[-2:]).entropy(),
    "value": lambda x: losses.clipped_value_loss(
        network(x, 1)[:, 0], OLD, RETURNS, 0.5, VALID
    ),
    "q": q_loss,
    "policy gradient": lambda x: losses.policy_gradient_loss(
        categorical(x), ADVANTAGES, OLD > 0
    ),
    "masked value": lambda x: losses.masked_mean(
        tf.square(RETURNS - network(x, 1)[:, 0]), OLD > 0
    ),
    "surrogate": lambda x: losses.surrogate_gain(
        gaussian(x), OLD / 4 - 3, ADVANTAGES, VALID
    ),
    "categorical kl": lambda x: tf.reduce_mean(
        distributions.Categorical(LOGITS).kl(distributions.Categorical(network(x, 3)))
    ),
    "gaussian kl": lambda x: tf.reduce_mean(
        distributions.Gaussian(RAW, RAW[0]).kl(
            distributions.Gaussian(network(x, 2), x[-2:])
        )
    ),
    "normalize": lambda x: tf.reduce_sum(
        losses.normalize(network(x, 1)[:, 0], 0.1, VALID) * ADVANTAGES
    ),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))
def test_gradients(loss: Callable[[tf.Tensor], tf.Tensor]) -> None:
    theta = tf.Variable(np.random.default_rng(4).normal(size=26))
    with tf.GradientTape() as tape:
        value = loss(theta)
    got = tf.convert_to_tensor(tape.gradient(value, theta)).numpy()
    step = 1e-6
    expected = [
        float(loss(theta + step * axis) - loss(theta - step * axis)) / (2 * step)
        for axis in np.eye(26)
    ]
    assert np.abs(got).max() > 1e-3
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-8)
