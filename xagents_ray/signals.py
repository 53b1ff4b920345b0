"""Ctrl-C and SIGTERM: the first ends a run in order, the second at once."""

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


class Signals:
    """Takes both signals while it is entered, and gives them back after.

    Attributes:
        received: the first signal's number; None before it.
        on_first: called in the handler of the first one; exits by default, None
            leaves it to whoever looks at `received`.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self.on_first: Callable[[], None] | None = self._exit
        self._before: list[Any] = []

    def __enter__(self) -> "Signals":
        self._before = self.take()
        return self

    def take(self) -> list[Any]:
        """Take both signals, again if need be; return whose they were."""
        if threading.current_thread() is not threading.main_thread():
            return []
        return [signal.signal(number, self._handle) for number in _NUMBERS]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in zip(_NUMBERS, self._before, strict=False):
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            os._exit(128 + number)
        self.received = number
        if self.on_first is not None:
            self.on_first()

    def _exit(self) -> None:
        raise SystemExit(128 + (self.received or 0))
