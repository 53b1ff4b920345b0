"""The driver's copy of the learner's state."""

import math
import time
from typing import Any, NamedTuple

from xagents_ray.cluster.ray.calls import FETCH_SECONDS, RayCalls
from xagents_ray.core.errors import one_line, pluralize
from xagents_ray.core.trajectory import Array

_REQUEST_SECONDS = 0.5, 2.0
"""Shortest and longest interval between requests; the longest from 20 MB on."""
_BYTES_PER_SECOND = 10_000_000
_COSTS = 100
"""The interval between transfers is this many times the duration of the newest one."""
_SLOW_SECONDS = 10.0
_POLL_SECONDS = 0.2


class _Copy(NamedTuple):
    """A copy of the state in the object store of the learner's node."""

    reference: Any
    phase: int  # number of the newest phase that it includes
    taken_at: float


class _Transfer(NamedTuple):
    """A copy on its way to this process, which a thread of Ray fetches."""

    future: Any
    copy: _Copy
    began: float
    ended: list[float]  # time of its arrival


class LastSnapshot:
    """The newest snapshot of a learner's state, and the phases since then.

    The learner copies its state often, and the newest copy is fetched as often as its
    transfer costs little. A learner whose node is alive is restored from that copy.
    """

    def __init__(self, calls: RayCalls) -> None:
        self._calls, self._log = calls, calls.log
        self.arrays: dict[str, Array] = {}  # the learner's state by name
        self._last_phase = 0  # newest one that the snapshot includes
        self._newer: dict[int, int] = {}  # updates of each later phase
        self._taken_at = time.monotonic()
        self._requested: tuple[Any, int] | None = None
        self._requested_at = -math.inf
        self._copy: _Copy | None = None
        self._transfer: _Transfer | None = None
        self._request_after = _REQUEST_SECONDS[0]  # seconds since the previous one
        self._transfer_at = -math.inf  # time of the next transfer
        self._is_slow = False  # the user was told that transfers are

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
        self._drop_requests()  # they are outdated

    def add(self, phase: int, updates: int) -> None:
        """Count the updates of a phase that has ended."""
        if phase > self._last_phase:
            self._newer[phase] = updates

    def collect(self) -> None:
        """Store the newest copy that the learner has made; wait for its arrival."""
        self._take_copy()
        if self._copy is not None and not self._calls.lost([self._copy.reference]):
            self._begin()
        self._take_transfer()
        while self._transfer is not None and not self._calls.shutdown_requested():
            self._calls.ready([], _POLL_SECONDS)
            self._take_transfer()

    def refresh(self, actor: Any, phase: int) -> None:
        """Fetch the newest copy if it is due; request the next one.

        `phase` is the number of the newest phase requested from the learner.
        """
        self._take_copy()
        self._take_transfer()
        now = time.monotonic()
        if self._transfer is None and now >= self._transfer_at:
            self._begin()
            self._take_transfer()
        if self._requested is not None:
            return  # the learner is busy
        if now - self._requested_at > self._request_after:
            self._requested = actor.state.remote(), phase
            self._requested_at = now

    def restart(self) -> None:
        """Discard later phases and requests when a learner resumes from this state."""
        self._newer.clear()
        self._drop_requests()

    def _drop_requests(self) -> None:
        self._requested = self._copy = self._transfer = None

    def _take_copy(self) -> None:
        """Take the requested copy once the learner has made it."""
        if self._requested is None or not self._calls.ready([self._requested[0]], 0):
            return
        (reference, phase), self._requested = self._requested, None
        error = self._calls.lost([reference]).get(reference)
        if error is None:
            self._copy = _Copy(reference, phase, time.monotonic())
        elif not self._calls.is_death(error):
            self._lose(f"failed ({one_line(error)})")

    def _begin(self) -> None:
        """Begin to fetch the newest copy, beside the driver."""
        if self._copy is None:
            return
        copy, self._copy = self._copy, None
        future, ended = copy.reference.future(), list[float]()
        self._transfer = _Transfer(future, copy, time.monotonic(), ended)
        # The future keeps its callback, which must not keep the future in turn: the
        # copy would then stay until Python's garbage collector finds them.
        future.add_done_callback(lambda _: ended.append(time.monotonic()))

    def _take_transfer(self) -> None:
        """Store the copy that has arrived; tell the user if it takes long."""
        transfer = self._transfer
        if transfer is None:
            return
        waited = time.monotonic() - transfer.began
        if transfer.future.done():
            self._transfer = None
            self._store(transfer)
        elif waited > FETCH_SECONDS:
            self._transfer = None
            self._lose(f"has not arrived within {FETCH_SECONDS:.0f} s")
        elif waited > _SLOW_SECONDS and not self._is_slow:
            self._is_slow = True
            self._log.warn_now(
                "Snapshots of the learner take more than 10 s to arrive: if its node "
                f"is lost, it is restored from the one {self.age:.0f} s ago, without "
                f"{pluralize(self.newer_updates, 'update')} so far"
            )

    def _store(self, transfer: _Transfer) -> None:
        """Store a copy that has arrived, unless it was lost on its way."""
        error = transfer.future.exception()
        if error is None:
            copy = transfer.copy
            self._keep(transfer.future.result(), copy.phase, copy.taken_at)
            cost = min([*transfer.ended, time.monotonic()]) - transfer.began
            self._transfer_at = transfer.began + _COSTS * cost
        elif not self._calls.is_death(error):  # else the learner is lost too
            self._lose(f"failed ({one_line(error)})")

    def _keep(self, arrays: dict[str, Array], phase: int, taken_at: float) -> None:
        self.arrays, self._last_phase, self._taken_at = arrays, phase, taken_at
        self._newer = {n: count for n, count in self._newer.items() if n > phase}
        nbytes = sum(array.nbytes for array in arrays.values())
        least, most = _REQUEST_SECONDS
        self._request_after = min(max(least, nbytes / _BYTES_PER_SECOND), most)

    def _lose(self, what: str) -> None:
        """Warn of a snapshot without data, once."""
        if not self._log.counts["snapshots"]:
            self._log.warn(
                f"A snapshot of the learner {what}; the one {self.age:.0f} s ago is "
                "kept, and the next one is requested"
            )
        self._log.count("snapshots")
