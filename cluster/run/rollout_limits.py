"""Finds rollouts that take too long, at a cost that does not grow with their number."""

import statistics
import time
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from typing import Any

from xagents_ray.cluster.ray.calls import RayCalls
from xagents_ray.cluster.run.actor_slot import ActorSlot, RolloutCall

_TIMEOUT = 60.0
"""Time limit of a rollout, or a multiple of the longest or median one if that is more.
A reset may take much longer than the other steps of a rollout."""
_LONGEST, _MEDIANS = 3, 10
_WEIGHTS_SECONDS = 120.0
"""Time after which rollouts that wait for weights make the learner suspect."""

_Running = OrderedDict[RolloutCall, ActorSlot]
"""Calls in the order in which they began."""


class RolloutLimits:
    """The time limits of the rollouts in progress, the oldest call of each slot.

    Args:
        calls: Ray calls.
        timeout: limit in seconds; None derives it from the rollouts so far.
    """

    def __init__(self, calls: RayCalls, timeout: float | None) -> None:
        self._calls, self._timeout = calls, timeout
        self._seconds: deque[float] = deque(maxlen=100)  # of the newest rollouts
        self._least = _TIMEOUT  # limit for any rollout
        # Calls whose weights were not ready yet, by the reference to these.
        self._waiting = defaultdict[Any, list[tuple[RolloutCall, ActorSlot]]](list)
        self._since = dict[Any, float]()  # when each of these was first waited for
        self._first: _Running = OrderedDict()  # of their actors
        self._later: _Running = OrderedDict()

    def begin(self, slot: ActorSlot) -> None:
        """Count the time of a slot's oldest call from when its weights are ready."""
        call = slot.calls[0]
        self._waiting[call.weights].append((call, slot))
        self._since.setdefault(call.weights, time.monotonic())

    def lack_weights(self) -> bool:
        """Return whether any weights are late; true once per limit."""
        now = time.monotonic()
        late = [x for x, since in self._since.items() if now - since > _WEIGHTS_SECONDS]
        self._since.update(dict.fromkeys(late, now))
        return bool(late)

    def end(self, call: RolloutCall) -> None:
        """Forget a call."""
        self._first.pop(call, None)
        self._later.pop(call, None)

    def add(self, call: RolloutCall, seconds: float) -> None:
        """Count a finished rollout that took `seconds` in its env actor."""
        if call.began is not None:  # an actor behind a slow network doesn't hang
            seconds = max(seconds, call.ended_at - call.began)
        self._seconds.append(seconds)
        self._least = max(self._least, _LONGEST * seconds)

    def late(self) -> Iterator[tuple[ActorSlot, float]]:
        """Yield the slots whose rollouts exceed their limits, which are forgotten.

        An actor's first rollout has the limit that it has at the start of a run.
        """
        self._begin_with_weights()
        now, limit = time.monotonic(), self._limit()
        is_given = self._timeout is not None
        first = limit if is_given else max(limit, _MEDIANS * _TIMEOUT)
        for running, allowed in ((self._first, first), (self._later, limit)):
            while running:
                call, slot = next(iter(running.items()))
                assert call.began is not None
                if now - call.began <= allowed:
                    break
                del running[call]
                yield slot, allowed

    def _begin_with_weights(self) -> None:
        now, waiting = time.monotonic(), self._waiting
        for weights in self._calls.ready(list(waiting), 0) if waiting else ():
            self._since.pop(weights, None)
            for call, slot in waiting.pop(weights):
                if slot.calls and slot.calls[0] is call:
                    call.began = now
                    (self._later if slot.has_finished else self._first)[call] = slot

    def _limit(self) -> float:
        """Return the time limit of a rollout that is not an actor's first one."""
        if self._timeout is not None:
            return self._timeout
        median = statistics.median(self._seconds or [_TIMEOUT])
        return max(self._least, _MEDIANS * median)
