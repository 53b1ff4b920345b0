"""Environments that are slow, raise or hang; for the tests of supervision."""

import os
import time
from pathlib import Path
from typing import Any

import gymnasium as gym


class _Failing(gym.Wrapper):  # type: ignore[type-arg]
    """CartPole that fails in some way in environments with some seeds."""

    def __init__(self) -> None:
        super().__init__(gym.make("CartPole-v1"))
        self._seed = 1
        self._steps = 0

    def reset(self, **settings: Any) -> Any:
        self._seed = settings.get("seed") or self._seed
        return super().reset(**settings)

    def step(self, action: Any) -> Any:
        self._steps += 1
        self.fail()
        return super().step(action)

    def fail(self) -> None:
        """Do what goes wrong before this step."""


class _Uneven(_Failing):
    def fail(self) -> None:
        if self._seed == 4:
            time.sleep(0.1)


class _Slow(_Failing):
    """A simulator that takes 10 ms a step and no core."""

    def fail(self) -> None:
        time.sleep(0.01)


class _Raising(_Failing):
    def fail(self) -> None:
        if self._steps == 10:
            raise RuntimeError("the simulator lost its licence")


class _RaisingAndHanging(_Failing):
    """The first to come to step 100 raises, the second one hangs."""

    def fail(self) -> None:
        if self._steps == 100 and _is_first("raised"):
            raise RuntimeError("the simulator lost its licence")
        if self._steps == 100 and _is_first("hung"):
            time.sleep(1_000)


def _is_first(name: str) -> bool:
    """Whether nobody else has come here."""
    try:
        Path(__file__).with_name(name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


class _Blind(_Failing):
    def fail(self) -> None:
        seen = os.environ.get("CUDA_VISIBLE_DEVICES")
        if seen != "-1":
            raise RuntimeError(f"sees GPUs: {seen}")


uneven, slow, raising, blind = _Uneven, _Slow, _Raising, _Blind
raising_and_hanging = _RaisingAndHanging
