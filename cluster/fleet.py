"""The env actors of a run: launched, waited for, and replaced when they fail."""

import math
import statistics
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from xagents_ray.cluster.calls import Calls, LateError, traceback_of
from xagents_ray.config import Config
from xagents_ray.errors import Broken, Stopped, UserError
from xagents_ray.trajectory import RolloutReport

_POLL_SECONDS = 0.2
_TIMEOUT = 60.0
_MEDIANS = 10
START_SECONDS = 120.0
"""In which a new process must be ready; for each of many at once, a part more."""
_STALE_SECONDS = 30.0
_MISTAKE = f"{UserError.__module__}.{UserError.__name__}"
_SESSIONS = 2**16
"""Numbers of sessions; a replacement's episodes differ from all of theirs."""


class Rollout(NamedTuple):
    """A finished one: reference to its trajectory, and its report."""

    trajectory: Any
    report: RolloutReport


@dataclass
class _Call:
    """A rollout that was asked for."""

    weights: Any
    env_steps: int
    trajectory: Any
    report: Any
    began: float | None = None


@dataclass
class _Slot:
    """Some environments of the run, and the actor that steps them now.

    Attributes:
        number: from 0.
        actor: handle; None when it is given up.
        ready: reference that is there once its environments are made.
        n_envs: how many it has.
        calls: asked for, oldest first.
        finished: not yet taken.
        failures: in a row.
        replaced: how many times.
        version: of the weights of its newest rollout.
        alive_at: clock when that one came.
        is_stale: whether a user was told that it stands still.
    """

    number: int
    actor: Any
    ready: Any
    n_envs: int
    calls: deque[_Call] = field(default_factory=deque)
    finished: deque[Rollout] = field(default_factory=deque)
    failures: int = 0
    replaced: int = 0
    version: int = 0
    alive_at: float = field(default_factory=time.monotonic)
    is_stale: bool = False


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
        self._oldest = math.inf  # version that any actor has acted with
        self._seen: set[str] = set()
        self.losses: Counter[str] = Counter()
        self.news: list[str] = []
        self._slots: list[_Slot] = []
        for number, share in enumerate(shares):
            actor = make(number)
            self._slots.append(_Slot(number, actor, actor.ready.remote(), share))

    @property
    def live(self) -> list[Any]:
        """Handles of the actors that are not given up."""
        return [slot.actor for slot in self._live]

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
        for slot, state in zip(self._slots, states, strict=True):
            if slot.actor is None:
                continue
            try:
                limit = self._start_seconds
                dropped += self._calls.get(slot.actor.restore.remote(state), limit)
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
        for slot in self._live:
            while len(slot.calls) + len(slot.finished) <= self._pipeline.policy_lag:
                self._ask(slot, weights, env_steps)

    def round(self) -> list[Rollout]:
        """Wait for one rollout of each actor, or for those before the deadline."""
        deadline = time.monotonic() + (self._pipeline.round_deadline or math.inf)
        while True:
            self.tend()
            late = [slot for slot in self._live if slot.calls and not slot.finished]
            taken = [slot for slot in self._slots if slot.finished]
            if not late or (taken and time.monotonic() > deadline):
                return [slot.finished.popleft() for slot in taken]
            self._pause([slot.calls[0].report for slot in late])

    def newest(self, count: int, env_steps: int) -> list[Rollout]:
        """Let all run free; wait until `count` rollouts are there, and take them."""
        while True:
            self.tend(env_steps)
            there = [slot for slot in self._slots for _ in slot.finished]
            if len(there) >= min(count, len(self._live)):
                return [slot.finished.popleft() for slot in there]
            self._pause(self.heads())

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
        heads = {s.calls[0].report: s for s in self._live if s.calls}
        there = set(self._calls.are_there(list(heads), 0)) if heads else set()
        for report, slot in heads.items():
            if report in there:
                self._settle(slot)
            elif self._is_late(slot):
                self._fail(slot, "hangs (see --actor-timeout)")
        if env_steps is not None:
            for slot in self._live:
                room = self._pipeline.policy_lag - len(slot.finished)
                if not slot.calls and room >= 0:
                    self._ask(slot, self._weights(), env_steps)
        self._look_for_stale()

    def _settle(self, slot: _Slot) -> None:
        """Take the oldest call of an actor, which has ended."""
        call = slot.calls[0]
        errors = self._calls.ray.exceptions
        try:
            report = self._calls.value(call.report)
        except errors.RayTaskError as error:
            if self._calls.is_argument(error):  # its weights died with the learner
                slot.calls.popleft()
                self._ask(slot, self._weights(), call.env_steps)
            else:
                self._fail(slot, "failed", traceback_of(error))
        except errors.RayError as error:
            self._fail(slot, "died", traceback_of(error))
        else:
            slot.calls.popleft()
            slot.finished.append(Rollout(call.trajectory, report))
            slot.failures, slot.version = 0, report.weights_version
            slot.alive_at, slot.is_stale = time.monotonic(), False
            self._oldest = min(self._oldest, report.weights_version)
            self._seconds.append(report.seconds)

    def _fail(self, slot: _Slot, what: str, trace: str = "") -> None:
        """Replace an actor, or give it up."""
        self._calls.kill(slot.actor)
        slot.failures += 1
        self.losses["env actors"] += 1
        self.losses["rollouts"] += bool(slot.calls)
        last = trace.rpartition("\n")[2]
        if trace and last not in self._seen:
            self._seen.add(last)
            self.news.append(trace)
        if slot.failures > self._limits.max_actor_restarts:
            self._give_up(slot, what, trace)
            return
        self.news.append(f"Env actor {slot.number} {what}; it is replaced")
        slot.replaced += 1
        slot.alive_at = time.monotonic()
        slot.actor = self._make(slot.number)
        slot.actor.restart.remote(self._session + _SESSIONS * slot.replaced)
        slot.ready = slot.actor.ready.remote()
        calls, slot.calls = slot.calls, deque()
        for call in calls:
            self._ask(slot, call.weights, call.env_steps)

    def _give_up(self, slot: _Slot, what: str, trace: str) -> None:
        slot.actor = None
        slot.calls.clear()
        times = f"{slot.failures} time{'s' * (slot.failures > 1)} in a row"
        if not self._live:
            ending = f":\n{trace}" if trace else "."
            raise Broken(
                f"No env actor is left: the last one {what}, {times}; mend the "
                f"environment, or raise --max-actor-restarts{ending}"
            )
        self.losses["environments"] += slot.n_envs
        self.news.append(
            f"Env actor {slot.number} {what}, {times}, and is given up with its "
            f"{slot.n_envs} environments; the others go on"
        )

    def _ask(self, slot: _Slot, weights: Any, env_steps: int) -> None:
        rollout = slot.actor.rollout.options(num_returns=2)
        references = rollout.remote(weights, self._length, env_steps)
        slot.calls.append(_Call(weights, env_steps, *references))

    @property
    def _live(self) -> list[_Slot]:
        return [slot for slot in self._slots if slot.actor is not None]

    @property
    def _timeout(self) -> float:
        """Seconds that a rollout may take."""
        given = self._limits.actor_timeout
        if given is not None:
            return given
        if not self._seconds:  # nobody knows yet how long one takes
            return _MEDIANS * _TIMEOUT
        return max(_TIMEOUT, _MEDIANS * statistics.median(self._seconds))

    def _is_late(self, slot: _Slot) -> bool:
        """Return whether an actor is busy for too long with a call it could begin."""
        call, now = slot.calls[0], time.monotonic()
        if call.began is None:
            ready = self._calls.are_there([slot.ready, call.weights], 0)
            if len(ready) == 2:
                call.began = now
            starting = now - slot.alive_at > self._start_seconds
            return starting and slot.ready not in ready
        return now - call.began > self._timeout

    def _is_ready(self, slot: _Slot) -> bool:
        """Return whether an actor is; replace it when it failed or takes too long."""
        errors = self._calls.ray.exceptions
        if self._calls.are_there([slot.ready], 0):
            try:
                self._calls.value(slot.ready)
                return True
            except errors.RayError as error:
                trace = traceback_of(error)
                mistake = trace.partition(f"{_MISTAKE}: ")[2]
                if mistake:
                    raise UserError(mistake) from None
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
        for slot in self._live:
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
