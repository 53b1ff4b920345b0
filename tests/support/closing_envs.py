"""Environments that note when they are made and closed."""

import os
import time
import uuid
from typing import Any

from stepping import Stepping


class Noting(Stepping):
    """Writes to the file `log` what happens to it, and by which process.

    Args:
        log: path of the file.
        endless_from: number of resets after which episodes have no end.
        seconds: seconds that a step takes.
    """

    def __init__(self, log: str, endless_from: int = 10**9, seconds: float = 0) -> None:
        self._log, self._id = log, uuid.uuid4().hex
        self._left, self._seconds = endless_from, seconds
        self._note("made")

    def _note(self, what: str) -> None:
        with open(self._log, "a") as file:
            file.write(f"{what} {self._id} {os.getpid()}\n")

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self._left -= 1
        self.length = 10**12 if self._left < 0 else 20
        return super().reset(seed=seed)

    def step(self, action: Any) -> Any:
        time.sleep(self._seconds)
        return super().step(action)

    def close(self) -> None:
        self._note("closed")
