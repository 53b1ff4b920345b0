"""Small goal environments, in the place of robots."""

from typing import Any

import gymnasium as gym
import numpy as np

SIZE = 2


class PointReach(gym.Env[Any, Any]):
    """A point that is to reach another one within 20 steps.

    Args:
        ends: whether an episode ends on success.
        speed: the longest way of one step in each direction.
    """

    def __init__(self, ends: bool = False, speed: float = 0.2) -> None:
        box = gym.spaces.Box(-1, 1, (SIZE,))
        names = "observation", "achieved_goal", "desired_goal"
        self.observation_space = gym.spaces.Dict(dict.fromkeys(names, box))
        self.action_space = gym.spaces.Box(-1, 1, (SIZE,))
        self._ends, self._speed = ends, speed

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> Any:
        super().reset(seed=seed)
        drawn = self.np_random.uniform(-1, 1, (2, SIZE)).astype(np.float32)
        self._place, self._goal = drawn
        self._steps = 0
        return self._observation(), {"is_success": self._is_success()}

    def step(self, action: Any) -> Any:
        moved = self._place + self._speed * np.asarray(action, np.float32)
        self._place = moved.clip(-1, 1)
        self._steps += 1
        reward = self.compute_reward(self._place, self._goal, {})
        ends = self.compute_terminated(self._place, self._goal, {})
        info = {"is_success": self._is_success()}
        return self._observation(), float(reward), ends, self._steps == 20, info

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        """Return 0 near the goal and -1 elsewhere, of one pair of goals or many."""
        return -(_distance(achieved, desired) > 0.15).astype(np.float32)

    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> bool:
        """Return whether an episode ends, of one pair of goals only."""
        return self._ends and bool(np.linalg.norm(achieved - desired) <= 0.15)

    def _is_success(self) -> bool:
        return bool(_distance(self._place, self._goal) <= 0.15)

    def _observation(self) -> dict[str, Any]:
        place = self._place.copy()
        return {
            "observation": place,
            "achieved_goal": place.copy(),
            "desired_goal": self._goal.copy(),
        }


def _distance(achieved: Any, desired: Any) -> Any:
    return np.linalg.norm(achieved - desired, axis=-1)


class BrokenRewards(PointReach):
    """Can't say what many goals at once are worth."""

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        if np.size(achieved) > 100:
            raise RuntimeError("no such table")
        return super().compute_reward(achieved, desired, info)
