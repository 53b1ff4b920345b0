"""An environment that random actions hardly ever solve, and all that can happen in it.

Source: arXiv:1511.05952, section 3.1, "Blind Cliffwalk".
"""

from itertools import product
from typing import Any

import gymnasium as gym
import numpy as np

from xagents_ray.core.trajectory import Trajectory

STATES = 12


class BlindCliffwalk(gym.Env[Any, Any]):
    """A row of states: of two actions one leads on, the other ends the episode.

    The action that leads on changes from state to state. Only that of the last state
    is rewarded, with 1.
    """

    observation_space = gym.spaces.Box(0, 1, (STATES,), np.float32)
    action_space: Any = gym.spaces.Discrete(2)
    state = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.state = 0
        return self.observation, {}

    def step(self, action: Any) -> Any:
        falls = action != self.state % 2
        self.state += not falls
        solved = self.state == STATES
        return self.observation, float(solved), falls or solved, False, {}

    @property
    def observation(self) -> Any:
        """Which state it is; behind the last one, nothing."""
        return np.eye(STATES, dtype=np.float32)[self.state % STATES]


def every_sequence(seed: int) -> Trajectory:
    """Return episodes of all sequences of actions, 2 to the STATES, in random order."""
    env, rows = BlindCliffwalk(), []
    sequences = np.array(list(product(range(2), repeat=STATES)))
    for sequence in np.random.default_rng(seed).permutation(sequences).tolist():
        observation, _ = env.reset()
        is_start, terminated = True, False
        while not terminated:
            action = sequence[env.state]
            after, reward, terminated, _, _ = env.step(action)
            rows.append((observation, is_start, action, reward, terminated, True))
            observation, is_start = after, False
        rows.append((observation, False, 0, 0.0, False, False))  # it only resets
    observations, starts, actions, rewards, terminated, valid = (
        np.array(column)[:, None] for column in zip(*rows, strict=True)
    )
    return Trajectory(
        observations,
        starts,
        actions[:-1].astype(np.int32),
        rewards[:-1].astype(np.float32),
        terminated[:-1],
        np.zeros_like(terminated[:-1]),
        valid[:-1],
        log_probs=None,
        values=None,
        weights_version=1,
        first_env=0,
    )
