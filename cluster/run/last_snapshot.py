"""The driver's copy of the learner's state."""

import time
from contextlib import suppress
from typing import Any

from xagents_ray.cluster.ray.calls import RayCalls
from xagents_ray.core.trajectory import Array

_REFRESH_SECONDS = 0.5, 2.0
"""Shortest and longest interval between requests; the longest from 20 MB on."""
_BYTES_PER_SECOND = 10_000_000
_FETCH_SECONDS = 10.0


class LastSnapshot:
    """The newest snapshot of a learner's state, and the phases since then."""

    def __init__(self, calls: RayCalls) -> None:
        self._calls = calls
        self.arrays: dict[str, Array] = {}  # the learner's state by name
        self._last_phase = 0  # newest one that the snapshot includes
        self._newer: dict[int, int] = {}  # updates of each later phase
        self._requested: tuple[Any, int] | None = None
        self._requested_at = 0.0
        self._due_after = _REFRESH_SECONDS[0]  # seconds from one request to the next

    @property
    def newer_updates(self) -> int:
        """Number of updates that the snapshot doesn't include."""
        return sum(self._newer.values())

    def keep(self, arrays: dict[str, Array], phase: int) -> None:
        """Store a snapshot that includes all phases up to number `phase`."""
        self.arrays, self._last_phase = arrays, phase
        self._requested = None  # an earlier request is outdated
        self._newer = {n: count for n, count in self._newer.items() if n > phase}
        nbytes = sum(array.nbytes for array in arrays.values())
        least, most = _REFRESH_SECONDS
        self._due_after = min(max(least, nbytes / _BYTES_PER_SECOND), most)

    def add(self, phase: int, updates: int) -> None:
        """Count the updates of a phase that has ended."""
        if phase > self._last_phase:
            self._newer[phase] = updates

    def collect(self) -> None:
        """Store the requested snapshot if it is ready."""
        if self._requested is None or not self._calls.ready([self._requested[0]], 0):
            return
        (reference, included), self._requested = self._requested, None
        with suppress(self._calls.ray.exceptions.RayError):
            get = self._calls.ray.get
            self.keep(get(reference, timeout=_FETCH_SECONDS), included)

    def refresh(self, actor: Any, phase: int) -> None:
        """Store the requested snapshot if it is ready; request one if it is due.

        `phase` is the number of the newest phase requested from the learner.
        """
        self.collect()
        if self._requested is not None:
            return  # the learner is busy
        if time.monotonic() - self._requested_at > self._due_after:
            self._requested = actor.state.remote(), phase
            self._requested_at = time.monotonic()

    def restart(self) -> None:
        """Discard later phases and requests when a learner resumes from this state."""
        self._newer.clear()
        self._requested = None
