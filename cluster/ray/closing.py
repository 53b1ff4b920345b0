"""Actors that close their environments before their processes are killed."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from xagents_ray.core.printed import Printed

CLOSE_SECONDS = 5.0
"""Time limit for an actor to close its environments."""


class ClosingActors:
    """Actors that were asked to close; `tend` kills them without waiting for any.

    Args:
        ray: the module `ray`.
        show: function of what an actor has printed since its last report.
    """

    def __init__(self, ray: Any, show: Callable[[Printed], None]) -> None:
        self._ray, self._show = ray, show
        # Actors with their deadlines, by reference to the result of `close`.
        self._actors: dict[Any, tuple[Any, float]] = {}

    def begin(self, actor: Any) -> None:
        """Ask an actor to close once it has ended its call in progress."""
        if not any(actor is each for each, _ in self._actors.values()):
            until = time.monotonic() + CLOSE_SECONDS
            self._actors[actor.close.remote()] = actor, until

    def tend(self) -> None:
        """Kill the actors that have closed, that failed, or whose time is over."""
        for call in self._ended():
            actor, _ = self._actors.pop(call)
            with suppress(Exception):  # it failed, or is late
                printed = self._ray.get(call, timeout=0)
                if isinstance(printed, Printed):
                    self._show(printed)
            self._ray.kill(actor)

    def finish(self) -> None:
        """Wait until all actors have closed or their time is over; kill them."""
        while self._actors:
            until = max(until for _, until in self._actors.values())
            self._wait(max(0.0, until - time.monotonic()))
            self.tend()

    def _ended(self) -> list[Any]:
        if not self._actors:
            return []
        ended, now = self._wait(0), time.monotonic()
        late = (call for call, (_, until) in self._actors.items() if now >= until)
        return list(dict.fromkeys((*ended, *late)))

    def _wait(self, seconds: float) -> list[Any]:
        """Return the calls that have ended; wait for all of them."""
        calls, wait = list(self._actors), self._ray.wait
        ended, _ = wait(
            calls, num_returns=len(calls), timeout=seconds, fetch_local=False
        )
        return list(ended)
