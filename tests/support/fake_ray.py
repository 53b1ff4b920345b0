"""A stand-in for the module `ray` and its actors, with a clock of its own.

Waiting advances the clock; nothing else does. An actor does its calls one after the
other, as Ray's actors do.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from xagents_ray.core.trajectory import Episode, RolloutReport
from xagents_ray.replay.base import Fill

NEVER = float("inf")


class RayError(Exception):
    pass


class RayTaskError(RayError):
    """What a call raised: the cause, and Ray's text with the traceback."""

    def __init__(self, text: str, cause: BaseException) -> None:
        super().__init__(text)
        self.cause = cause


class RayActorError(RayError):
    pass


class GetTimeoutError(RayError):
    pass


_OTHERS = (
    "NodeDiedError",
    "ObjectLostError",
    "ObjectStoreFullError",
    "OutOfDiskError",
    "OutOfMemoryError",
    "WorkerCrashedError",
)


@dataclass(eq=False)
class Reference:
    """To a value, or to an error, that is there at some time."""

    at: float
    value: Any = None


@dataclass
class FakeRay:
    """The module, as far as `Calls` uses it."""

    now: float = 1_000.0
    exceptions: Any = field(
        default_factory=lambda: SimpleNamespace(
            RayError=RayError,
            RayTaskError=RayTaskError,
            RayActorError=RayActorError,
            GetTimeoutError=GetTimeoutError,
            **{name: type(name, (RayError,), {}) for name in _OTHERS},
        )
    )

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def wait(
        self,
        references: Sequence[Reference],
        num_returns: int,
        timeout: float,
        **_: Any,
    ) -> tuple[list[Reference], list[Reference]]:
        needed = sorted(each.at for each in references)[num_returns - 1]
        self.now = min(max(self.now, needed), self.now + timeout)
        there = [each for each in references if each.at <= self.now]
        return there, [each for each in references if each not in there]

    def get(self, reference: Reference, timeout: float = NEVER) -> Any:
        assert reference.at <= self.now + timeout
        self.now = max(self.now, reference.at)
        if isinstance(reference.value, Exception):
            raise reference.value
        return reference.value

    def put(self, value: Any) -> Reference:
        return Reference(self.now, value)

    def kill(self, actor: "FakeActor") -> None:
        actor.die()


class FakeActor:
    """An env actor, or an evaluator.

    Args:
        ray: whose.
        starts: seconds until it has made its environments.
        roll: returns the seconds of the n-th rollout or evaluation, and what it
            gives, or an error.
        restores: seconds until it has taken a state.
    """

    def __init__(
        self,
        ray: FakeRay,
        starts: float = 1.0,
        roll: Callable[[int], tuple[float, Any]] | None = None,
        restores: float = 1.0,
    ) -> None:
        self._ray, self._roll, self._restores = ray, roll, restores
        self._free = ray.now + starts
        self._calls: list[Reference] = []
        self.rollouts = 0
        self.is_dead = False
        self.ready = _method(lambda: self._do(0.0, None))
        self.restart = _method(lambda session: self._do(0.0, None))
        self.restore = _method(lambda state: self._do(self._restores, 0))
        self.rollout = _method(self._rollout)
        self.evaluate = _method(lambda *_: self._rollout(*_)[1])

    def die(self) -> None:
        """End it: what it has not yet done fails now."""
        self.is_dead = True
        for call in self._calls:
            if call.at > self._ray.now:
                call.at, call.value = self._ray.now, RayActorError("it died")

    def _do(self, seconds: float, value: Any) -> Reference:
        self._free = max(self._free, self._ray.now) + seconds
        call = Reference(self._free, value)
        self._calls.append(call)
        if self.is_dead:
            self.die()
        return call

    def _rollout(self, weights: Any, length: int, env_steps: int) -> tuple[Any, Any]:
        self.rollouts += 1
        roll = self._roll or (lambda number: (1.0, report()))
        call = self._do(*roll(self.rollouts))
        return Reference(call.at, f"trajectory {self.rollouts}"), call


def _method(call: Callable[..., Any]) -> Any:
    method = SimpleNamespace(remote=call)
    method.options = lambda **_: method
    return method


def report(episodes: int = 0, seconds: float = 1.0) -> RolloutReport:
    ended = tuple(Episode(0, 0, 1.0, 1) for _ in range(episodes))
    return RolloutReport(np.ones(2, np.int64), ended, seconds)


def crash(line: int = 7, kind: str = "RuntimeError") -> RayTaskError:
    """Return what a rollout raises whose environment fails at a line."""
    text = (
        "\x1b[36mray::EnvActor.rollout()\x1b[39m (pid=7, ip=10.0.0.1)\n"
        '  File "/x/actors/env_actor.py", line 120, in rollout\n'
        "    step = self._envs.step(chosen.stepped)\n"
        f'  File "/home/me/mine.py", line {line}, in step\n'
        "    raise RuntimeError(self.text)\n"
        "    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        f"{kind}: no licence at line {line}"
    )
    return RayTaskError(text, RuntimeError("no licence"))


class FakeShard:
    """A shard of the replay that is given one trajectory.

    Args:
        ray: whose.
        data: seconds until the trajectory has come.
        work: seconds that it takes to copy it.
        answers: whether its control group does.
    """

    def __init__(
        self,
        ray: FakeRay,
        data: float = 0.0,
        work: float = 0.0,
        answers: bool = True,
    ) -> None:
        self._ray, self._data, self._work = ray, data, work
        self._answers, self._comes = answers, NEVER
        self.start = _method(lambda: Reference(ray.now, 100))
        self.insert = _method(self._insert)
        self.is_idle = _method(self._is_idle)

    def die(self) -> None:
        """End it."""

    def _insert(self, *trajectories: Any) -> Reference:
        self._comes = self._ray.now + self._data
        fill = Fill(len(trajectories), False)
        return Reference(self._comes + self._work, (fill, self._work))

    def _is_idle(self) -> Reference:
        is_idle = self._comes > self._ray.now
        return Reference(self._ray.now if self._answers else NEVER, is_idle)
