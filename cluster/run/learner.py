"""The learner of a run: its phases, and its return from its last snapshot."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from xagents_ray.cluster.ray.calls import (
    Calls,
    LateError,
    StoreBackoff,
    traceback_of,
)
from xagents_ray.cluster.ray.failures import FailureLog
from xagents_ray.core.errors import Broken, Stopped
from xagents_ray.core.moments import Statistics
from xagents_ray.core.trajectory import VERSION, Array

_SNAPSHOT_SECONDS = 2.0
_PING_SECONDS = 10.0
_SILENT_SECONDS = 90.0
_ARGUMENT_SECONDS = 120.0
"""In which the replay must have drawn what a phase learns from."""
_START_SECONDS = 600.0
_CALL_SECONDS = 3_600.0
"""Of a call, the learning phases before it included."""
_LONGEST = 10
"""A call may also take that many times as long as the longest phase so far."""
_FAILURES = 3


@dataclass
class Phase:
    """A learning phase that was asked for.

    Attributes:
        batch: returns references to what is learnt; asked again when some are lost.
        end_late: ends the processes that don't give these references.
        env_steps: of the run, after the batch was collected.
        statistics: of the steps since the phase before.
        number: from 1, in the order in which they were asked for.
        references: what `batch` returned; nothing is learnt from none.
        metrics: reference to what the phase gives.
        weights: reference to the weights after it.
    """

    batch: Callable[[], Sequence[Any]]
    env_steps: int
    statistics: Statistics
    end_late: Callable[[Sequence[Any]], None]
    number: int = 0
    references: Sequence[Any] = ()
    metrics: Any = None
    weights: Any = None


class SupervisedLearner:
    """A learner that comes back from its last snapshot when it dies.

    Args:
        calls: waits for it.
        log: counts and reports failures.
        make: makes the actor.
        patience: seconds that a phase may go on after a signal.
    Attributes:
        actor: handle of the learner.
        weights: reference to the newest ones; they may still be learnt.
        there: reference to the newest ones that are there.
        version: of the newest ones; each phase that is asked for has the next one.
        threads: cores that it uses; 0 before it is ready.
        notes: what the user should know of the first weights.
    """

    def __init__(
        self,
        calls: Calls,
        log: FailureLog,
        make: Callable[[], Any],
        patience: float,
    ) -> None:
        self._calls, self._log = calls, log
        self._make, self._patience = make, patience
        self.threads = 0
        self.notes: list[str] = []
        self._phases: deque[Phase] = deque()
        self._asked = self._failures = self._covered = 0
        self._finished: list[dict[str, float]] = []
        self._backoff = StoreBackoff(calls, log)
        self._longest = 0.0
        self._since: deque[tuple[int, int]] = deque()  # (phase, updates), no snapshot
        self._snapshot: dict[str, Array] = {}
        self._wanted: tuple[Any, int] | None = None
        self._wanted_at = 0.0
        self.actor = make()
        self._started = self.actor.start.remote()
        self.version = 1
        self.weights = self.there = self.actor.weights.remote(self.version)

    @property
    def held(self) -> dict[str, Array]:
        """The newest state of the learner that this process has itself."""
        return self._snapshot

    def wait_until_ready(self) -> None:
        """Return when it has its first weights."""
        try:
            self.threads, self.notes = self._get(self._started, limit=_START_SECONDS)
            self._snapshot = self._get(self.actor.state.remote())
        except self._calls.ray.exceptions.RayError as error:
            if not self._calls.is_death(error):
                raise Broken(f"The learner failed:\n{traceback_of(error)}") from None
            raise Broken(
                "Ray could start no learner: the cluster lacks free cores or memory, "
                "see `ray status`."
            ) from None

    def restore(self, arrays: dict[str, Array]) -> None:
        """Go on from a state."""
        self._snapshot, self._wanted = arrays, None
        self._take()

    def learn(self, phase: Phase) -> None:
        """Ask for a phase; the weights after it have the next version."""
        if time.monotonic() - self._wanted_at > _SNAPSHOT_SECONDS:
            self._want_snapshot()
        self._asked += 1
        phase.number, phase.references = self._asked, phase.batch()
        self._phases.append(phase)
        self._ask(phase)

    def finish(self, but: int = 0) -> list[dict[str, float]]:
        """Wait for all phases but the newest few; return their metrics."""
        self._wait_for_phases(but)
        finished, self._finished = self._finished, []
        return finished

    def call(self, method: str, *arguments: Any) -> Any:
        """Return what a short method gives, from a new learner if this one dies."""
        while True:
            actor = self.actor
            try:
                call = getattr(actor, method).remote(*arguments)
                return self._get(call, patience=self._patience)
            except self._calls.ray.exceptions.RayError as error:
                if self._calls.is_full(error):
                    self._wait_for_room()
                else:
                    self._return(actor, error)

    def state(self) -> dict[str, Array]:
        """Return the learner's state, or the last snapshot when it can't go on."""
        try:
            self._wait_for_phases()  # a snapshot after them must not lead to them again
            self._keep(self.call("state"), self._asked)
        except Broken as error:
            self._log.warn(str(error))
        return self._snapshot

    def available_weights(self) -> Any:
        """Return a reference to weights that are ready; publish lost ones again."""
        if self._calls.failed(self.there):
            self.call("ping")  # a dead learner is brought back
            if self._calls.failed(self.there):
                self.version += 1
                self.weights = self.there = self.actor.weights.remote(self.version)
        return self.there

    def _wait_for_phases(self, but: int = 0) -> None:
        while len(self._phases) > but:
            self._wait_for_oldest()

    def _wait_for_oldest(self) -> None:
        """Keep the metrics of the oldest phase, or ask for it again."""
        phase, actor = self._phases[0], self.actor
        metrics: dict[str, float] = {"updates": 0}
        try:
            if phase.references:
                metrics = self._patient(phase)
        except self._calls.ray.exceptions.RayError as error:
            if self._calls.is_argument(error):
                self._failed("Parts of its batch were lost")
                self._log.count("batches with lost parts")
                self._ask_again(phase)
            elif self._calls.is_full(error):
                self._wait_for_room()
                self._ask_again(phase)
            else:
                self._return(actor, error)
            return
        self._phases.popleft()
        if phase.references:
            self._backoff.reset()
            self.there, self._failures = phase.weights, 0
            self._longest = max(self._longest, metrics["seconds"])
            if phase.number > self._covered:
                self._since.append((phase.number, int(metrics["updates"])))
        self._finished.append(metrics)

    def _patient(self, phase: Phase) -> dict[str, float]:
        try:
            metrics: dict[str, float] = self._get(phase.metrics, phase=phase)
        except Stopped:
            self.actor.stop.options(concurrency_group="control").remote()
            metrics = self._get(phase.metrics, patience=self._patience)
        return metrics

    def _get(
        self,
        reference: Any,
        patience: float = 0.0,
        limit: float | None = None,
        phase: Phase | None = None,
    ) -> Any:
        """Wait for a call; a learner that is silent, or takes too long, is ended.

        Args:
            reference: to what the call gives.
            patience: see `Calls.get`.
            limit: seconds of the call, whether the learner answers pings or not; None
                for what a phase may take.
            phase: that it learns.
        """
        began = heard = time.monotonic()
        limit = limit or max(_CALL_SECONDS, _LONGEST * self._longest)
        while True:
            try:
                return self._calls.get(reference, _PING_SECONDS, patience)
            except LateError:
                waited = time.monotonic() - began
                if phase is not None and waited > _ARGUMENT_SECONDS:
                    self._end_late(phase)
                ping = self.actor.ping.options(concurrency_group="control").remote()
                if self._calls.ready([ping], _PING_SECONDS):
                    heard = time.monotonic()
                if waited > limit:
                    self._log.warn(
                        f"The learner was busy with one call for {waited:.0f} s; it is "
                        "ended"
                    )
                if waited > limit or time.monotonic() - heard > _SILENT_SECONDS:
                    self._calls.kill(self.actor)

    def _end_late(self, phase: Phase) -> None:
        """End what doesn't give a phase its batch: the phase fails then, not learnt."""
        there = self._calls.ready(phase.references, 0)
        missing = [each for each in phase.references if each not in there]
        if missing:
            phase.end_late(missing)

    def _wait_for_room(self) -> None:
        self._log.count("calls without room in the object store")
        self._backoff.wait()

    def _ask_again(self, phase: Phase) -> None:
        """Ask for the oldest phase again, as the newest, without what is lost of it."""
        self._asked += 1
        phase.number, phase.references = self._asked, phase.batch()
        self._phases.rotate(-1)
        self.weights = self.there
        for each in self._phases:
            if each.references:
                self.weights = each.weights
        self._ask(phase)

    def _failed(self, what: str) -> None:
        """Count a failure; Broken when there are too many in a row."""
        self._failures += 1
        if self._failures > _FAILURES:
            raise Broken(
                f"The learner failed {self._failures} times in a row. {what}: it may "
                "lack memory; lower the batch or the network, or resume on another "
                "machine."
            )

    def _return(self, dead: Any, error: BaseException) -> None:
        """Bring the learner back from its last snapshot, and repeat its phases."""
        if self._calls.is_full(error):
            self._wait_for_room()
        elif not self._calls.is_death(error):
            trace = traceback_of(error) or str(error)
            raise Broken(f"The learner failed:\n{trace}") from None
        if dead is not self.actor:
            return  # a wait within the one that failed has done it
        self._failed("Its process died")
        lost = sum(updates for _, updates in self._since)
        self._log.count("learners")
        self._log.count("updates", lost)
        self._log.warn(
            f"The learner died; it comes back from its last snapshot, {lost} updates "
            "are lost"
        )
        self._calls.kill(dead)
        self._since.clear()
        self._wanted = None
        self.actor = self._make()
        try:
            self.threads, _ = self._get(self.actor.start.remote(), limit=_START_SECONDS)
            self._take()
        except self._calls.ray.exceptions.RayError as again:
            self._return(self.actor, again)
            return
        for phase in self._phases:
            self._ask(phase)

    def _take(self) -> None:
        """Let the learner take the snapshot, and publish above all versions so far."""
        held = int(self._snapshot.get(VERSION, 0))
        self.version = max(self.version, held) + 1
        self._get(self.actor.restore.remote(self._snapshot))
        self.weights = self.there = self.actor.weights.remote(self.version)

    def _ask(self, phase: Phase) -> None:
        if phase.references:
            self.version += 1
            update = self.actor.update.options(num_returns=2)
            facts = self.version, phase.env_steps, phase.statistics
            phase.metrics, phase.weights = update.remote(*facts, *phase.references)
            self.weights = phase.weights

    def _want_snapshot(self) -> None:
        """Keep the snapshot that was asked for last time, and ask for a new one."""
        if self._wanted is not None:
            reference, until = self._wanted
            if not self._calls.ready([reference], 0):
                return  # it is busy
            with suppress(self._calls.ray.exceptions.RayError):
                get = self._calls.ray.get
                self._keep(get(reference, timeout=_PING_SECONDS), until)
        self._wanted = self.actor.state.remote(), self._asked
        self._wanted_at = time.monotonic()

    def _keep(self, snapshot: dict[str, Array], until: int) -> None:
        """Keep a snapshot that was taken after the phases up to a number."""
        self._snapshot, self._covered = snapshot, until
        while self._since and self._since[0][0] <= until:
            self._since.popleft()
