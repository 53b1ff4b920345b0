"""The env actors of a run: launched, waited for, and replaced when they fail."""

import math
import re
import statistics
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

from xagents_ray.cluster.ray.calls import (
    Calls,
    LateError,
    Room,
    place_of,
    traceback_of,
)
from xagents_ray.cluster.run.slots import Call, Rollout, Slot
from xagents_ray.core.errors import Broken, Stopped, UserError
from xagents_ray.settings.config import Config

_POLL_SECONDS = 0.2
_TIMEOUT = 60.0
_MEDIANS = 10
START_SECONDS = 120.0
"""In which a new process must be ready; for each of many at once, a part more."""
_STALE_SECONDS = 30.0
_USER_ERROR = re.compile(
    rf"^{re.escape(UserError.__module__)}\.(?:UserError|EnvironmentFault): ", re.M
)
_SESSIONS = 2**16
"""Numbers of sessions; a replacement's episodes differ from all of theirs."""


class Fleet:
    """Env actors that fail, hang or vanish are replaced.

    Args:
        calls: waits for them.
        config: of the run.
        shares: environments of each.
        make: makes the n-th actor.
        weights: returns a reference to weights that are there.
    Attributes:
        losses: what failures have cost, by name.
        news: sentences for the user, oldest first.
    """

    def __init__(
        self,
        calls: Calls,
        config: Config,
        shares: Sequence[int],
        make: Callable[[int], Any],
        weights: Callable[[], Any],
    ) -> None:
        self._calls, self._make, self._weights = calls, make, weights
        self._length = config.algorithm.batch_steps
        self._limits, self._pipeline = config.placement, config.pipeline
        self._session = 0
        self._tends = False
        self._seconds: deque[float] = deque(maxlen=100)
        self._room = Room(calls)
        self._unasked: list[tuple[Slot, int]] = []  # they found no room
        self._oldest = math.inf  # version that any actor has acted with
        self._seen: set[str] = set()
        self._trace = ""  # of the newest failure that had one
        self._launched: tuple[Any, int] | None = None
        self.losses: Counter[str] = Counter()
        self.news: list[str] = []
        self._slots: list[Slot] = []
        for number, share in enumerate(shares):
            actor, now = make(number), time.monotonic()
            self._slots.append(Slot(number, actor, actor.ready.remote(), share, now))

    @property
    def live(self) -> list[Any]:
        """Handles of the actors that are not given up."""
        return [slot.actor for slot in self._live]

    @property
    def is_complete(self) -> bool:
        """Whether every actor is there and has made its environments."""
        return all(slot.is_ready for slot in self._slots)

    @property
    def versions(self) -> list[int]:
        """Version of the weights that each actor's newest rollout acted with."""
        return [slot.version for slot in self._slots]

    def wait_until_ready(self) -> None:
        """Return when every actor has made its environments; mend what fails."""
        for slot in self._slots:
            while slot.actor is not None and not self._is_ready(slot):
                self._pause([slot.ready])

    def restart(self, session: int) -> None:
        """Begin with other episodes than in other sessions of the run."""
        self._session = session
        for slot in self._live:
            slot.actor.restart.remote(session)

    def restore(self, states: Sequence[Any], session: int) -> int:
        """Go on from the actors' states; return how many games that has cost."""
        self._session, dropped = session, 0
        calls = [
            (slot, slot.actor.restore.remote(state))
            for slot, state in zip(self._slots, states, strict=True)
            if slot.actor is not None
        ]
        until = time.monotonic() + self._start_seconds
        for slot, call in calls:
            try:
                dropped += self._calls.get(call, max(0.0, until - time.monotonic()))
            except (LateError, self._calls.ray.exceptions.RayError):
                self._fail(slot, "could not go on from its state")
                dropped += slot.n_envs
        return dropped

    def heads(self) -> list[Any]:
        """Return references to what each actor is busy with."""
        if self._tends:
            return []
        return [slot.calls[0].report for slot in self._live if slot.calls]

    def launch(self, weights: Any, env_steps: int) -> None:
        """Ask every actor for rollouts, until --policy-lag are ahead of the next."""
        self._launched = weights, env_steps
        for slot in self._ready:
            while len(slot.calls) + len(slot.finished) <= self._pipeline.policy_lag:
                self._ask(slot, weights, env_steps)

    def round(self) -> list[Rollout]:
        """Wait for one rollout of each actor, or for those before the deadline.

        A replacement that is still starting is waited for only when nobody else acts.
        """
        deadline = time.monotonic() + (self._pipeline.round_deadline or math.inf)
        while True:
            self.tend()
            late = [slot for slot in self._live if slot.calls and not slot.finished]
            taken = [slot for slot in self._slots if slot.finished]
            if taken and (not late or time.monotonic() > deadline):
                return [slot.finished.popleft() for slot in taken]
            if not late and self._ready and self._launched is not None:
                self.launch(*self._launched)
                continue
            self._pause([slot.calls[0].report for slot in late] or self._starting)

    def newest(self, count: int, env_steps: int) -> list[Rollout]:
        """Let all run free; wait until `count` rollouts are there, and take them."""
        while True:
            self.tend(env_steps)
            there = [slot for slot in self._slots for _ in slot.finished]
            if there and len(there) >= min(count, len(self._ready)):
                return [slot.finished.popleft() for slot in there]
            self._pause([*self.heads(), *self._starting])

    def tend(self, env_steps: int | None = None) -> None:
        """Take what has ended and mend what failed.

        Args:
            env_steps: of the run, to ask free actors for more rollouts; None asks
                for nothing.
        """
        if self._tends:
            return  # a wait for a new learner came back here
        self._tends = True
        try:
            self._tend(env_steps)
        finally:
            self._tends = False

    def _tend(self, env_steps: int | None) -> None:
        self._look_for_started()
        heads = {s.calls[0].report: s for s in self._live if s.calls}
        there = set(self._calls.are_there(list(heads), 0)) if heads else set()
        for report, slot in heads.items():
            if report in there:
                self._settle(slot)
            elif self._is_late(slot):
                self._fail(slot, "hangs (see --actor-timeout)")
        if self._unasked:
            self._ask_again()
        if env_steps is not None:
            for slot in self._ready:
                room = self._pipeline.policy_lag - len(slot.finished)
                if not slot.calls and room >= 0:
                    self._ask(slot, self._weights(), env_steps)
        self._look_for_stale()

    def _settle(self, slot: Slot) -> None:
        """Take the oldest call of an actor, which has ended."""
        call = slot.calls[0]
        errors = self._calls.ray.exceptions
        try:
            report = self._calls.value(call.report)
        except errors.RayTaskError as error:
            if self._calls.is_argument(error):  # its weights died with the learner
                slot.calls.popleft()
                self._ask(slot, self._weights(), call.env_steps)
            elif self._calls.is_full(error):
                slot.calls.popleft()
                self._unasked.append((slot, call.env_steps))
            else:
                self._fail(slot, "failed", traceback_of(error))
        except errors.RayError as error:
            self._fail(slot, "died", traceback_of(error))
        else:
            self._room.found()
            slot.calls.popleft()
            slot.finished.append(Rollout(call.trajectory, report))
            slot.failures, slot.version = 0, report.weights_version
            if report.episodes:
                slot.errors.clear()
            slot.alive_at, slot.is_stale = time.monotonic(), False
            self._oldest = min(self._oldest, report.weights_version)
            # A slow network is part of it: what is slow is not hanging.
            observed = time.monotonic() - call.began if call.began else 0.0
            self._seconds.append(max(report.seconds, observed))

    def _ask_again(self) -> None:
        """Ask for what found the object store full, after a pause."""
        unasked, self._unasked = self._unasked, []
        self.losses["calls without room in the object store"] += len(unasked)
        self.news += self._room.wait()
        for slot, env_steps in unasked:
            if slot.actor is not None:
                self._ask(slot, self._weights(), env_steps)

    def _fail(self, slot: Slot, what: str, trace: str = "") -> None:
        """Replace an actor, or give it up."""
        self._calls.kill(slot.actor)
        slot.failures += 1
        self.losses["env actors"] += 1
        self.losses["rollouts"] += bool(slot.calls)
        slot.calls.clear()
        if trace:
            self._keep_trace(slot, trace)
        if slot.failures > self._limits.max_actor_restarts:
            self._give_up(slot, f"{what}, {_times(slot.failures)} in a row")
            return
        ((place, count),) = slot.errors.most_common(1) or [("", 0)]
        if count > self._limits.max_actor_restarts:
            without = "without a finished episode in between"
            self._give_up(slot, f"{what} at {place}, {_times(count)} {without}")
            return
        self.news.append(f"Env actor {slot.number} {what}; it is replaced")
        slot.replaced += 1
        slot.alive_at = time.monotonic()
        slot.is_ready = slot.is_overdue = False
        slot.actor = self._make(slot.number)
        slot.actor.restart.remote(self._session + _SESSIONS * slot.replaced)
        slot.ready = slot.actor.ready.remote()

    def _keep_trace(self, slot: Slot, trace: str) -> None:
        """Count an error of an environment; show it the first time."""
        self._trace = trace
        slot.errors[place_of(trace)] += 1
        last = trace.rpartition("\n")[2]
        if last not in self._seen:
            self._seen.add(last)
            self.news.append(trace)

    def _give_up(self, slot: Slot, what: str) -> None:
        slot.actor, slot.is_ready = None, False
        if not self._has_prospects:
            raise Broken(
                f"No env actor is left: the last one {what}; fix the environment, or "
                "raise --max-actor-restarts.",
                self._trace,
            )
        self.losses["environments"] += slot.n_envs
        self.news.append(
            f"Env actor {slot.number} {what}, and is given up with its "
            f"{slot.n_envs} environments; the others go on"
        )

    def _look_for_started(self) -> None:
        """Take replacements that are ready, and report those that are not in time."""
        starting = [slot for slot in self._live if not slot.is_ready]
        if not starting:
            return
        there = self._calls.are_there([slot.ready for slot in starting], 0)
        for slot in starting:
            waited = time.monotonic() - slot.alive_at
            if slot.ready in there:
                self._take_started(slot)
            elif waited > self._start_seconds and not slot.is_overdue:
                self._report_overdue(slot)

    def _take_started(self, slot: Slot) -> None:
        try:
            self._calls.value(slot.ready)
        except (UserError, self._calls.ray.exceptions.RayError) as error:
            self._fail(slot, "could not start", traceback_of(error))
            return
        if slot.is_overdue:
            self.news.append(
                f"Env actor {slot.number} has started; its {slot.n_envs} environments "
                "are back"
            )
        slot.is_ready, slot.is_overdue = True, False
        slot.alive_at = time.monotonic()

    def _report_overdue(self, slot: Slot) -> None:
        """Say that training goes on without an actor; Broken when no other is left."""
        slot.is_overdue = True
        late = f"did not start within {self._start_seconds:.0f} s"
        why = "the cluster may lack free cores or memory, see `ray status`"
        if not self._has_prospects:
            raise Broken(
                f"No env actor is left: replacements {late}; {why}.", self._trace
            )
        self.news.append(
            f"Env actor {slot.number} {late}: {why}; training goes on without its "
            f"{slot.n_envs} environments until it does"
        )

    def _ask(self, slot: Slot, weights: Any, env_steps: int) -> None:
        rollout = slot.actor.rollout.options(num_returns=2)
        references = rollout.remote(weights, self._length, env_steps)
        slot.calls.append(Call(weights, env_steps, *references))

    @property
    def _live(self) -> list[Slot]:
        return [slot for slot in self._slots if slot.actor is not None]

    @property
    def _ready(self) -> list[Slot]:
        return [slot for slot in self._slots if slot.is_ready]

    @property
    def _has_prospects(self) -> bool:
        """Whether an actor is ready, or may be in time."""
        return any(not slot.is_overdue for slot in self._live)

    @property
    def _starting(self) -> list[Any]:
        """References that are there once replacements have started."""
        return [slot.ready for slot in self._live if not slot.is_ready]

    @property
    def _timeout(self) -> float:
        """Seconds that a rollout may take."""
        given = self._limits.actor_timeout
        if given is not None:
            return given
        if not self._seconds:  # nobody knows yet how long one takes
            return _MEDIANS * _TIMEOUT
        return max(_TIMEOUT, _MEDIANS * statistics.median(self._seconds))

    def _is_late(self, slot: Slot) -> bool:
        """Return whether an actor is busy for too long with a call it could begin."""
        call, now = slot.calls[0], time.monotonic()
        if call.began is None:
            if self._calls.are_there([call.weights], 0):
                call.began = now
            return False
        return now - call.began > self._timeout

    def _is_ready(self, slot: Slot) -> bool:
        """Return whether an actor is; replace it when it failed or takes too long."""
        errors = self._calls.ray.exceptions
        if self._calls.are_there([slot.ready], 0):
            try:
                self._calls.value(slot.ready)
                slot.is_ready = True
                return True
            except errors.RayError as error:
                trace = traceback_of(error)
                found = _USER_ERROR.search(trace)
                if found is not None:
                    raise UserError(trace[found.end() :]) from None
                self._fail(slot, "could not start", trace)
        elif time.monotonic() - slot.alive_at > self._start_seconds:
            raise Broken(
                f"Ray started no env actor within {self._start_seconds:.0f} s: the "
                "cluster lacks free cores, see `ray status`."
            )
        return False

    @property
    def _start_seconds(self) -> float:
        return START_SECONDS + 5 * len(self._slots)

    def _look_for_stale(self) -> None:
        """Tell of an actor whose version stands still while others advance."""
        newest = max((slot.version for slot in self._live), default=0)
        bound = max(5, 2 * self._pipeline.policy_lag)
        for slot in self._ready:
            still = time.monotonic() - slot.alive_at > _STALE_SECONDS
            # A resumed run's versions go on; one that is yet to act is not behind them.
            behind = newest - max(slot.version, self._oldest)
            if still and behind > bound and not slot.is_stale:
                slot.is_stale = True
                self.news.append(
                    f"Env actor {slot.number} stands still at weights version "
                    f"{slot.version} while others are at {newest}; lower "
                    "--actor-timeout to have it replaced"
                )

    def _pause(self, references: Sequence[Any]) -> None:
        """Wait a little; Stopped when a signal asks for it."""
        self._calls.are_there(references, _POLL_SECONDS)
        if self._calls.is_pressing():
            raise Stopped


def _times(count: int) -> str:
    return f"{count} time{'s' * (count > 1)}"
