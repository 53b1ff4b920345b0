"""Requests the rollouts of a run from its env actors, and collects them."""

import math
import statistics
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from xagents_ray.cluster.ray.calls import RayCalls, StoreBackoff, remote_traceback
from xagents_ray.cluster.run.actor_pool import ActorPool
from xagents_ray.cluster.run.actor_slot import ActorSlot, FinishedRollout, RolloutCall
from xagents_ray.settings.config import Config

_TIMEOUT = 60.0
"""Time limit of a rollout, or a multiple of the longest or median one if that is more.
A reset may take much longer than the other steps of a rollout."""
_LONGEST, _MEDIANS = 3, 10
_STALE_SECONDS = 30.0


class RolloutScheduler:
    """Requests rollouts from env actors, and replaces those that fail or hang.

    Args:
        calls: Ray calls that wait for the actors.
        config: settings of the run.
        actors: the env actors.
        weights: function that returns a reference to available weights; it gets a
            reference to weights that were lost.
        acting_weights: function that does so after the learner's process failed to act
            for an env actor.
    """

    def __init__(
        self,
        calls: RayCalls,
        config: Config,
        actors: ActorPool,
        weights: Callable[..., Any],
        acting_weights: Callable[[], Any],
    ) -> None:
        self._calls, self._log, self._actors = calls, calls.log, actors
        self._weights, self._acting_weights = weights, acting_weights
        self._length = config.algorithm.batch_steps
        self._timeout, self._pipeline = config.placement.actor_timeout, config.pipeline
        self._takes_one = config.algorithm.learns_each_rollout
        # With more finished rollouts, an asynchronous actor waits.
        self._ahead = 0 if self._takes_one else config.pipeline.ahead
        self._is_tending = False
        self._error: Exception | None = None  # the next `tend` raises it
        self._seconds: deque[float] = deque(maxlen=100)  # of the newest rollouts
        self._longest = 0.0
        self._backoff = StoreBackoff(calls)
        self._deferred: list[tuple[ActorSlot, int]] = []  # as the store was full
        self._oldest_version = math.inf  # of all rollouts so far
        self._launched: tuple[Any, int] | None = None

    @property
    def versions(self) -> list[int]:
        """Version of the weights of each actor's newest rollout."""
        return [slot.version for slot in self._actors.slots]

    def heads(self) -> list[Any]:
        """Return a reference to the oldest pending report of each actor."""
        if self._is_tending or self._error is not None:
            return []
        return [slot.calls[0].report for slot in self._busy]

    def launch(self, weights: Any, env_steps: int) -> None:
        """Request rollouts from every actor, up to --policy-lag ahead of the next."""
        self._launched = weights, env_steps
        for slot in filter(self._actors.takes_requests, self._actors.ready):
            while len(slot.calls) + len(slot.finished) <= self._pipeline.policy_lag:
                self._request(slot, weights, env_steps)

    def round(self) -> list[FinishedRollout]:
        """Wait for one rollout of each actor, or until the deadline.

        Wait for replacements that are still starting only if no actor is ready.
        """
        deadline = time.monotonic() + (self._pipeline.round_deadline or math.inf)
        while True:
            self.tend()
            late = [slot for slot in self._busy if not slot.finished]
            taken = [slot for slot in self._actors.slots if slot.finished]
            if taken and (not late or time.monotonic() >= deadline):
                return [slot.finished.popleft() for slot in taken]
            if not late and self._actors.ready and self._launched is not None:
                self.launch(*self._launched)
            else:
                reports = [slot.calls[0].report for slot in late]
                left = deadline - time.monotonic() if taken else math.inf
                self._actors.pause(reports or self._actors.starting, left)

    def newest(self, count: int, env_steps: int) -> list[FinishedRollout]:
        """Run all actors asynchronously; wait for `count` rollouts, then return all.

        If each rollout is a separate update, return only the oldest one.
        """
        while True:
            self.tend(env_steps)
            finished = [slot for slot in self._actors.slots for _ in slot.finished]
            if finished and len(finished) >= min(count, len(self._actors.ready)):
                if self._takes_one:
                    finished = [min(finished, key=_oldest)]
                return [slot.finished.popleft() for slot in finished]
            self._actors.pause([*self.heads(), *self._actors.starting])

    def tend(self, env_steps: int | None = None) -> None:
        """Collect finished rollouts, and replace actors that failed.

        Args:
            env_steps: env steps of the run, for new requests to idle actors; None
                requests nothing.
        Raises:
            Diverged, UserError, Broken: an actor raised an error that ends the run.
            Stopped: a shutdown was requested.
        """
        self.tend_beside(env_steps)
        if self._error is not None:
            raise self._error

    def tend_beside(self, env_steps: int | None) -> None:
        """Tend while waiting for something else; the next `tend` raises errors."""
        if self._is_tending or self._error is not None:
            return  # nested call while a learner is restored or a run is saved
        self._is_tending = True
        try:
            self._tend(env_steps)
        except Exception as error:
            self._error = error
        finally:
            self._is_tending = False

    def _tend(self, env_steps: int | None) -> None:
        self._actors.check_starting()
        limit = self._limit()
        heads = {slot.calls[0].report: slot for slot in self._busy}
        ready = set(self._calls.ready(list(heads), 0)) if heads else set()
        for report, slot in heads.items():
            if report in ready:
                self._collect(slot)
            elif (late := self._seconds_if_late(slot, limit)) is not None:
                what = f"took longer than {late:.0f} s for a rollout"
                self._actors.fail(slot, f"{what} (see --actor-timeout)")
        if self._deferred:
            self._request_deferred()
        if env_steps is not None:
            for slot in filter(self._actors.takes_requests, self._actors.ready):
                if not slot.calls and len(slot.finished) <= self._ahead:
                    self._request(slot, self._weights(), env_steps)
        self._warn_of_stale()

    def _collect(self, slot: ActorSlot) -> None:
        """Take the result of an actor's oldest call."""
        call = slot.calls[0]
        errors = self._calls.ray.exceptions
        try:
            report = self._calls.value(call.report)
        except errors.RayTaskError as error:
            if self._calls.is_argument(error):  # its weights were lost with the learner
                slot.calls.popleft()
                self._request(slot, self._weights(call.weights), call.env_steps)
            elif self._calls.is_full(error):
                slot.calls.popleft()
                self._deferred.append((slot, call.env_steps))
            elif self._calls.is_inference(error):  # its environments continue
                slot.calls.popleft()
                self._log.count("rollouts")
                self._request(slot, self._acting_weights(), call.env_steps)
            else:
                self._actors.fail(slot, "failed", remote_traceback(error))
        except errors.RayError as error:
            self._actors.fail(slot, "died", remote_traceback(error))
        else:
            self._backoff.reset()
            slot.calls.popleft()
            slot.finished.append(FinishedRollout(call.trajectory, report))
            slot.failures, slot.version = 0, report.weights_version
            slot.has_finished = True
            if report.episodes:
                slot.errors.clear()
            slot.alive_at, slot.is_stale = time.monotonic(), False
            self._oldest_version = min(self._oldest_version, report.weights_version)
            seconds = report.seconds
            if call.began is not None:  # an actor behind a slow network doesn't hang
                seconds = max(seconds, time.monotonic() - call.began)
            self._seconds.append(seconds)
            self._longest = max(self._longest, self._seconds[-1])

    def _request_deferred(self) -> None:
        """After a pause, repeat requests that failed due to a full object store."""
        deferred, self._deferred = self._deferred, []
        self._log.count("calls without room in the object store", len(deferred))
        self._backoff.wait()
        for slot, env_steps in deferred:
            if slot.actor is not None:
                self._request(slot, self._weights(), env_steps)

    def _request(self, slot: ActorSlot, weights: Any, env_steps: int) -> None:
        rollout = slot.actor.rollout.options(num_returns=2)
        references = rollout.remote(weights, self._length, env_steps)
        slot.calls.append(RolloutCall(weights, env_steps, *references))

    @property
    def _busy(self) -> list[ActorSlot]:
        return [slot for slot in self._actors.live if slot.calls]

    def _limit(self) -> float:
        """Return the time limit of a rollout that is not an actor's first one."""
        if self._timeout is not None:
            return self._timeout
        median = statistics.median(self._seconds or [_TIMEOUT])
        return max(_TIMEOUT, _LONGEST * self._longest, _MEDIANS * median)

    def _seconds_if_late(self, slot: ActorSlot, limit: float) -> float | None:
        """Return the exceeded limit of a rollout, counted once its weights are ready.

        An actor's first rollout has the limit that it has at the start of a run.
        """
        call, now = slot.calls[0], time.monotonic()
        if call.began is None:
            if self._calls.ready([call.weights], 0):
                call.began = now
            return None
        if self._timeout is None and not slot.has_finished:
            limit = max(limit, _MEDIANS * _TIMEOUT)
        return limit if now - call.began > limit else None

    def _warn_of_stale(self) -> None:
        """Warn of an actor whose weights version doesn't advance with the others."""
        newest = max(self.versions)
        bound = max(5, 2 * self._pipeline.policy_lag)
        for slot in self._actors.ready:
            idle = time.monotonic() - slot.alive_at > _STALE_SECONDS
            # Versions of a resumed run start high; an actor without a rollout is not
            # behind.
            behind = newest - max(slot.version, self._oldest_version)
            if idle and behind > bound and not slot.is_stale:
                slot.is_stale = True
                self._log.warn(
                    f"Env actor {slot.number} is stuck at weights version "
                    f"{slot.version} while others are at {newest}; lower "
                    "--actor-timeout to have it replaced"
                )


def _oldest(slot: ActorSlot) -> int:
    """Return the weights version of an actor's oldest finished rollout."""
    version: int = slot.finished[0].report.weights_version
    return version
