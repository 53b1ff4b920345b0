"""Several learners that share each update learn what one does."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import pytest
import shared_phases
import tensorflow as tf

from xagents_ray.core.errors import UserError
from xagents_ray.learners.math.shares import ALONE, Shares, _columns

QUICK = "sac", "trpo"  # of PPO, tests/cluster/run/test_several_learners.py has one
SLOW = (
    *("a2c", "acer", "ddpg", "dqn", "impala", "ppo", "td3", "sac-critics"),
    *("dqn-rainbow", "ppo-decoupled", "impala-share", *QUICK),
)


def differences(names: Sequence[str], sizes: str) -> dict[str, dict[str, float]]:
    command = [sys.executable, shared_phases.__file__, ",".join(names), sizes]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-2000:]
    found: dict[str, dict[str, float]] = json.loads(ended.stdout)
    return found


def check(found: dict[str, dict[str, float]]) -> None:
    for name, own in found.items():
        assert own.pop("moved") > 1e-3, name
        assert own.pop("ranks") == 0, name
        assert own.pop("float32") < 1e-6, name
        assert own, name
        assert max(own.values()) < 1e-9, (name, own)


def test_two_learners_learn_what_one_does() -> None:
    check(differences(QUICK, "2"))


@pytest.mark.slow
def test_more_learners_learn_what_one_does() -> None:
    """Four divide no minibatch of ten rows, nor a round of three environments."""
    check(differences(SLOW, "2,3,4"))


def shares_with(other: Callable[[tf.Tensor], tf.Tensor]) -> Shares:
    """Return the first learner's share of two; `other` is what the second one adds."""
    return Shares(0, 2, lambda x: x + other(x))


def test_equality_is_checked_at_every_hundredth_version() -> None:
    variables = [tf.Variable([1.0, -2.0]), tf.Variable(3, dtype=tf.int64)]
    equal, off = (
        shares_with(lambda x: x[::-1]),
        shares_with(lambda x: x[::-1] + tf.constant([0, 1])),
    )
    equal.check_equal(200, variables)
    off.check_equal(201, variables)
    with pytest.raises(UserError, match="The 2 learners are no longer equal, so"):
        off.check_equal(300, variables)
    variables[0].assign([1.0, -2.0000002])
    first = equal._checksums_of(variables)
    variables[0].assign([1.0, -2.0])
    assert not np.array_equal(first, equal._checksums_of(variables))


def test_a_phase_ends_for_all_learners() -> None:
    no, yes = tf.constant(False), tf.constant(True)
    quiet, stopping = shares_with(tf.zeros_like), shares_with(tf.ones_like)
    ends = [bool(each.is_any(x)) for each in (quiet, stopping) for x in (no, yes)]
    assert ends == [False, True, True, True]


def test_outputs_are_those_of_all_rows_and_gradients_of_its_own() -> None:
    """The second of two learners has two of five rows; the first one, three."""
    inputs = keras.Input((3,))
    hidden = keras.layers.Dense(2)(inputs)
    heads = keras.layers.Dense(1)(hidden), keras.layers.Dense(2)(hidden)
    model = keras.Model(inputs, heads)
    x = tf.random.stateless_uniform([5, 3], [1, 2])
    whole = tf.concat(model(x), -1)
    placed = tf.concat([whole[:3], tf.zeros([2, 3])], 0)
    shares = Shares(1, 2, lambda own: own + tf.pad(placed, [[0, 1], [0, 0]])[None, :5])
    network = shares.network(model, has_memory=False)
    with tf.GradientTape() as tape:
        outputs = tf.concat(network(x), -1)
        loss = tf.reduce_sum(tf.square(outputs))
    np.testing.assert_allclose(outputs, whole, rtol=1e-6)
    own = tape.gradient(loss, network.trainable_variables)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(tf.concat(model(x[3:]), -1)))
    expected = tape.gradient(loss, model.trainable_variables)
    for one, other in zip(own, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_penalties_are_whole_and_their_gradients_in_part() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        penalty = shares_with(tf.zeros_like).penalty(2 * x)
    assert (float(penalty), float(tape.gradient(penalty, x))) == (6, 1)


def test_columns_of_time_major_rows() -> None:
    """Three steps of four environments; noise in a single row is everybody's."""
    rows = tf.reshape(tf.range(24), [12, 2])
    own, noise = (_columns(x, [1, 3], tf.constant(4)) for x in (rows, rows[:1]))
    assert own[:, 0].numpy().tolist() == [2, 6, 10, 14, 18, 22]
    assert noise.numpy().tolist() == [[0, 1]]


def test_gradients_outside_of_the_networks_are_whole_in_each_learner() -> None:
    shares, outside = shares_with(lambda x: x), tf.Variable(1.0)
    (gradient,) = shares.summed([tf.constant(6.0)], [outside])
    assert float(gradient) == 6
    assert shares.turn == 2  # one sum has begun and ended
    assert ALONE.summed([tf.constant(6.0)], [outside]) == [6]


def test_gradients_of_networks_are_summed() -> None:
    shares, model = shares_with(lambda x: x), keras.Sequential([keras.Input((2,))])
    model.add(keras.layers.Dense(1))
    shares.network(model, has_memory=False)
    parts = [tf.ones([2, 1]), tf.constant([4.0])]
    kernel, bias = shares.summed(parts, model.trainable_variables)
    assert kernel.numpy().tolist() == [[2], [2]]
    assert bias.numpy().tolist() == [8]


def test_a_single_learner_sums_nothing() -> None:
    alone = Shares(0, 1, lambda x: 2 * x)
    assert float(alone.total(tf.constant(3.0))) == 3
    assert alone.turn == 0


def test_learners_share_environments_with_memory() -> None:
    """Three steps of three environments, time-major; the second learner has one."""
    given: list[Any] = []

    class Model:
        name, trainable_variables, variables = "policy", (), ()

        def __call__(self, inputs: Any) -> Any:
            given.extend(inputs)
            return inputs[0]

    network = Shares(1, 2, lambda x: x).network(Model(), has_memory=True)
    rows = tf.reshape(tf.range(9.0), [9, 1])
    state, starts = 10 * tf.reshape(tf.range(3.0), [3, 1]), tf.zeros([4, 3], tf.bool)
    network([rows, state, starts])
    own, own_state, own_starts = given
    assert own[:, 0].numpy().tolist() == [2, 2, 5, 5, 8, 8]
    assert own_state[:, 0].numpy().tolist() == [20, 20]
    assert own_starts.shape == (4, 2)
