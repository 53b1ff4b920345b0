"""Returns and advantages against hand-worked tables and slow loops."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from naive import slow_vtrace

from xagents_ray.learners.math.returns import (
    gae,
    linear_recurrence,
    n_step_returns,
    retrace,
    vtrace,
)

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


ENDS = {
    "continues": ((0, 0, 0), (0, 0, 0)),
    "terminated": ((0, 1, 0), (0, 0, 0)),
    "truncated": ((0, 0, 0), (0, 1, 0)),
    "both": ((0, 1, 0), (0, 1, 0)),
    "last terminated": ((0, 0, 1), (0, 0, 0)),
    "last truncated": ((0, 0, 0), (0, 0, 1)),
}
"""Which of three rows terminate, and which are truncated."""
VALUES, REWARDS = column(8, 4, 2, 6), column(1, 2, 3)
RATIOS, TAKEN = column(0.5, 2, 0.25), column(5, 3, 1)
BY_HAND: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    # lam = 0.5, rewards 1: a decay of 0.25 where the episode continues.
    "gae": (
        lambda *ends: gae(column(1, 1, 1), VALUES, *ends, 0.5, 0.5),
        {
            # errors: 1 + 2 - 8 = -5; 1 + 1 - 4 = -2; 1 + 3 - 2 = 2
            "continues": (-5.375, -1.5, 2),
            # the second error is 1 + 0 - 4 = -3
            "terminated": (-5.75, -3, 2),
            # the second error keeps the value of the final observation: 1 + 1 - 4 = -2
            "truncated": (-5.5, -2, 2),
            "both": (-5.75, -3, 2),
            "last terminated": (-5.5625, -2.25, -1),
            "last truncated": (-5.375, -1.5, 2),
        },
    ),
    "n-step": (
        lambda *ends: n_step_returns(REWARDS, VALUES, *ends, 0.5),
        {
            # 3 + 3 = 6; 2 + 3 = 5; 1 + 2.5
            "continues": (3.5, 5, 6),
            # the second return is the reward alone
            "terminated": (2, 2, 6),
            # it keeps the value of the final observation, 2 + 1
            "truncated": (2.5, 3, 6),
            "both": (2, 2, 6),
            "last terminated": (2.75, 3.5, 3),
            "last truncated": (3.5, 5, 6),
        },
    ),
    # Rows of targets and advantages.
    "v-trace": (
        lambda *ends: np.hstack(vtrace(np.log(RATIOS), REWARDS, VALUES, *ends, 0.5)),
        {
            # errors: 0.5 * (1 + 2 - 8) = -2.5; 1 * (2 + 1 - 4) = -1;
            # 0.25 * (3 + 3 - 2) = 1; corrections: 1; -1 + 0.5 * 1 = -0.5;
            # -2.5 + 0.5 * 0.5 * -0.5 = -2.625
            # advantages: 0.25 * (3 + 3 - 2); 2 + 0.5 * 3 - 4; 0.5 * (1 + 0.5 * 3.5 - 8)
            "continues": ((5.375, -2.625), (3.5, -0.5), (3, 1)),
            # the second error is 2 - 4, and passes -0.5 back
            "terminated": ((5, -3), (2, -2), (3, 1)),
            # it keeps the value of the final observation: -1, and passes -0.25 back
            "truncated": ((5.25, -2.75), (3, -1), (3, 1)),
            "both": ((5, -3), (2, -2), (3, 1)),
            # the last error is 0.25 * (3 - 2); corrections 0.25; -0.875; -2.71875
            "last terminated": ((5.28125, -2.71875), (3.125, -0.875), (2.25, 0.25)),
            "last truncated": ((5.375, -2.625), (3.5, -0.5), (3, 1)),
        },
    ),
    "retrace": (
        lambda *ends: retrace(RATIOS, REWARDS, TAKEN, VALUES, *ends, 0.5),
        {
            # 3 + 0.5 * 6; 2 + 0.5 * (2 + 0.25 * (6 - 1)); 1 + 0.5 * (4 + (3.625 - 3))
            "continues": (3.3125, 3.625, 6),
            # 2; 1 + 0.5 * (4 + (2 - 3))
            "terminated": (2.5, 2, 6),
            # 2 + 0.5 * 2; 1 + 0.5 * (4 + (3 - 3))
            "truncated": (3, 3, 6),
            "both": (2.5, 2, 6),
            # 3; 2 + 0.5 * (2 + 0.25 * (3 - 1)); 1 + 0.5 * (4 + (3.25 - 3))
            "last terminated": (3.125, 3.25, 3),
            "last truncated": (3.3125, 3.625, 6),
        },
    ),
}
"""What computes them with a gamma of 0.5, and what three rows are worth."""


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", BY_HAND)
def test_by_hand(name: str, end: str) -> None:
    compute, table = BY_HAND[name]
    terminated, truncated = ENDS[end]
    got = compute(flags(*terminated), flags(*truncated))
    expected = np.reshape(table[end], (3, -1))
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_gae_of_one_step_by_hand() -> None:
    for terminated, truncated, expected in ((0, 0, 1.5), (1, 0, -2), (0, 1, 1.5)):
        ends = flags(terminated), flags(truncated)
        got = gae(column(3), column(5, 7), *ends, 0.5, 0.9)
        np.testing.assert_allclose(got, column(expected), rtol=1e-6)


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


@pytest.mark.parametrize("length", [16, 33, 128])
def test_rows_that_only_reset_weigh_nothing(length: int) -> None:
    """What they hold changes no other row; their value is a truncated step's rest."""
    *case, resets = rollout(length, 5)
    rewards, values, terminated, _ = case
    ratios, taken = ratios_and_taken(rewards.shape)
    assert resets.sum() > 4

    def computed() -> list[Any]:
        own = retrace(ratios, rewards, taken, *case[1:], 0.9)
        targets = n_step_returns(*case, 0.99), *vtrace(np.log(ratios), *case, 0.99), own
        return [each.numpy() for each in (gae(*case, 0.99, 0.95), *targets)]

    before = computed()
    follows_end = np.zeros_like(values, bool)
    follows_end[1:] = terminated
    rewards[resets] = taken[resets] = 1e6
    ratios[resets] = 0.7
    values[:-1][resets & follows_end[:-1]] = -1e6
    for one, other in zip(before, computed(), strict=True):
        np.testing.assert_array_equal(one[~resets], other[~resets])
        assert not np.array_equal(one[resets], other[resets])


def slow_n_step(
    rewards: Any, values: Any, terminated: Any, truncated: Any, gamma: float
) -> Any:
    """Walk from each row forwards to its episode's or the rollout's end."""
    length, envs = rewards.shape
    returns = np.zeros((length, envs))
    for env in range(envs):
        for begin in range(length):
            weight = 1.0
            for t in range(begin, length):
                returns[begin, env] += weight * float(rewards[t, env])
                weight *= gamma
                if terminated[t, env]:
                    break
                if truncated[t, env] or t == length - 1:
                    returns[begin, env] += weight * float(values[t + 1, env])
                    break
    return returns


@pytest.mark.parametrize("gamma", [0.99, 0.5, 1, 0])
@pytest.mark.parametrize("length", LENGTHS)
def test_n_step(length: int, gamma: float) -> None:
    case = rollout(length, length)[:-1]
    expected = slow_n_step(*case, gamma)
    np.testing.assert_allclose(
        n_step_returns(*case, gamma), expected, rtol=1e-4, atol=1e-5
    )


def test_n_step_returns_are_gae_without_decay() -> None:
    case = rollout(33, 2)[:-1]
    expected = gae(*case, 0.9, 1.0) + case[1][:-1]
    np.testing.assert_allclose(
        n_step_returns(*case, 0.9), expected, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(
    "gamma_lam", [(0.99, 0.95), (0.9, 0), (0.9, 1), (1, 1), (0, 0.9)]
)
@pytest.mark.parametrize("length", LENGTHS)
def test_gae(length: int, gamma_lam: tuple[float, float]) -> None:
    """Its advantages are V-trace's corrections of the acting policy's rollouts."""
    (gamma, lam), case = gamma_lam, rollout(length, length)[:-1]
    targets, _ = slow_vtrace(np.ones((length, 4)), case, gamma, 1.0, 1.0, lam)
    expected = targets - case[1][:-1]
    np.testing.assert_allclose(gae(*case, *gamma_lam), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("clips", [(1.0, 1.0), (1.5, 0.7), (1.5, 0.7, 0.6)])
@pytest.mark.parametrize("length", LENGTHS)
def test_vtrace(length: int, clips: tuple[float, ...]) -> None:
    case = rollout(length, length)[:-1]
    log_ratios = np.random.default_rng(9).normal(0, 0.5, case[0].shape)
    log_ratios = log_ratios.astype(np.float32)
    got = vtrace(log_ratios, *case, 0.9, *clips)
    expected = slow_vtrace(np.exp(log_ratios), case, 0.9, *clips)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("lam", [0.0, 0.7, 1.0])
def test_vtrace_of_the_acting_policy_is_gae(lam: float) -> None:
    case = rollout(33, 3)[:-1]
    targets, advantages = vtrace(np.zeros_like(case[0]), *case, 0.9, decay=lam)
    expected = gae(*case, 0.9, lam)
    np.testing.assert_allclose(advantages, expected, rtol=1e-4, atol=1e-5)
    expected += case[1][:-1]
    np.testing.assert_allclose(targets, expected, rtol=1e-4, atol=1e-5)


def slow_retrace(ratios: Any, taken: Any, case: Any, gamma: float) -> Any:
    """Add the corrections of all later steps, as the paper sums them."""
    rewards, values, terminated, truncated = case
    length, envs = rewards.shape
    targets = np.array(taken, np.float64)
    for s, env in np.ndindex(length, envs):
        weight = 1.0
        for t in range(s, length):
            rest = 0.0 if terminated[t, env] else gamma * float(values[t + 1, env])
            error = float(rewards[t, env]) + rest - float(taken[t, env])
            targets[s, env] += weight * error
            if terminated[t, env] or truncated[t, env] or t == length - 1:
                break
            weight *= gamma * min(1.0, ratios[t + 1, env])
    return targets


def ratios_and_taken(shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Return ratios, and values of taken actions."""
    rng = np.random.default_rng(9)
    ratios, taken = rng.lognormal(0, 0.5, shape), rng.normal(size=shape)
    return ratios.astype(np.float32), taken.astype(np.float32)


@pytest.mark.parametrize("gamma", [0.99, 0.5, 0])
@pytest.mark.parametrize("length", LENGTHS)
def test_retrace(length: int, gamma: float) -> None:
    case = rollout(length, length)[:-1]
    ratios, taken = ratios_and_taken(case[0].shape)
    got = retrace(ratios, case[0], taken, *case[1:], gamma)
    expected = slow_retrace(ratios, taken, case, gamma)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_retrace_of_the_acting_policy_is_the_n_step_return() -> None:
    """Where each action is worth what its state is."""
    case = rollout(33, 3)[:-1]
    ones, taken = np.ones_like(case[0]), case[1][:-1]
    got = retrace(ones, case[0], taken, *case[1:], 0.9)
    np.testing.assert_allclose(got, n_step_returns(*case, 0.9), rtol=1e-4, atol=1e-5)
