"""Wakes the driver when a call has ended, however many it waits for."""

import threading
import time
from collections import deque
from typing import Any


class Bell:
    """Is rung by Ray, in a thread of its own, when a watched call has ended.

    Attributes:
        has_rung: event that is set when the bell is rung.
        ended: the item and the future of each call that has ended, and the time at
            which it ended, oldest first.
    """

    def __init__(self) -> None:
        self.has_rung = threading.Event()
        self.ended: deque[tuple[Any, Any, float]] = deque()

    def watch(self, reference: Any, item: Any = None) -> None:
        """Ring once a call has ended; with an item, add it to `ended` before.

        The result is fetched to this process.
        """
        # The future keeps its callback, and the item may keep the future: such a cycle
        # would hold a rollout's data until Python's garbage collector finds it.
        items = [] if item is None else [item]

        def end(future: Any) -> None:
            while items:
                self.ended.append((items.pop(), future, time.monotonic()))
            self.has_rung.set()

        reference.future().add_done_callback(end)

    def wait(self, seconds: float) -> None:
        """Wait until the bell has rung since the last wait, for at most `seconds`."""
        self.has_rung.wait(seconds)
        self.has_rung.clear()
