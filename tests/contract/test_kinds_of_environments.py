"""Every algorithm on 1, 3 and 16 environments, and on every kind of vector."""

from dataclasses import fields
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from xagents_ray import UserError, train
from xagents_ray.algorithms.table import ALGORITHMS

LOW, HIGH = np.array([-3, 1], np.float32), np.array([1, 4], np.float32)
WIDEST = {"float32": 10.0, "float64": 1e6, "uint8": 255}


class Places(gym.Env[Any, Any]):
    """Random places; the reward is how near an action's first number comes to 0."""

    def __init__(self, dtype: str, is_discrete: bool) -> None:
        low = 0 if dtype == "uint8" else -WIDEST[dtype]
        high = WIDEST[dtype]
        self.observation_space = gym.spaces.Box(low, high, (5,), np.dtype(dtype))
        box = gym.spaces.Box(LOW, HIGH)
        self.action_space = gym.spaces.Discrete(3, start=2) if is_discrete else box
        self._steps = 0

    def reset(self, **given: Any) -> tuple[Any, dict[str, Any]]:
        super().reset(**given)
        self._steps = 0
        return self._place(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if not self.action_space.contains(action):
            raise AssertionError(f"{action} is not in {self.action_space}")
        self._steps += 1
        reward = -abs(float(np.ravel(action)[0]))
        over, is_cut = self._steps == 5, bool(self.np_random.integers(2))
        return self._place(), reward, over and not is_cut, over and is_cut, {}

    def _place(self) -> Any:
        space = self.observation_space
        assert isinstance(space, gym.spaces.Box)
        drawn = self.np_random.uniform(space.low, space.high)
        return drawn.astype(space.dtype)


def float32(**_: Any) -> Places:
    return Places("float32", is_discrete=False)


def float64(**_: Any) -> Places:
    return Places("float64", is_discrete=False)


def uint8(**_: Any) -> Places:
    return Places("uint8", is_discrete=False)


def float32_discrete(**_: Any) -> Places:
    return Places("float32", is_discrete=True)


def float64_discrete(**_: Any) -> Places:
    return Places("float64", is_discrete=True)


def uint8_discrete(**_: Any) -> Places:
    return Places("uint8", is_discrete=True)


class Crashing(Places):
    """Raises in its 100th step."""

    count = 0

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        if self.count == 100:
            raise RuntimeError("the simulator crashed")
        return super().step(action)


def crashing() -> Crashing:
    return Crashing("float32", is_discrete=True)


# Each kind with each number, shared out over discrete and continuous actions.
ODD = [(1, "float64", False), (3, "uint8", True), (16, "float32", False)]
EVEN = [(1, "uint8", True), (3, "float32", False), (16, "float64", True)]
CASES = [
    pytest.param(name, n_envs, dtype, id=f"{name}-{n_envs}-{dtype}-{wants_discrete}")
    for i, (name, row) in enumerate(ALGORITHMS.items())
    for n_envs, dtype, prefers in (ODD, EVEN)[i % 2]
    for wants_discrete in [prefers if row.discrete and row.continuous else row.discrete]
    for dtype in [dtype + "_discrete" * wants_discrete]
]


@pytest.mark.parametrize(("agent", "n_envs", "factory"), CASES)
def test_it_learns_something(agent: str, n_envs: int, factory: str) -> None:
    config = ALGORITHMS[agent].config
    known = {field.name for field in fields(config)}
    small = {"n_steps": 8, "mini_batches": 2, "buffer_initial_size": 40}
    settings: dict[str, Any] = {k: v for k, v in small.items() if k in known}
    result = train(
        agent,
        env=f"{__name__}:{factory}",
        n_envs=n_envs,
        local=True,
        quiet=True,
        tensorboard=False,
        max_steps=400,
        **settings,
    )
    assert result.env_steps >= 400
    assert result.games >= 400 // 5 - n_envs
    assert result.updates >= 3


@pytest.mark.parametrize("more", [{}, {"eval_every": 64, "eval_episodes": 50}])
def test_a_crash_in_mid_run_names_their_line(more: dict[str, Any]) -> None:
    """Without Ray, where nothing could be replaced; of an evaluation too."""
    env = {"env": f"{__name__}:crashing", "local": True, "quiet": True, **more}
    with pytest.raises(UserError, match=r"crashed \(.*environments\.py, line \d+\)"):
        train("ppo", **env, n_steps=64, tensorboard=False, max_steps=400)
