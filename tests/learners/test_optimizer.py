"""One step down a loss, and the clipping of its gradient."""

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from xagents_ray.algorithms.dqn import DQNConfig
from xagents_ray.core.errors import UserError
from xagents_ray.learners.optimizer import adapt_lr, gradient_step, make_optimizer


@pytest.mark.parametrize(
    ("largest", "scale"), [(None, 1.0), (6.0, 1.0), (5.0, 1.0), (1.0, 0.2)]
)
def test_gradients_are_clipped_by_their_global_norm(
    largest: float | None, scale: float
) -> None:
    one, other = tf.Variable([1.0, 1.0]), tf.Variable(1.0)
    optimizer = keras.optimizers.SGD(1.0)
    optimizer.build([one, other])
    with tf.GradientTape() as tape:
        loss = 3 * one[0] + 4 * other  # a norm of 5
    norm = gradient_step(optimizer, tape, loss, [one, other], largest)
    assert float(norm) == 5
    np.testing.assert_allclose(one, [1 - 3 * scale, 1], rtol=1e-6)
    np.testing.assert_allclose(other, 1 - 4 * scale, rtol=1e-6)


def test_regularizers_of_keras_add_their_gradients() -> None:
    """Of 0.5 * w², 0.1 * |b| and nothing, beside the gradients of the loss."""
    dense = keras.layers.Dense(
        1, kernel_regularizer=keras.regularizers.L2(0.5), bias_regularizer="l1"
    )
    dense.bias_regularizer.l1 = 0.1
    table = keras.layers.Embedding(3, 1, embeddings_regularizer="l2")  # 0.01 * e²
    dense.build((None, 1))
    table.build()
    free = tf.Variable(2.0)
    variables = [dense.kernel, dense.bias, table.embeddings, free]
    for variable, value in zip(variables, ([[3.0]], [-4.0], [[1.0]] * 3), strict=False):
        variable.assign(value)
    optimizer = keras.optimizers.SGD(1.0)
    optimizer.build(variables)
    with tf.GradientTape() as tape:
        looked_up = tf.reduce_sum(table(tf.constant([1])))
        loss = tf.reduce_sum(2 * dense.kernel + dense.bias) + looked_up + 5 * free
    norm = gradient_step(optimizer, tape, loss, variables)
    gradients = [2 + 3, 1 - 0.1, 0.02, 1 + 0.02, 0.02, 5]
    assert float(norm) == pytest.approx(np.linalg.norm(gradients))
    changed = np.concatenate([np.ravel(v) for v in variables])
    expected = np.subtract([3, -4, 1, 1, 1, 2], gradients)
    np.testing.assert_allclose(changed, expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["adam", "rmsprop"])
def test_constraints_of_keras_are_kept(name: str) -> None:
    dense = keras.layers.Dense(2, kernel_constraint=keras.constraints.UnitNorm())
    dense.build((None, 3))
    before, variables = dense.kernel.numpy(), [dense.kernel, dense.bias]
    optimizer = make_optimizer(DQNConfig(lr=0.1, optimizer=name), variables)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(dense(tf.constant([[1.0, 2.0, -1.0]])))
    gradient_step(optimizer, tape, loss, variables)
    np.testing.assert_allclose(tf.norm(dense.kernel, axis=0), [1, 1], rtol=1e-5)
    assert (np.abs(dense.kernel - before) > 1e-3).any()
    assert (dense.bias.numpy() < 0).all()  # it has no constraint, and was 0


def steps_of(config: DQNConfig) -> Iterator[tuple[float, Any]]:
    """Descend w²/2 from 1 three times; yield each gradient, and what w becomes."""
    variable = tf.Variable(1.0)
    optimizer = make_optimizer(config, [variable])
    for _ in range(3):
        with tf.GradientTape() as tape:
            loss = 0.5 * tf.square(variable)
        gradient = float(variable)
        gradient_step(optimizer, tape, loss, [variable])
        yield gradient, variable


def test_adam_by_hand() -> None:
    """The first step is lr * g / (|g| + epsilon), with the moments' bias removed."""
    config = DQNConfig(lr=0.1, beta1=0.8, beta2=0.5, opt_epsilon=0.25)
    moment, square, expected = 0.0, 0.0, 1.0
    for step, (gradient, variable) in enumerate(steps_of(config), start=1):
        moment = 0.8 * moment + 0.2 * gradient
        square = 0.5 * square + 0.5 * gradient**2
        # Keras adds epsilon before it corrects the bias of the second moment.
        rate = 0.1 * (1 - 0.5**step) ** 0.5 / (1 - 0.8**step)
        expected -= rate * moment / (square**0.5 + 0.25)
        np.testing.assert_allclose(variable, expected, rtol=1e-5)


def test_rmsprop_by_hand() -> None:
    """The step is lr * g / sqrt(mean of g² + epsilon)."""
    config = DQNConfig(optimizer="rmsprop", lr=0.1, beta2=0.5, opt_epsilon=0.25)
    square, expected = 0.0, 1.0
    for gradient, variable in steps_of(config):
        square = 0.5 * square + 0.5 * gradient**2
        expected -= 0.1 * gradient / (square + 0.25) ** 0.5
        np.testing.assert_allclose(variable, expected, rtol=1e-5)


def test_a_critic_has_its_own_rate() -> None:
    made = make_optimizer(DQNConfig(lr=0.1), [tf.Variable(1.0)], 0.3)
    assert float(made.learning_rate) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("rate", "divergence", "expected"),
    [
        (1e-3, 2.01, 1e-3 / 1.5),
        (1e-3, 1.99, 1e-3),
        (1e-3, 0.51, 1e-3),
        (1e-3, 0.49, 1.5e-3),
        (1.2e-5, 9.0, 1e-5),
        (0.8e-2, 0.0, 1e-2),
    ],
)
def test_a_rate_follows_the_divergence(
    rate: float, divergence: float, expected: float
) -> None:
    variable = keras.Variable(rate)
    adapt_lr(variable, tf.constant(divergence), 1.0)
    np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-6)


def test_a_keras_optimizer_is_made_again_with_its_settings() -> None:
    given = keras.optimizers.SGD(0.5, momentum=0.25, name="own")
    config = DQNConfig(optimizer=given)
    assert DQNConfig(optimizer=config.optimizer) == config
    variable = tf.Variable([1.0, 2.0])
    optimizer = make_optimizer(config, [variable])
    other = make_optimizer(config, [tf.Variable(1.0)], 0.125)
    assert float(other.learning_rate) == 0.125
    for expected in ([0.5, 1.5], [-0.125, 0.875]):  # 0.5 * 1.25 the second time
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(variable)
        gradient_step(optimizer, tape, loss, [variable])
        np.testing.assert_allclose(variable, expected)
    assert len(optimizer.variables) == 3  # what a checkpoint holds of it


def test_an_optimizer_has_its_own_settings() -> None:
    with pytest.raises(UserError, match="--beta1 is set by the optimizer"):
        DQNConfig(optimizer=keras.optimizers.Adam(), beta1=0.5)


class Own(keras.optimizers.SGD):  # type: ignore[misc]
    pass


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (Own, "not one of keras.optimizers"),
        (
            lambda: keras.optimizers.SGD(
                keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
            ),
            "lr_decay=True",
        ),
    ],
)
def test_optimizers_that_the_learner_can_not_make(make: Any, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        DQNConfig(optimizer=make())
