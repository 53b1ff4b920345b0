"""Goal environments whose rewards read `info`; each pays in another way."""

from typing import Any

import gymnasium as gym
import numpy as np

BOX = gym.spaces.Box(-9, 9, (1,), np.float32)
GOAL = np.ones(1, np.float32)


class Costly(gym.Env[Any, Any]):
    """A goal environment whose rewards read the `info` of a step."""

    observation_space = gym.spaces.Dict(
        observation=BOX, achieved_goal=BOX, desired_goal=BOX
    )
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    place, steps = np.zeros(1, np.float32), 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place, self.steps = np.zeros(1, np.float32), 0
        return self.seen(), {"cost": "none yet"}

    def seen(self) -> Any:
        return {
            "observation": self.place,
            "achieved_goal": self.place,
            "desired_goal": GOAL,
        }

    def step(self, action: Any) -> Any:
        self.place, self.steps = self.place + action, self.steps + 1
        reward, info = self.paid(), self.info()
        return self.seen(), reward, False, self.steps == 5, info

    def info(self) -> dict[Any, Any]:
        """Return an info of all kinds, some of them in every other step."""
        n = self.steps
        sometimes = {"bonus": n, 3: None} if n % 2 else {}
        return {
            "cost": 0.1 * n,
            "vector": np.arange(3) * n,
            "pair": (n, 2 * n),
            "is_late": n > 2,
            "text": "never read",
            **sometimes,
        }

    def paid(self) -> float:
        return float(self.compute_reward(self.place, GOAL, self.info()))

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return -np.abs(achieved - desired).sum() - info["cost"]


class Sometimes(Costly):
    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return info.get("bonus", -1.0) + (info.get(3) or 0.5)


class Shapes(Costly):
    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        a, b = info["pair"]
        assert info["is_late"] is True or info["is_late"] is False
        return info["vector"].sum() + [0, 1, 4, 9, 16, 25][a] + b + info["is_late"]


class Whole(Costly):
    def info(self) -> dict[Any, Any]:
        return {"a": self.steps, "b": 2.0}

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return sum(value for value in {**info}.values())


class Branching(Costly):
    """Reads an entry only far from where its first steps lead, and names it."""

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return info["cost"] if abs(desired).max() > 5 else 0.0


class Listed(Costly):
    """Of many goals and a list of infos only, as Stable-Baselines3 calls it."""

    def paid(self) -> float:
        (found,) = self.compute_reward(self.place[None], GOAL[None], [self.info()])
        return float(found)

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        costs = np.array([each["cost"] for each in info])
        return -np.linalg.norm(achieved - desired, axis=-1) - costs


class Both(Listed):
    """Of one goal and one info too."""

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        if isinstance(info, dict):
            return self.compute_reward(achieved[None], desired[None], [info])[0]
        return super().compute_reward(achieved, desired, info)


class Blind(Listed):
    """Takes a list of infos and reads none."""

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        pairs = zip(achieved, desired, info, strict=True)
        return np.array([float(np.abs(a - d).sum()) for a, d, _ in pairs])


class Worded(Costly):
    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return 1.0 if info["text"] == "never read" else 0.0


class Many(Costly):
    def paid(self) -> float:
        return 0.0

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return np.zeros(3)


class Keyless(Listed):
    """Of many goals, and one of their infos lacks what is read."""

    def paid(self) -> float:
        return 0.0

    def info(self) -> dict[Any, Any]:
        return {"cost": 1.0} if self.steps % 2 else {}
