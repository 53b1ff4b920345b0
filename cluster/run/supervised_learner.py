"""The learner of a run: its learning phases, and its recovery after a failure."""

import time
from collections import deque
from collections.abc import Callable
from typing import Any, NoReturn

from xagents_ray.cluster.ray.calls import LateError, RayCalls
from xagents_ray.cluster.ray.store_backoff import StoreBackoff
from xagents_ray.cluster.run.last_snapshot import LastSnapshot
from xagents_ray.cluster.run.learner_start import (
    COMPILING_SECONDS,
    START_SECONDS,
    LearnerStart,
    learner_failure,
)
from xagents_ray.cluster.run.phases import RequestedPhase
from xagents_ray.core.errors import Broken, Stopped, UserError
from xagents_ray.core.trajectory import VERSION, Array, PhaseOutputs

_PING_SECONDS = 10.0
_SILENT_SECONDS = 90.0
_ARGUMENT_SECONDS = 120.0
"""Time limit for the replay to sample the data of a phase."""
_CALL_SECONDS = 3_600.0
"""Limit of a call and pending phases, or ten times the longest phase if more."""
_FAILURES = 3


class SupervisedLearner:
    """A learner that is restored from its last snapshot when it dies.

    Args:
        calls: Ray calls that wait for the learner.
        make: function that creates the actor.
        patience: seconds for which a phase may continue after a signal.
        timeout: seconds for a replacement to be placed and to start.
    Attributes:
        actor: handle of the learner.
        weights: reference to the newest weights, which may not be ready yet.
        version: version of the newest weights; each requested phase gets the next one.
        threads: number of cores that the learner uses; 0 before it is ready.
        notes: notes for the user on the initial weights.
        snapshot: the newest state of the learner in this process.
    """

    def __init__(
        self, calls: RayCalls, make: Callable[[], Any], patience: float, timeout: float
    ) -> None:
        self._calls, self._log = calls, calls.log
        self._make, self._patience = make, patience
        self._start = LearnerStart(calls, timeout)
        self.threads = self._requested = self._failures = 0
        self._phases: deque[RequestedPhase] = deque()
        self.notes, self._finished = list[str](), list[dict[str, float]]()
        self._priority_updates: list[Any] = []
        self._longest, self._is_abandoned = 0.0, False
        self._backoff, self.snapshot = StoreBackoff(calls), LastSnapshot(calls)
        self.actor = make()
        self._started = self.actor.start.remote()
        self.version = 1
        self.weights = self._available = self.actor.weights.remote(self.version)

    @property
    def is_missing(self) -> bool:
        """Whether a lost learner is not replaced, or a busy one not waited for."""
        return self._start.is_pending or self._is_abandoned

    def wait_until_ready(self) -> None:
        """Wait until the learner has its initial weights."""
        try:
            self.threads, self.notes = self._get(self._started, limit=START_SECONDS)
            self.snapshot.keep(self._get(self.actor.state.remote()), 0)
        except self._calls.ray.exceptions.RayError as error:
            if not self._calls.is_death(error):
                raise learner_failure(error) from None
            raise Broken(
                "Ray could not start the learner: the cluster lacks free cores or "
                "memory, see `ray status`."
            ) from None

    def restore(self, arrays: dict[str, Array]) -> None:
        """Resume a new learner from a state."""
        self.snapshot.keep(arrays, 0)
        self.snapshot.restart()
        self.call("restore", self.snapshot.arrays)
        self._publish_restored()

    def learn(self, phase: RequestedPhase) -> None:
        """Request a phase; the weights after it get the next version."""
        self.snapshot.refresh(self.actor, self._requested)
        self._draw(phase)
        self._phases.append(phase)
        self._request(phase)

    def finish(self, leave_pending: int = 0) -> list[dict[str, float]]:
        """Wait for all phases but the newest `leave_pending`; return their metrics."""
        self._wait_for_phases(leave_pending)
        finished, self._finished = self._finished, []
        return finished

    def priority_updates(self) -> list[Any]:
        """Wait for all phases; return references to their priority updates."""
        self._wait_for_phases()
        updates, self._priority_updates = self._priority_updates, []
        return updates

    def call(self, method: str, *arguments: Any) -> Any:
        """Return the result of a short call; repeat it if the learner is replaced."""
        while True:
            actor = self.actor
            try:
                call = getattr(actor, method).remote(*arguments)
                return self._get(call, patience=self._patience)
            except self._calls.ray.exceptions.RayError as error:
                if self._calls.is_full(error):
                    self._backoff.wait(calls=1)
                else:
                    self._recover(actor, error)

    def state(self) -> dict[str, Array]:
        """Return the learner's state, or the last snapshot if the learner is broken."""
        try:
            self._wait_for_phases()  # else recovery would repeat them
            self.snapshot.keep(self.call("state"), self._requested)
        except (Broken, MemoryError) as error:
            self._log.warn(str(error))
        return self.snapshot.arrays

    def report_loss(self) -> None:
        """Count the death of the learner; raise Broken after too many.

        The newest copy of its state becomes the snapshot.
        """
        self.snapshot.collect()
        is_ending, lost = self._calls.is_ending, self.snapshot.newer_updates
        self._is_abandoned = is_ending
        if not is_ending:
            self._count_failure("Its process died")
        self._log.count("learners")
        self._log.count("updates", lost)
        now = "not replaced" if is_ending else "restored from its last snapshot"
        self._log.warn(f"The learner died; it is {now}, {lost} updates are lost")

    def available_weights(self, lost: Any = None) -> Any:
        """Return available weights; publish those again that a call lacked, `lost`."""
        if lost == self._available:
            self.call("ping")  # replaces a dead learner
            if lost == self._available:
                self._publish()
        return self._available

    def _wait_for_phases(self, leave_pending: int = 0) -> None:
        try:
            while len(self._phases) > leave_pending:
                self._wait_for_oldest()
        except (Broken, MemoryError, UserError):
            self._phases.clear()  # earlier results can be saved
            raise
        except Stopped:
            if self._phases and self._longest:  # the learner is alive and busy
                raise
            self._phases.clear()  # the first is being compiled, and nothing was learned
            self._is_abandoned = True

    def _wait_for_oldest(self) -> None:
        phase, actor = self._phases[0], self.actor
        try:
            metrics = self._metrics_of(phase)
        except self._calls.ray.exceptions.RayError as error:
            if self._calls.is_argument(error):
                self._count_failure("Parts of its batch were lost")
                self._log.count("batches with lost parts")
                self._repeat_oldest()
            elif self._calls.is_full(error):
                self._backoff.wait(calls=1)
                self._repeat_oldest()
            else:
                self._recover(actor, error)
        else:
            self._phases.popleft()
            self._finished.append(metrics)

    def _metrics_of(self, phase: RequestedPhase) -> dict[str, float]:
        """Wait for a phase; a signal ends it after its current pass."""
        if not phase.references:
            return {"updates": 0}
        try:
            metrics: dict[str, float] = self._get(phase.metrics, phase=phase)
        except Stopped:
            self.actor.stop.options(concurrency_group="control").remote()
            patience = self._patience if self._longest else COMPILING_SECONDS
            metrics = self._get(phase.metrics, patience=patience)
        self._backoff.reset()
        self._available, self._failures = phase.weights, 0
        if phase.takes_errors:
            self._priority_updates.append(phase.priorities)
        self._longest = max(self._longest, metrics["seconds"])
        self.snapshot.add(phase.number, int(metrics["updates"]))
        return metrics

    def _get(
        self,
        reference: Any,
        patience: float = 0.0,
        limit: float | None = None,
        phase: RequestedPhase | None = None,
    ) -> Any:
        """Wait for a call; kill a learner that is silent or takes too long.

        The limit applies even if the learner answers pings; None is that of a phase.
        """
        began = heard = time.monotonic()
        limit = limit or max(_CALL_SECONDS, 10 * self._longest)
        while True:
            try:
                return self._calls.get(reference, _PING_SECONDS, patience)
            except LateError:
                if self._start.is_pending:
                    self._start.check()
                    began = heard = time.monotonic()
                    continue
                waited = time.monotonic() - began
                if phase is not None and waited > _ARGUMENT_SECONDS:
                    ready = self._calls.ready(phase.references, 0)
                    missing = [r for r in phase.references if r not in ready]
                    phase.data.end_late(missing)
                ping = self.actor.ping.options(concurrency_group="control").remote()
                if self._calls.ready([ping], _PING_SECONDS):
                    heard = time.monotonic()
                if waited > limit:
                    busy = f"The learner was busy with one call for {waited:.0f} s"
                    self._log.warn(f"{busy}; it is ended")
                if waited > limit or time.monotonic() - heard > _SILENT_SECONDS:
                    self._calls.kill(self.actor)

    def _repeat_oldest(self) -> None:
        """Request the oldest phase again, as the newest, without its lost data."""
        phase = self._phases[0]
        self._draw(phase)
        self._phases.popleft()
        learned = [each.weights for each in self._phases if each.references]
        self.weights = [self._available, *learned][-1]
        self._phases.append(phase)
        self._request(phase)

    def _draw(self, phase: RequestedPhase) -> None:
        """Sample the data of a phase, and number it as the newest one."""
        self._requested += 1
        phase.number, phase.references = self._requested, phase.data.references()

    def _request(self, phase: RequestedPhase) -> None:
        if phase.references:
            self.version += 1
            count = len(PhaseOutputs._fields)
            outputs = self.actor.update.options(num_returns=count).remote(
                self.version, phase.env_steps, phase.statistics, *phase.references
            )
            phase.metrics, phase.weights, phase.priorities = outputs
            self.weights = phase.weights

    def _count_failure(self, what: str) -> None:
        """Count a failure; raise Broken after too many consecutive ones."""
        self._failures += 1
        if self._failures > _FAILURES:
            times = f"The learner failed {self._failures} times in a row. {what}"
            remedy = "lower the batch or the network, or resume on another machine"
            raise Broken(f"{times}: it may lack memory; {remedy}.")

    def _recover(self, failed: Any, error: BaseException) -> None:
        """Restore a dead learner from its last snapshot, and repeat its phases."""
        if self._calls.is_full(error):
            self._backoff.wait(calls=1)
        elif not self._calls.is_death(error):
            raise learner_failure(error) from None
        if failed is not self.actor:
            return  # a nested wait has already recovered it
        if self._is_abandoned:
            raise Stopped
        self.report_loss()
        self._calls.kill(failed)
        self.snapshot.restart()
        if self._calls.is_ending:
            self._abandon()
        made = self.actor = self._make()
        try:
            # Both at once, so that no call sees the initial weights.
            started = made.start.remote()
            restored = made.restore.remote(self.snapshot.arrays)
            self._start.begin(made)
            self.threads, _ = self._get(started)
            self._get(restored)
        except self._calls.ray.exceptions.RayError as again:
            self._recover(made, again)
            return
        except Stopped:
            self._calls.kill(made)
            self._abandon()
        if made is not self.actor:
            return  # it died again, and a nested wait has recovered it
        self._start.is_pending = False
        self._publish_restored()
        for phase in self._phases:
            self._request(phase)

    def _abandon(self) -> NoReturn:
        """Drop all phases and stop: the run ends with the snapshot."""
        self._is_abandoned = True
        self._phases.clear()
        raise Stopped

    def _publish_restored(self) -> None:
        """Publish a restored learner's weights under the highest version so far."""
        self.version = max(self.version, int(self.snapshot.arrays.get(VERSION, 0)))
        self._publish()

    def _publish(self) -> None:
        """Publish the learner's weights under a new version."""
        self.version += 1
        self.weights = self._available = self.actor.weights.remote(self.version)
