"""Running moments: measured by env actors, merged, and used by both sides alike."""

import json

import numpy as np
import pytest
import tensorflow as tf

from xagents_ray.actors.rollout import RolloutMoments
from xagents_ray.algorithms.a2c import A2CConfig
from xagents_ray.algorithms.dqn import DQNConfig
from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.core.moments import (
    Moments,
    from_json,
    merge_all,
    merge_moments,
    moments_of,
    statistics_shapes,
    to_json,
)
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Trajectory
from xagents_ray.learners.normalizer import Normalizer
from xagents_ray.networks import keras as networks
from xagents_ray.networks.forward import bind_network

BOTH = A2CConfig(normalize_observations=True, normalize_rewards=True, gamma=0.5)
SPEC = EnvSpec((3,), "float32", 1, 2)


def test_merged_parts_have_the_moments_of_the_whole() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal([5, -200, 0], [1, 30, 0], (1000, 3))
    found = moments_of(rows[:1])
    for start, end in ((1, 2), (2, 500), (500, 1000)):
        found = merge_moments(found, moments_of(rows[start:end]))
    assert found.size == 1000
    np.testing.assert_allclose(found.mean, rows.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.variance, rows.var(axis=0), rtol=1e-12, atol=1e-12)


def test_merging_by_hand() -> None:
    """2 and 4, then 9: mean 5, variance (9 + 1 + 16) / 3."""
    found = merge_moments(moments_of(np.array([2.0, 4.0])), moments_of(np.array([9.0])))
    assert found.size == 3
    assert float(found.mean) == 5
    assert float(found.variance) == pytest.approx(26 / 3)
    nothing = Moments(0.0, np.zeros(()), np.ones(()))
    assert merge_moments(nothing, moments_of(np.array([7.0]))) == (1, 7, 0)
    assert merge_moments(nothing, nothing) == nothing


def test_json_keeps_every_bit() -> None:
    rows = np.random.default_rng(2).normal(size=(7, 3))
    before = merge_all(
        {"observation": moments_of(rows)}, {"return": moments_of(rows[:, 0])}
    )
    after = from_json(json.loads(json.dumps(to_json(before))))
    assert after.keys() == before.keys()
    for name, moments in before.items():
        assert after[name].size == moments.size
        np.testing.assert_array_equal(after[name].mean, moments.mean)
        np.testing.assert_array_equal(after[name].variance, moments.variance)


def test_discounted_returns_by_hand() -> None:
    """Gamma is a half; env 0 ends in row 1 and only resets in row 2."""
    rolled = trajectory_of(
        rewards=[[1, 4], [2, 0], [0, 0], [8, 2]],
        terminated=[[0, 0], [1, 0], [0, 0], [0, 0]],
        valid=[[1, 1], [1, 1], [0, 1], [1, 1]],
    )
    moments = RolloutMoments(BOTH, SPEC, 2)
    found = moments.update(rolled)
    sums = np.array([1, 2.5, 8, 4, 2, 1, 2.5])
    assert found["return"].size == 7
    assert float(found["return"].mean) == pytest.approx(sums.mean())
    assert float(found["return"].variance) == pytest.approx(sums.var())
    np.testing.assert_array_equal(moments.returns, [8, 2.5])
    seen = rolled.observations[:-1][rolled.valid].astype(np.float64)
    np.testing.assert_allclose(found["observation"].mean, seen.mean(axis=0))
    later = moments.update(rolled)["return"]  # it continues from 8 and 2.5
    assert float(later.mean) == pytest.approx(
        np.mean([5, 4.5, 8, 5.25, 2.625, 1.3125, 2.65625])
    )


def test_nothing_is_measured_unasked_or_of_resets() -> None:
    rolled = trajectory_of(rewards=[[1, 1]], terminated=[[0, 0]], valid=[[0, 0]])
    assert RolloutMoments(BOTH, SPEC, 2).update(rolled) == {}
    every = rolled._replace(valid=np.ones((1, 2), bool))
    assert RolloutMoments(A2CConfig(), SPEC, 2).update(every) == {}
    found = RolloutMoments(BOTH, SPEC, 2).update(every)
    assert found.keys() == {"observation", "return"}


def trajectory_of(
    rewards: list[list[float]], terminated: list[list[int]], valid: list[list[int]]
) -> Trajectory:
    """Return rows of random observations, three numbers each."""
    shape = np.shape(rewards)
    seen = np.random.default_rng(5).normal(size=(shape[0] + 1, shape[1], 3))
    return Trajectory(
        seen.astype(np.float32),
        np.zeros(seen.shape[:2], bool),
        np.zeros(shape, np.int32),
        np.array(rewards, np.float32),
        np.array(terminated, bool),
        np.zeros(shape, bool),
        np.array(valid, bool),
        None,
        None,
        0,
        0,
    )


def normalizer(rows: np.ndarray) -> Normalizer:
    made = Normalizer(BOTH, SPEC)
    made.take(
        {"observation": moments_of(rows), "return": moments_of(np.array([0.0, 4.0]))}
    )
    return made


def test_the_learner_and_the_policy_see_the_same() -> None:
    """The policy normalises in NumPy, the learner in the graph."""
    rng = np.random.default_rng(3)
    rows = rng.normal([5, -200, 0.1], [1, 30, 0.1], (100, 3))
    made = normalizer(rows)
    layout = ALGORITHMS["dqn"].layout(None, SPEC)
    model = networks.build_model(layout, 0, "q")
    seen = np.vstack([rows[:20], 1e6 * np.ones((1, 3))]).astype(np.float32)
    inputs = made.inputs(layout, tf.constant(seen))
    wanted = np.clip((seen - rows.mean(axis=0)) / rows.std(axis=0), -10, 10)
    np.testing.assert_allclose(inputs, wanted, atol=2e-3)
    arrays = networks.weight_arrays(model)
    for name, variable in made.named("q").items():
        arrays[name.removeprefix("q/")] = np.array(variable.numpy())
    assert statistics_shapes((3,)).keys() < arrays.keys()
    np.testing.assert_allclose(
        bind_network(layout, arrays)(seen)[0], model(inputs), atol=1e-5
    )


def test_large_means_are_subtracted_exactly() -> None:
    """Float32 has no number between 16,384 and 16,384.002."""
    made, layout = Normalizer(BOTH, SPEC), ALGORITHMS["dqn"].layout(None, SPEC)
    mean, variance = np.full(3, 16384 + 7e-4), np.full(3, 1e-6 - 1e-8)
    made.take({"observation": Moments(5, mean, variance)})
    seen = np.array([[16384, 16384 + 2**-9, 16384 - 2**-9]], np.float32)
    expected = (seen - mean) / 1e-3
    np.testing.assert_allclose(made.inputs(layout, seen), expected, atol=1e-5)
    arrays = networks.weight_arrays(networks.build_model(layout, 0, "q"))
    acting = bind_network(layout, arrays | made.policy_arrays())(seen)
    plain = bind_network(layout, arrays)(expected.astype(np.float32))
    np.testing.assert_allclose(acting, plain, atol=1e-5)


def test_rewards_are_scaled_not_shifted_and_clipped() -> None:
    made = normalizer(np.ones((2, 3)))  # returns of standard deviation 2
    rewards = made.rewards(tf.constant([1.0, -3.0, 0.0, 50.0]))
    np.testing.assert_allclose(rewards, [0.5, -1.5, 0, 10], rtol=1e-6)


def test_sums_of_rewards_are_clipped_like_their_parts() -> None:
    config = DQNConfig(normalize_rewards=True, n_step=3, gamma=0.5)
    rewards = Normalizer(config, SPEC).rewards(tf.constant([15.0, -20.0]))
    np.testing.assert_allclose(rewards, [15, -17.5], rtol=1e-6)


def test_without_statistics_nothing_changes() -> None:
    layout = ALGORITHMS["dqn"].layout(None, SPEC)
    plain, fresh = Normalizer(A2CConfig(), SPEC), Normalizer(BOTH, SPEC)
    seen = tf.constant([[1.0, -2.0, 9.0]])
    assert plain.variables == {}
    for each in (plain, fresh):
        np.testing.assert_allclose(each.inputs(layout, seen), seen, rtol=1e-6)
        np.testing.assert_allclose(each.rewards(seen), seen, rtol=1e-6)


def test_large_means_follow_late_samples() -> None:
    """In float32, 1 / 17,000 of a deviation is near the resolution of the means."""
    spec, means, count = EnvSpec((2,), "float32", 1, 2), np.array([1e3, 1e4]), 17_000
    rounded = exact = Moments(16.0 * count, means, np.ones(2))
    later, made = Moments(16, means + 1, np.ones(2)), Normalizer(BOTH, spec)
    made.take({"observation": exact})
    for i in range(count):
        exact, merged = merge_moments(exact, later), merge_moments(rounded, later)
        rounded = Moments(*(np.float64(np.float32(x)) for x in merged))
        if i < 1_000:  # TensorFlow takes longer
            made.take({"observation": later})
        if i == 999:
            found = [made.variables[f"observation/{x}"] for x in Moments._fields]
            for mine, expected in zip(found, exact, strict=True):
                np.testing.assert_array_equal(mine.numpy(), expected)
            assert (np.abs(exact.mean - rounded.mean) > 0.001).all()
    np.testing.assert_allclose(exact.mean - means, 0.5, atol=1e-9)
    np.testing.assert_allclose(exact.mean - rounded.mean, [0.18, 0.5], atol=0.01)


def test_many_small_parts_stay_exact() -> None:
    """2,000 parts of 500."""
    made = Normalizer(BOTH, SPEC)
    rng = np.random.default_rng(4)
    for _ in range(2000):
        made.take({"return": moments_of(rng.normal(100, 1, 500))})
    assert float(made.variables["return/size"]) == 1e6
    assert float(made.variables["return/mean"]) == pytest.approx(100, abs=0.01)
    assert float(made.variables["return/variance"]) == pytest.approx(1, abs=0.01)
