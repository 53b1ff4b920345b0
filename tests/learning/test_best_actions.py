"""The best action of each range is found, wherever the range lies."""

from typing import Any

import numpy as np
import pytest
from ranges import Ranges

import xagents_ray
from xagents_ray import AgentName

RUN: dict[str, Any] = {"local": True, "quiet": True, "n_envs": 8, "seed": 1}
ON_POLICY = ["a2c", "a3c", "impala", "ppo", "trpo"]
SMALL = {
    "max_steps": 6_000,
    "buffer_initial_size": 500,
    "buffer_batch_size": 64,
    "gradient_steps": 1,
    "lr": 1e-3,
}


def greedy_return(agent: str, kind: str, **settings: Any) -> float:
    result = xagents_ray.train(
        AgentName(agent), env=f"ranges:{kind}", gamma=0.0, **RUN, **settings
    )
    policy = xagents_ray.load(result.directory, which="last")
    played = policy.evaluate(10, n_envs=1, seed=5)
    return float(np.mean(played.returns)) / Ranges.length


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["far", "wide", "narrow"])
@pytest.mark.parametrize("agent", ON_POLICY)
def test_gaussians_come_within_a_tenth_of_the_range(agent: str, kind: str) -> None:
    settings = {"max_kl": 0.01} if agent == "trpo" else {}
    assert greedy_return(agent, kind, max_steps=60_000, **settings) >= -0.1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bits", "signs"])
@pytest.mark.parametrize("agent", ["ddpg", "sac", "td3"])
def test_the_largest_integers_are_learned(agent: str, kind: str) -> None:
    # With less noise TD3 stays on an integer below: neighbors give equal rewards there.
    settings = {"step_noise_coef": 0.4} if agent == "td3" else {}
    assert greedy_return(agent, kind, **SMALL, **settings) >= -0.025
