"""Requests the rollouts of a run from its env actors, and collects them."""

import math
import time
from collections.abc import Callable, Iterable
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import Any

from xagents_ray.cluster.ray.calls import RayCalls, remote_traceback
from xagents_ray.cluster.ray.store_backoff import StoreBackoff
from xagents_ray.cluster.run.actor_pool import ActorPool
from xagents_ray.cluster.run.actor_slot import ActorSlot, FinishedRollout, RolloutCall
from xagents_ray.cluster.run.rollout_limits import RolloutLimits
from xagents_ray.settings.config import Config

_STALE_SECONDS = 30.0
_LOOK_SECONDS = 1.0
"""Interval at which all actors are looked at for weights that stay behind."""
_BY_NUMBER = attrgetter("number")


class RolloutScheduler:
    """Requests rollouts from env actors, and replaces those that fail or hang.

    Ray tells of each rollout that has ended; what a wake of the driver costs depends on
    these, and not on the number of actors.

    Args:
        calls: Ray calls that wait for the actors.
        config: settings of the run.
        actors: the env actors.
        weights: function that returns a reference to available weights; it gets a
            reference to weights that were lost.
        acting_weights: function that does so after the learner's process failed to act
            for an env actor.
        check_learner: function that replaces a learner that is dead or hangs.
        at_once: maximum number of rollouts requested of an asynchronous actor at one
            time.
    """

    def __init__(
        self,
        calls: RayCalls,
        config: Config,
        actors: ActorPool,
        weights: Callable[..., Any],
        acting_weights: Callable[[], Any],
        check_learner: Callable[[], Any],
        at_once: int = 1,
    ) -> None:
        self._calls, self._log, self._actors = calls, calls.log, actors
        self._weights, self._acting_weights = weights, acting_weights
        self._check_learner = check_learner
        self._length = config.algorithm.batch_steps
        self._limits = RolloutLimits(calls, config.placement.actor_timeout)
        self._pipeline = config.pipeline
        self._takes_one = config.algorithm.learns_each_rollout
        self._at_once = at_once
        # With more rollouts, in progress or not taken yet, an asynchronous actor waits.
        self._ahead = 0 if self._takes_one else config.pipeline.ahead
        self._is_tending = False
        self._error: Exception | None = None  # the next `tend` raises it
        self._backoff = StoreBackoff(calls)
        self._deferred: list[tuple[ActorSlot, int]] = []  # as the store was full
        self._oldest_version = math.inf  # of all rollouts so far
        self._launched: tuple[Any, int] | None = None
        self._finished: set[ActorSlot] = set()  # slots with rollouts to take
        self._awaited: set[ActorSlot] = set()  # busy slots without any
        self._unasked = {*actors.slots}  # slots that may need a request
        self._looked_at = -math.inf
        ends = accumulate((slot.n_envs for slot in actors.slots), initial=0)
        self._envs = [range(*each) for each in pairwise(ends)]  # of each slot

    @property
    def versions(self) -> list[int]:
        """Version of the weights of each actor's newest rollout."""
        return [slot.version for slot in self._actors.slots]

    def wait_for_starting(self) -> None:
        """Wait until each env actor has started, is overdue or was given up."""
        while any(not (x.is_ready or x.is_overdue) for x in self._actors.live):
            self.tend()
            self._calls.pause()

    def end(self) -> None:
        """End all env actors; drop their rollouts in progress, and those not taken."""
        for slot in self._actors.live:
            self._log.count("rollouts", len(slot.calls) + len(slot.finished))
            slot.calls.clear()
            for actor in (slot.actor, slot.returning):
                self._calls.retire(actor)

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
            is_over = not self._awaited or time.monotonic() >= deadline
            if self._finished and is_over:
                return self._take(self._finished)
            if not self._awaited and self._actors.n_ready and self._launched:
                self.launch(*self._launched)
            else:
                has_some = bool(self._finished)
                self._calls.pause(deadline - time.monotonic() if has_some else math.inf)

    def newest(self, count: int, env_steps: int) -> list[FinishedRollout]:
        """Run all actors asynchronously; wait for `count` rollouts, then return all.

        If each rollout is a separate update, return only the oldest one.
        """
        while True:
            self.tend(env_steps)
            number = sum(len(slot.finished) for slot in self._finished)
            if number and number >= min(count, self._actors.n_ready):
                if self._takes_one:
                    return self._take([min(self._finished, key=_oldest)])
                return self._take(x for x in self._finished for _ in x.finished)
            self._calls.pause()

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
        self._unasked.update(self._actors.check_starting())
        self._collect_ended()
        for slot, limit in self._limits.late():
            what = f"took longer than {limit:.0f} s for a rollout"
            self._fail(slot, f"{what} (see --actor-timeout)")
        if self._limits.lack_weights():
            self._check_learner()
        if self._deferred:
            self._request_deferred()
        if env_steps is not None:
            self._request_more(env_steps)
        self._warn_of_stale()

    def _collect_ended(self) -> None:
        """Take the results of the calls that have ended, in each actor's order."""
        ended = self._calls.bell.ended
        while ended:
            (slot, call), future, ended_at = ended.popleft()
            call.ended, call.ended_at = future, ended_at
            while slot.calls and slot.calls[0].ended is not None:
                self._collect(slot)

    def _collect(self, slot: ActorSlot) -> None:
        """Take the result of an actor's oldest call."""
        call = slot.calls[0]
        errors = self._calls.ray.exceptions
        try:
            report = self._calls.ended(call.ended)
        except errors.RayTaskError as error:
            if self._calls.is_argument(error):  # its weights were lost with the learner
                self._drop_oldest(slot)
                self._request(slot, self._weights(call.weights), call.env_steps)
            elif self._calls.is_full(error):
                self._drop_oldest(slot)
                self._deferred.append((slot, call.env_steps))
            elif self._calls.is_inference(error):  # its environments continue
                self._drop_oldest(slot)
                self._log.count("rollouts")
                self._request(slot, self._acting_weights(), call.env_steps)
            else:
                self._fail(slot, "failed", remote_traceback(error))
        except errors.OutOfMemoryError:
            self._fail(slot, "was ended by Ray, as its node lacks memory")
        except errors.RayError as error:
            self._fail(slot, "died", remote_traceback(error))
        else:
            self._backoff.reset()
            self._log.printed.add(report.printed)
            self._drop_oldest(slot)
            envs = self._envs[slot.number]
            slot.finished.append(FinishedRollout(call.trajectory, report, envs))
            slot.failures, slot.version = 0, report.weights_version
            slot.has_finished = True
            if report.episodes:
                slot.errors.clear()
            slot.alive_at, slot.is_stale = time.monotonic(), False
            self._oldest_version = min(self._oldest_version, report.weights_version)
            self._limits.add(call, report.seconds)
            self._sort(slot)

    def _drop_oldest(self, slot: ActorSlot) -> None:
        """Drop the oldest call of an actor, which has ended."""
        self._limits.end(slot.calls.popleft())
        if slot.calls:
            self._limits.begin(slot)
        self._sort(slot)

    def _fail(self, slot: ActorSlot, what: str, trace: str = "") -> None:
        """Replace an actor that failed, or give it up; see `ActorPool.fail`."""
        if slot.calls:
            self._limits.end(slot.calls[0])
        try:
            self._actors.fail(slot, what, trace)
        finally:
            self._sort(slot)

    def _sort(self, slot: ActorSlot) -> None:
        """Note whether a slot has rollouts to take, or is awaited."""
        for slots, belongs in (
            (self._finished, bool(slot.finished)),
            (self._awaited, bool(slot.calls) and not slot.finished),
            (self._unasked, len(slot.calls) < self._at_once),
        ):
            (slots.add if belongs else slots.discard)(slot)

    def _take(self, slots: Iterable[ActorSlot]) -> list[FinishedRollout]:
        """Return the oldest rollouts of slots, in the order of the slots' numbers."""
        taken = []
        for slot in sorted(slots, key=_BY_NUMBER):
            taken.append(slot.finished.popleft())
            self._sort(slot)
        return taken

    def _request_more(self, env_steps: int) -> None:
        """Request rollouts of each actor that isn't too far ahead."""
        for slot in sorted(self._unasked, key=_BY_NUMBER):
            while self._is_free(slot):
                self._request(slot, self._weights(), env_steps)
            self._unasked.discard(slot)  # until one of its rollouts ends or is taken

    def _is_free(self, slot: ActorSlot) -> bool:
        """Return whether another rollout may be requested of an asynchronous actor."""
        calls = len(slot.calls)
        is_ahead = calls + len(slot.finished) > self._ahead
        if calls >= self._at_once or is_ahead or not slot.is_ready:
            return False
        return self._actors.takes_requests(slot)

    def _request_deferred(self) -> None:
        """After a pause, repeat requests that failed due to a full object store."""
        deferred, self._deferred = self._deferred, []
        self._backoff.wait(calls=len(deferred))
        for slot, env_steps in deferred:
            if slot.is_ready:  # not for a replacement, whose start may fail
                self._request(slot, self._weights(), env_steps)

    def _request(self, slot: ActorSlot, weights: Any, env_steps: int) -> None:
        rollout = slot.actor.rollout.options(num_returns=2)
        references = rollout.remote(weights, self._length, env_steps)
        call = RolloutCall(weights, env_steps, *references)
        slot.calls.append(call)
        if len(slot.calls) == 1:
            self._limits.begin(slot)
        self._sort(slot)
        self._calls.bell.watch(call.report, (slot, call))

    def _warn_of_stale(self) -> None:
        """Warn of an actor whose weights version doesn't advance with the others."""
        now = time.monotonic()
        if now - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at, newest = now, max(self.versions)
        bound = max(5, 2 * self._pipeline.policy_lag)
        for slot in self._actors.ready:
            idle = now - slot.alive_at > _STALE_SECONDS
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


def _oldest(slot: ActorSlot) -> tuple[int, int]:
    """Return what sorts slots by the weights of their oldest finished rollouts."""
    return slot.finished[0].report.weights_version, slot.number
