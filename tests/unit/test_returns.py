"""Returns and advantages against hand-worked tables and slow loops."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from xagents_ray.learners.returns import gae, linear_recurrence

LENGTHS = [1, 2, 3, 5, 7, 8, 64, 127, 128]


def column(*numbers: float) -> Any:
    return np.array(numbers, np.float32)[:, None]


def flags(*numbers: int) -> Any:
    return np.array(numbers, bool)[:, None]


def test_linear_recurrence_by_hand() -> None:
    # x2 = 4; x1 = 2 + 0.5 * 4 = 4; x0 = 1 + 3 * 4 = 13. The last decay is unused.
    got = linear_recurrence(
        tf.constant(column(1, 2, 4)), tf.constant(column(3, 0.5, 9))
    )
    np.testing.assert_array_equal(got, column(13, 4, 4))


@pytest.mark.parametrize("length", LENGTHS)
def test_linear_recurrence(length: int) -> None:
    rng = np.random.default_rng(length)
    increments = rng.normal(size=(length, 3)).astype(np.float32)
    decays = rng.choice([0, 0.5, 0.9, 1], (length, 3)).astype(np.float32)
    expected = np.zeros((length + 1, 3))
    for t in reversed(range(length)):
        expected[t] = increments[t] + decays[t] * expected[t + 1]
    got = linear_recurrence(tf.constant(increments), tf.constant(decays))
    np.testing.assert_allclose(got, expected[:-1], rtol=1e-5, atol=1e-5)


# gamma = lam = 0.5: a decay of 0.25 where the episode goes on. Values are 8, 4, 2, 6.
BY_HAND = {
    # errors: 1 + 2 - 8 = -5; 1 + 1 - 4 = -2; 1 + 3 - 2 = 2
    "goes on": ((0, 0, 0), (0, 0, 0), (-5.375, -1.5, 2)),
    # the second error is 1 + 0 - 4 = -3
    "terminated": ((0, 1, 0), (0, 0, 0), (-5.75, -3, 2)),
    # the second error keeps the value of the final observation, 1 + 1 - 4 = -2
    "truncated": ((0, 0, 0), (0, 1, 0), (-5.5, -2, 2)),
    "both": ((0, 1, 0), (0, 1, 0), (-5.75, -3, 2)),
    # at the end of the rollout
    "last terminated": ((0, 0, 1), (0, 0, 0), (-5.5625, -2.25, -1)),
    "last truncated": ((0, 0, 0), (0, 0, 1), (-5.375, -1.5, 2)),
}


@pytest.mark.parametrize(
    ("terminated", "truncated", "expected"), BY_HAND.values(), ids=list(BY_HAND)
)
def test_gae_by_hand(terminated: Any, truncated: Any, expected: Any) -> None:
    values = column(8, 4, 2, 6)
    got = gae(column(1, 1, 1), values, flags(*terminated), flags(*truncated), 0.5, 0.5)
    np.testing.assert_allclose(got, column(*expected), rtol=1e-6)


def test_gae_of_one_step_by_hand() -> None:
    one = column(3), column(5, 7)
    no, yes = flags(0), flags(1)
    for terminated, truncated, expected in (
        (no, no, 1.5),
        (yes, no, -2),
        (no, yes, 1.5),
    ):
        got = gae(*one, terminated, truncated, 0.5, 0.9)
        np.testing.assert_allclose(got, column(expected), rtol=1e-6)


def slow_gae(
    rewards: Any, values: Any, terminated: Any, truncated: Any, gamma: float, lam: float
) -> Any:
    """Sum each episode's discounted errors forwards, step by step."""
    length, envs = rewards.shape
    advantages = np.zeros((length, envs))
    for env in range(envs):
        for begin in range(length):
            weight = 1.0
            for t in range(begin, length):
                rest = 0.0 if terminated[t, env] else gamma * float(values[t + 1, env])
                error = float(rewards[t, env]) + rest - float(values[t, env])
                advantages[begin, env] += weight * error
                if terminated[t, env] or truncated[t, env]:
                    break
                weight *= gamma * lam
    return advantages


def rollout(length: int, seed: int) -> tuple[Any, Any, Any, Any, Any]:
    """Return a rollout and its rows that only reset: those that follow an end."""
    rng = np.random.default_rng(seed)
    shape = (length, 4)
    rewards = rng.normal(size=shape).astype(np.float32)
    values = rng.normal(size=(length + 1, 4)).astype(np.float32)
    terminated, truncated = rng.random(shape) < 0.1, rng.random(shape) < 0.1
    resets = np.zeros(shape, bool)
    for t in range(1, length):
        resets[t] = (terminated[t - 1] | truncated[t - 1]) & ~resets[t - 1]
    terminated[resets] = truncated[resets] = False
    rewards[resets] = 0
    return rewards, values, terminated, truncated, resets


@pytest.mark.parametrize(
    "gamma_lam", [(0.99, 0.95), (0.9, 0), (0.9, 1), (1, 1), (0, 0.9)]
)
@pytest.mark.parametrize("length", LENGTHS)
def test_gae(length: int, gamma_lam: tuple[float, float]) -> None:
    case = rollout(length, length)[:-1]
    expected = slow_gae(*case, *gamma_lam)
    np.testing.assert_allclose(gae(*case, *gamma_lam), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("length", [16, 33, 128])
def test_rows_that_only_reset_weigh_nothing(length: int) -> None:
    """What they hold changes no other row; their value is a truncated step's rest."""
    rewards, values, terminated, truncated, resets = rollout(length, 5)
    assert resets.sum() > 4
    before = gae(rewards, values, terminated, truncated, 0.99, 0.95).numpy()
    follows_end = np.zeros_like(values, bool)
    follows_end[1:] = terminated
    rewards[resets] = 1e6
    values[:-1][resets & follows_end[:-1]] = -1e6
    after = gae(rewards, values, terminated, truncated, 0.99, 0.95).numpy()
    np.testing.assert_array_equal(before[~resets], after[~resets])
    assert not np.array_equal(before[resets], after[resets])


def test_truncated_steps_take_the_next_rows_value() -> None:
    case = rollout(64, 6)
    truncated = case[3] & ~case[2]
    assert truncated.any()
    before = gae(*case[:-1], 0.9, 0.95).numpy()
    values = case[1].copy()
    values[1:][truncated] += 10
    after = gae(case[0], values, *case[2:4], 0.9, 0.95).numpy()
    np.testing.assert_allclose((after - before)[truncated], 9, rtol=1e-4)
