"""Policies with random weights, of every agent in every kind of environment."""

from typing import Any

import gymnasium as gym
import numpy as np
from acting import run_of, setup_of, weights_of
from stepping import Stepping

from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.policy.loading import LoadedPolicy
from xagents_ray.policy.policy import Policy

IMAGES = {"env": "ShortInvaders-v0", "preprocess": True}
"""See the fixture `short_atari`."""
KINDS: dict[str, dict[str, Any]] = {
    "discrete": {"env": "CartPole-v1"},
    "continuous": {"env": "Pendulum-v1"},
    "image": IMAGES,
    "several": {"env": "several:discrete"},
}


class Colored(Stepping):
    """Gives one picture after the other, in color."""

    observation_space = gym.spaces.Box(0, 255, (40, 40, 3), np.uint8)
    action_space = gym.spaces.Discrete(4)
    length = 9

    def observe(self) -> Any:
        return self.np_random.integers(256, size=(40, 40, 3), dtype=np.uint8)

    def reward(self, action: Any) -> float:
        return float(action)


COLORED = "policy/Colored-v0"
gym.register(COLORED, Colored)


def policy_of(agent: str, seed: int | None = None, **settings: Any) -> Policy:
    settings = {"vectorization": "sync", "n_envs": 1, **settings}
    run = run_of(agent, **settings)
    weights = weights_of(setup_of(agent, **settings))
    model, config = run.algorithm.models[0], run.config.algorithm
    if not model.has_log_std:
        del weights.arrays["log_std"]
    if "action_scaling" in run.algorithm.extras(model, config, run.spec):
        weights.arrays["action_scaling"] = np.ones((), np.float32)
    return Policy(LoadedPolicy(run, weights, "random weights"), seed)


def cases() -> list[tuple[str, str]]:
    """Return agents with the kinds of environments that they take."""
    found = []
    for row in ALGORITHMS.values():
        reads_actions = any(model.reads_actions for model in row.models)
        takes_images = row.discrete and not reads_actions
        takes = row.discrete, row.continuous, takes_images, row.multi_discrete
        kinds = zip(KINDS, takes, strict=True)
        found += [(row.name, kind) for kind, taken in kinds if taken]
    return found
