"""Environments that are slow, raise, hang or die; for the tests of supervision."""

import fcntl
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


class _RaisingOnce(_Failing):
    def fail(self) -> None:
        if self._steps == 100 and not Path("raised").exists():
            Path("raised").touch()
            raise RuntimeError("the simulator lost its licence")


class _Hanging(_Failing):
    def fail(self) -> None:
        if self._steps == 100 and not Path("hung").exists():
            Path("hung").touch()
            time.sleep(1_000)


class _Dying(_Failing):
    """All processes die but one, that which holds the lock."""

    _lock: Any = None

    def fail(self) -> None:
        if _Dying._lock is None:
            _Dying._lock = Path("lock").open("w")
            try:
                fcntl.flock(_Dying._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os._exit(1)


uneven, slow, raising, raising_once = _Uneven, _Slow, _Raising, _RaisingOnce
hanging, dying = _Hanging, _Dying


class _Blind(_Failing):
    def fail(self) -> None:
        seen = os.environ.get("CUDA_VISIBLE_DEVICES")
        if seen != "-1":
            raise RuntimeError(f"sees GPUs: {seen}")


blind = _Blind
