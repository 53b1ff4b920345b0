"""Train on an environment of your own: catch a ball that falls.

Prints the mean return before and after, from about -0.6 to 1, which is to catch every
ball. The command line takes it too: `--env own_environment:Catch`, in its folder.
"""

import gymnasium as gym
import numpy as np

import xagents_ray


class Catch(gym.Env):
    """A ball falls ten rows; a paddle goes left, stays, or goes right."""

    observation_space = gym.spaces.Box(0, 1, (3,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        """Drop a ball anywhere, with the paddle in the middle."""
        super().reset(seed=seed)
        self.ball, self.row, self.paddle = int(self.np_random.integers(10)), 0, 5
        return self._observation(), {}

    def step(self, action):
        """Move both; the last row gives 1 or -1."""
        self.row += 1
        self.paddle = min(max(self.paddle + int(action) - 1, 0), 9)
        is_over = self.row == 9
        reward = (1.0 if self.paddle == self.ball else -1.0) if is_over else 0.0
        return self._observation(), reward, is_over, False, {}

    def _observation(self):
        return np.array([self.ball, self.row, self.paddle], np.float32) / 9


if __name__ == "__main__":
    result = xagents_ray.train("ppo", env=Catch, n_envs=8, max_steps=60_000, local=True)
    returns = [episode_return for _, episode_return in result.episodes]
    print(f"{np.mean(returns[:100]):.2f}, then {np.mean(returns[-100:]):.2f}")
