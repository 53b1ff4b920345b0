"""The driver's copy of the learner's state."""

import math
import time
from dataclasses import dataclass
from typing import Any

from xagents_ray.cluster.ray.calls import FETCH_SECONDS, RayCalls
from xagents_ray.core.errors import pluralize
from xagents_ray.core.trajectory import Array

_SHORTEST_SECONDS = 0.5
_COSTS = 100
"""The interval between requests is this many times the seconds that the newest
snapshot took to arrive, or `_SHORTEST_SECONDS` if that is more."""
_SLOW_SECONDS = 10.0
_POLL_SECONDS = 0.2


@dataclass
class _Transfer:
    """A snapshot on its way to this process, which a thread of Ray fetches."""

    future: Any
    phase: int  # number of the newest phase that it includes
    began: float  # time when the learner had copied its state
    ended: float = math.inf  # time of its arrival
    is_reported: bool = False  # the user was told that it is slow


class LastSnapshot:
    """The newest snapshot of a learner's state, and the phases since then."""

    def __init__(self, calls: RayCalls) -> None:
        self._calls, self._log = calls, calls.log
        self.arrays: dict[str, Array] = {}  # the learner's state by name
        self._last_phase = 0  # newest one that the snapshot includes
        self._newer: dict[int, int] = {}  # updates of each later phase
        self._taken_at = time.monotonic()
        self._requested: tuple[Any, int] | None = None
        self._requested_at = 0.0
        self._transfer: _Transfer | None = None
        self._due_after = _SHORTEST_SECONDS  # seconds from one request to the next

    @property
    def newer_updates(self) -> int:
        """Number of updates that the snapshot doesn't include."""
        return sum(self._newer.values())

    @property
    def age(self) -> float:
        """Seconds since the learner was in this state."""
        return time.monotonic() - self._taken_at

    def keep(self, arrays: dict[str, Array], phase: int) -> None:
        """Store a snapshot that was just taken, after all phases up to `phase`."""
        self._keep(arrays, phase, time.monotonic())
        self._requested = self._transfer = None  # an earlier request is outdated

    def add(self, phase: int, updates: int) -> None:
        """Count the updates of a phase that has ended."""
        if phase > self._last_phase:
            self._newer[phase] = updates

    def collect(self) -> None:
        """Store the requested snapshot if the learner has made it; wait for it."""
        self._advance()
        while self._transfer is not None and not self._calls.shutdown_requested():
            self._calls.ready([], _POLL_SECONDS)
            self._advance()

    def refresh(self, actor: Any, phase: int) -> None:
        """Store the requested snapshot if it has arrived; request one if it is due.

        `phase` is the number of the newest phase requested from the learner.
        """
        self._advance()
        if self._requested is not None or self._transfer is not None:
            return  # the learner or the network is busy
        if time.monotonic() - self._requested_at > self._due_after:
            self._requested = actor.state.remote(), phase
            self._requested_at = time.monotonic()

    def restart(self) -> None:
        """Discard later phases and requests when a learner resumes from this state."""
        self._newer.clear()
        self._requested = self._transfer = None

    def _advance(self) -> None:
        """Begin to fetch the snapshot once it is made; store it once it is here."""
        if self._requested is not None and self._calls.ready([self._requested[0]], 0):
            (reference, phase), self._requested = self._requested, None
            self._transfer = _begin(reference, phase)
        transfer = self._transfer
        if transfer is None:
            return
        if transfer.future.done():
            self._transfer = None
            self._take(transfer)
        elif (waited := time.monotonic() - transfer.began) > FETCH_SECONDS:
            self._transfer = None
            self._lose(f"has not arrived within {FETCH_SECONDS:.0f} s")
        elif waited > _SLOW_SECONDS and not transfer.is_reported:
            transfer.is_reported = True
            self._log.warn_now(
                f"A snapshot of the learner takes more than {waited:.0f} s to arrive; "
                f"until then, a lost learner is restored from the one {self.age:.0f} s "
                f"ago, without {pluralize(self.newer_updates, 'update')}"
            )

    def _take(self, transfer: _Transfer) -> None:
        """Store a snapshot that has arrived, unless it was lost on its way."""
        error = transfer.future.exception()
        if isinstance(error, self._calls.ray.exceptions.RayError):
            self._lose("was lost")
        elif error is not None:
            raise error
        else:
            self._keep(transfer.future.result(), transfer.phase, transfer.began)
            cost = min(transfer.ended, time.monotonic()) - transfer.began
            self._due_after = max(_SHORTEST_SECONDS, _COSTS * cost)

    def _keep(self, arrays: dict[str, Array], phase: int, taken_at: float) -> None:
        self.arrays, self._last_phase, self._taken_at = arrays, phase, taken_at
        self._newer = {n: count for n, count in self._newer.items() if n > phase}

    def _lose(self, what: str) -> None:
        """Warn of a snapshot without data, once."""
        if not self._log.counts["snapshots"]:
            self._log.warn(
                f"A snapshot of the learner {what}; the one {self.age:.0f} s ago is "
                "kept, and the next one is requested"
            )
        self._log.count("snapshots")


def _begin(reference: Any, phase: int) -> _Transfer:
    """Begin to fetch a snapshot, beside the driver."""
    transfer = _Transfer(reference.future(), phase, time.monotonic())

    def ended(future: Any) -> None:
        transfer.ended = time.monotonic()

    transfer.future.add_done_callback(ended)
    return transfer
