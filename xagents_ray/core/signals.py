"""SIGINT, SIGTERM and SIGHUP: the first ends a run cleanly, the second at once."""

import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

GRACE_SECONDS = 0.7
"""Time after the first signal within which work in progress may complete."""

_NUMBERS = [signal.SIGINT, signal.SIGTERM]
if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # not under nohup
    _NUMBERS.append(signal.SIGHUP)
_ECHO_SECONDS = 0.1
"""Repeated signals are ignored for this long: `timeout` sends each one twice."""


class Signals:
    """Handles these signals in a `with` block, then restores the previous handlers."""

    def __init__(self) -> None:
        self.received: int | None = None  # the first signal's number
        self._received_at = 0.0
        # Called by the first signal's handler; None if callers poll `received`.
        self.on_first: Callable[[], None] | None = self._exit
        # Shows a line, in a thread, because what the signal interrupts may show one.
        self.note: Callable[[str], None] | None = None
        self._previous: list[Any] = []

    def __enter__(self) -> "Signals":
        self._previous = self.take()
        return self

    def take(self) -> list[Any]:
        """Install the handlers; return the previous ones. May be called repeatedly."""
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
        """Simulate a first signal with this number."""
        self.received, self._received_at = number, time.monotonic()
        if self.note is not None and self.on_first != self._exit:
            threading.Thread(
                target=self.note, args=["Stopping..."], daemon=True
            ).start()
        if self.on_first is not None:
            self.on_first()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is None:
            self.press(number)
        elif time.monotonic() - self._received_at > _ECHO_SECONDS:
            os._exit(128 + number)

    def _exit(self) -> None:
        raise SystemExit(128 + (self.received or 0))
