"""The env actors of a run: starting them, and replacing those that fail."""

import math
import time
from collections.abc import Callable, Collection, Sequence
from operator import attrgetter
from typing import Any

from xagents_ray.cluster.ray.calls import LateError, RayCalls, remote_traceback
from xagents_ray.cluster.run.actor_errors import (
    check_always_raises,
    error_line,
    last_line,
    users_error,
)
from xagents_ray.cluster.run.actor_slot import ActorSlot
from xagents_ray.core.errors import Broken, Stopped, UserError, pluralize

_POLL_SECONDS = 0.2
_CLAIM_SECONDS = 10.0
"""Interval at which claims of env actors are looked up that were lost with a node."""
_START_SECONDS, _ENV_SECONDS = 120.0, 1.0
"""Time limit for the next of the starting actors: the first number, or the second one
for each of its environments if that is more."""
_SESSIONS = 2**16
"""Session numbers are smaller; replacements add multiples of it for new episodes."""


class ActorPool:
    """Env actors, each of which has a share of the environments.

    Args:
        calls: Ray calls that wait for the actors.
        shares: number of environments of each actor.
        make: function that creates the n-th actor.
        max_restarts: number of consecutive failures that an actor may have.
        make_elsewhere: function that creates the n-th actor without its claim, while
            that is lost; None lets it wait for its claim.
        lost_claims: function that returns the actors whose claims are not on a live
            node.
    Attributes:
        slots: the slots of the actors, one per actor.
    """

    def __init__(
        self,
        calls: RayCalls,
        shares: Sequence[int],
        make: Callable[[int], Any],
        max_restarts: int,
        make_elsewhere: Callable[[int], Any] | None = None,
        lost_claims: Callable[[], Collection[int]] = tuple,
    ) -> None:
        self._calls, self._log, self._make = calls, calls.log, make
        self._make_elsewhere, self._lost_claims = make_elsewhere, lost_claims
        self._looked_up = -math.inf
        self._max_restarts, self._session = max_restarts, 0
        self._start_seconds = max(_START_SECONDS, _ENV_SECONDS * max(shares))
        self._shown: set[str] = set()
        self._newest_trace = ""
        self.slots: list[ActorSlot] = []
        for number, share in enumerate(shares):
            actor, now = make(number), time.monotonic()
            slot = ActorSlot(number, actor, actor.ready.remote(), share, now)
            self.slots.append(slot)
        self._ready: set[ActorSlot] = set()
        self._unsettled = {*self.slots}  # live ones, not ready or not on their claims

    @property
    def live(self) -> list[ActorSlot]:
        """Slots whose actors have not been given up."""
        return [slot for slot in self.slots if slot.actor is not None]

    @property
    def ready(self) -> list[ActorSlot]:
        """Slots whose actors have created their environments."""
        return [slot for slot in self.slots if slot.is_ready]

    @property
    def n_ready(self) -> int:
        """Number of actors that have created their environments."""
        return len(self._ready)

    @property
    def is_complete(self) -> bool:
        """Whether all actors have created their environments."""
        return self.n_ready == len(self.slots)

    @property
    def are_idle(self) -> bool:
        """Whether every actor is ready, and all of its rollouts have been taken."""
        return self.is_complete and not any(s.calls or s.finished for s in self.slots)

    def wait_until_ready(self) -> None:
        """Wait until every actor has created its environments; replace failed ones.

        Raises:
            UserError: an actor can't be created with the user's settings.
            Broken: Ray starts no actor, an environment's constructor always raises,
                or no actor is left.
        """
        newest, n_started = time.monotonic(), 0
        for slot in self.slots:
            while slot.actor is not None and not slot.is_ready:
                is_started = bool(self._calls.ready([slot.started], _POLL_SECONDS))
                if self._calls.shutdown_requested():
                    raise Stopped
                if is_started:
                    self._take_started(slot, is_first=True)
                    newest = time.monotonic()
                elif time.monotonic() - newest > self._start_seconds:
                    started = [other.started for other in self._unsettled]
                    if (count := len(self._calls.ready(started, 0))) > n_started:
                        newest, n_started = time.monotonic(), count
                        continue
                    raise Broken(
                        f"No env actor started within {self._start_seconds:.0f} s: the "
                        "cluster lacks free cores, see `ray status`, or environments "
                        "take longer to make: lower --n-envs or raise --n-actors."
                    )

    def restart(self, session: int) -> None:
        """Start episodes whose seeds differ from other sessions of the run."""
        self._session = session
        for slot in self.live:
            slot.actor.restart.remote(session)

    def restore(self, states: Sequence[Any], session: int) -> int:
        """Resume from the actors' states; return the number of dropped episodes."""
        self._session, dropped = session, 0
        calls = [
            (slot, slot.actor.restore.remote(state))
            for slot, state in zip(self.slots, states, strict=True)
            if slot.actor is not None
        ]
        until = time.monotonic() + self._start_seconds  # for the next of all calls
        for slot, call in calls:
            try:
                dropped += self._calls.get(call, max(0.0, until - time.monotonic()))
                until = time.monotonic() + self._start_seconds
            except (LateError, self._calls.ray.exceptions.RayError):
                self.fail(slot, "could not resume from its state")
                dropped += slot.n_envs
        return dropped

    def check_starting(self) -> list[ActorSlot]:
        """Take replacements that are ready, and report those that are overdue.

        Returns:
            The slots of those that are ready now.
        """
        if not self._unsettled:
            return []
        self._check_claims()
        starting = [slot for slot in self._in_order() if not slot.is_ready]
        ready = {*self._calls.ready([slot.started for slot in starting], 0)}
        for slot in starting:
            waited = time.monotonic() - slot.alive_at
            if slot.started in ready:
                self._take_started(slot)
            elif waited > self._start_seconds and not slot.is_overdue:
                self._report_overdue(slot)
        return [slot for slot in starting if slot.is_ready]

    def fail(self, slot: ActorSlot, what: str, trace: str = "") -> None:
        """Replace an actor that failed, or give it up; `what` is a verb phrase.

        Raises:
            Broken: the actor was given up, and no other one is left.
        """
        self._calls.retire(slot.actor)
        slot.failures += 1
        self._log.count("env actors")
        self._log.count("rollouts", len(slot.calls))
        slot.calls.clear()
        if trace:
            self._report_trace(slot, trace)
        ((place, count),) = slot.errors.most_common(1) or [("", 0)]
        if slot.failures > self._max_restarts:
            self._give_up(slot, f"{what}, {pluralize(slot.failures, 'time')} in a row")
        elif count > self._max_restarts:
            times = f"{pluralize(count, 'time')} without a finished episode in between"
            self._give_up(slot, f"{what} at {place}, {times}")
        else:
            self._log.warn(f"Env actor {slot.number} {what}; it is replaced")
            self._replace(slot)

    def takes_requests(self, slot: ActorSlot) -> bool:
        """Return whether rollouts may be requested of a slot's actor.

        If a new actor has started on the slot's claim, which was lost, it takes over
        once the rollouts of the present one have ended.
        """
        if slot.returned is None or not self._calls.ready([slot.returned], 0):
            return True
        if slot.calls:
            return False
        returning, started = slot.returning, slot.returned
        slot.returning = slot.returned = None
        try:
            self._calls.value(started)
        except (UserError, self._calls.ray.exceptions.RayError):
            self._calls.kill(returning)  # another one starts if the claim remains
            return True
        self._calls.retire(slot.actor)
        slot.actor, slot.is_away, slot.has_finished = returning, False, False
        slot.alive_at = time.monotonic()
        self._sort(slot)
        self._log.warn(f"Env actor {slot.number} is back on the cores of its claim")
        return True

    def _replace(self, slot: ActorSlot) -> None:
        """Create a new actor, on the slot's claim if that is on a live node."""
        self._calls.retire(slot.returning)
        slot.returning = slot.returned = None
        slot.alive_at = time.monotonic()
        slot.is_ready = slot.is_overdue = slot.has_finished = slot.is_away = False
        make = self._make
        if self._make_elsewhere is not None and slot.number in self._lost_claims():
            make, slot.is_away = self._make_elsewhere, True
        slot.actor, slot.started = self._started(slot, make)
        self._sort(slot)

    def _started(self, slot: ActorSlot, make: Callable[[int], Any]) -> tuple[Any, Any]:
        """Return a new actor for a slot, and a reference that its start makes ready."""
        slot.replaced += 1
        actor = make(slot.number)
        actor.restart.remote(self._session + _SESSIONS * slot.replaced)
        return actor, actor.ready.remote()

    def _sort(self, slot: ActorSlot) -> None:
        """Note whether the actor of a slot is ready, and on its claim."""
        is_settled = slot.actor is None or (slot.is_ready and not slot.is_away)
        (self._unsettled.discard if is_settled else self._unsettled.add)(slot)
        (self._ready.add if slot.is_ready else self._ready.discard)(slot)

    def _in_order(self) -> list[ActorSlot]:
        """Return the slots that aren't settled, by their numbers."""
        return sorted(self._unsettled, key=attrgetter("number"))

    def _check_claims(self) -> None:
        """Start actors on claims that are back; move those whose claim is lost."""
        now = time.monotonic()
        if self._make_elsewhere is None or now - self._looked_up < _CLAIM_SECONDS:
            return
        self._looked_up, lost = now, self._lost_claims()
        for slot in self._in_order():
            is_lost = slot.number in lost
            if slot.is_away and slot.is_ready and not is_lost and slot.returned is None:
                slot.returning, slot.returned = self._started(slot, self._make)
            elif not slot.is_away and is_lost:
                self._calls.kill(slot.actor)
                self._replace(slot)

    def _take_started(self, slot: ActorSlot, is_first: bool = False) -> None:
        """Process the result of an actor's start, which may have failed."""
        try:
            self._calls.value(slot.started)
        except (UserError, self._calls.ray.exceptions.RayError) as error:
            trace = remote_traceback(error)
            if is_first and isinstance(error, UserError):
                raise
            if is_first and (found := users_error(trace)):
                raise UserError(found) from None
            if is_first and trace:
                check_always_raises(self._calls, slot, self.live, trace)
            self.fail(slot, "could not start", trace)
        else:
            if slot.is_overdue:
                back = f"started; its {slot.n_envs} environments are back"
                self._log.warn(f"Env actor {slot.number} has {back}")
            slot.is_ready, slot.is_overdue = True, False
            slot.alive_at = time.monotonic()
            self._sort(slot)

    def _report_overdue(self, slot: ActorSlot) -> None:
        """Warn that training continues without an actor; Broken if no other is left."""
        slot.is_overdue = True
        late = f"did not start within {self._start_seconds:.0f} s"
        why = "the cluster may lack free cores or memory, see `ray status`"
        if not self._has_prospects:
            raise Broken(
                f"No env actor is left: replacements {late}; {why}.", self._newest_trace
            )
        self._log.warn(
            f"Env actor {slot.number} {late}: {why}; training continues without its "
            f"{slot.n_envs} environments until it does"
        )

    def _report_trace(self, slot: ActorSlot, trace: str) -> None:
        """Count an environment's error; show its traceback the first time."""
        self._newest_trace = trace
        slot.errors[error_line(trace)] += 1
        if (last := last_line(trace)) not in self._shown:
            self._shown.add(last)
            self._log.warn(trace)

    def _give_up(self, slot: ActorSlot, what: str) -> None:
        self._calls.retire(slot.returning)
        slot.returning = slot.returned = None
        slot.actor, slot.is_ready = None, False
        self._sort(slot)
        if not self._has_prospects:
            last = last_line(self._newest_trace)
            raise Broken(
                f"No env actor is left: the last one {what}"
                f"{last and f' ({last})'}; fix the environment, or raise "
                "--max-actor-restarts.",
                self._newest_trace,
            )
        self._log.count("environments", slot.n_envs)
        self._log.warn(
            f"Env actor {slot.number} {what}, and is given up with its "
            f"{slot.n_envs} environments; the others continue"
        )

    @property
    def _has_prospects(self) -> bool:
        """Whether an actor is ready, or may still start in time."""
        return any(not slot.is_overdue for slot in self.live)
