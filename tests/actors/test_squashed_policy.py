"""How SAC acts: squashed noise within bounds, random actions at the beginning."""

import math
from typing import Any

import numpy as np
import pytest
from naive import random_arrays

from xagents_ray.actors.policies.squashed import SquashedGaussianPolicy
from xagents_ray.algorithms.sac import SACConfig
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Weights
from xagents_ray.networks.forward import bind_network

LOW, HIGH = (-3.0, 1.0, -0.25), (1.0, 4.0, 0.25)
SPEC = EnvSpec((2,), "float32", 1, 0, LOW, HIGH)


def loaded() -> tuple[Any, Any]:
    """Return a policy with deviations on both sides of their bounds, its network."""
    config = SACConfig(buffer_initial_size=100)
    layout = find_algorithm("sac").layout(None, SPEC)
    arrays = random_arrays(layout, 2)
    arrays["dense-3/bias"][:] = (-25, 0.1, 4)
    policy = SquashedGaussianPolicy(config, SPEC, layout)
    policy.load(Weights(1, arrays))
    return policy, bind_network(layout, arrays)


def observations(count: int) -> Any:
    return np.random.default_rng(1).normal(size=(count, 2)).astype(np.float32)


def scaled(action: float, component: int) -> float:
    low, high = LOW[component], HIGH[component]
    return low + (action + 1) * (high - low) / 2


def test_actions_slowly() -> None:
    policy, forward = loaded()
    noise = policy.noise([np.random.default_rng([0, i]) for i in range(50)], 1)[0]
    got, greedy = (
        policy.act(observations(50), noise, 100),
        policy.greedy(observations(50)),
    )
    means, log_stds = forward(observations(50))
    assert (log_stds < -20).any() and (log_stds > 2).any()
    assert ((log_stds > -20) & (log_stds < 2)).any()
    for i, j in np.ndindex(50, 3):
        deviation = math.exp(min(max(log_stds[i, j], -20), 2))
        action = math.tanh(means[i, j] + deviation * noise[i, 0, j])
        assert got.stored[i, j] == pytest.approx(action, abs=1e-5)
        assert got.stepped[i, j] == pytest.approx(scaled(action, j), abs=1e-5)
        likeliest = scaled(math.tanh(means[i, j]), j)
        assert greedy[i, j] == pytest.approx(likeliest, abs=1e-5)
    for array in (got.stored, got.stepped, greedy):
        assert array.dtype == np.float32
    assert (got.stepped >= LOW).all() and (got.stepped <= HIGH).all()


def test_actions_are_random_until_learning_starts() -> None:
    policy, _ = loaded()
    noise = policy.noise([np.random.default_rng([0, i]) for i in range(50)], 1)[0]
    begun = policy.act(observations(50), noise, 99)
    np.testing.assert_array_equal(begun.stored, noise[:, 1])
    learning = policy.act(observations(50), noise, 100)
    assert (learning.stored != begun.stored).any(axis=-1).all()
