"""Ctrl-C, SIGTERM and SIGHUP: the first ends a run in order, the second at once."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

GRACE_SECONDS = 0.7
"""Work in progress may be completed within this time after the first signal."""

_NUMBERS = [signal.SIGINT, signal.SIGTERM]
if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup has it
    _NUMBERS.append(signal.SIGHUP)
_ECHO_SECONDS = 0.1
"""`timeout` signals its command, and right afterwards the command's process group."""


class Signals:
    """Handles these signals within its block, and restores the handlers after it."""

    def __init__(self) -> None:
        self.received: int | None = None  # the first signal's number
        self._received_at = 0.0
        # Called in the handler of the first signal; None leaves it to those who read
        # `received`.
        self.on_first: Callable[[], None] | None = self._exit
        self._previous: list[Any] = []

    def __enter__(self) -> "Signals":
        self._previous = self.take()
        return self

    def take(self) -> list[Any]:
        """Install the handlers, even repeatedly; return the previous ones."""
        if threading.current_thread() is not threading.main_thread():
            return []
        return [signal.signal(number, self._handle) for number in _NUMBERS]

    @property
    def shutdown_requested(self) -> bool:
        """Whether a signal came and its grace period is over."""
        waited = time.monotonic() - self._received_at
        return self.received is not None and waited > GRACE_SECONDS

    def __exit__(self, *error: object) -> None:
        for number, handler in zip(_NUMBERS, self._previous, strict=False):
            signal.signal(number, handler)

    def press(self, number: int) -> None:
        """Act as if a first signal with this number came."""
        self.received, self._received_at = number, time.monotonic()
        if self.on_first is not None:
            self.on_first()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is None:
            self.press(number)
        elif time.monotonic() - self._received_at > _ECHO_SECONDS:
            os._exit(128 + number)

    def _exit(self) -> None:
        raise SystemExit(128 + (self.received or 0))


@contextmanager
def raising_interrupts() -> Iterator[None]:
    """Turn the exit code of Ctrl-C into KeyboardInterrupt, as Python does."""
    try:
        yield
    except SystemExit as error:
        if error.code == 128 + signal.SIGINT:
            raise KeyboardInterrupt from None
        raise
