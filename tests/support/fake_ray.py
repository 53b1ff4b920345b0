"""A stand-in for the module `ray`, in this process and with a clock of its own.

Only waiting advances the clock. An actor holds a plain object and makes its calls one
after the other, each once its arguments are ready, as Ray's actors do.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import ray.exceptions
from ray.exceptions import (
    ActorDiedError,
    GetTimeoutError,
    OutOfDiskError,
    RayError,
    RayTaskError,
)

NEVER = math.inf


class Takes(NamedTuple):
    """What a method of a fake returns to take some seconds, or NEVER to end.

    Its values are on their way to this process for `transit` seconds.
    """

    seconds: float
    value: Any = None
    transit: float = 0.0


@dataclass(eq=False)
class Ref:
    """A reference to a value or an error, which may not be ready yet.

    Attributes:
        transit: seconds from its first fetch until it is in this process.
        arrives_at: clock at which it arrives; NEVER before it is fetched.
    """

    value: Any = None
    error: BaseException | None = None
    is_ready: bool = True
    transit: float = 0.0
    arrives_at: float = NEVER
    clock: ClassVar["FakeRay"]  # of the newest fake

    @property
    def is_here(self) -> bool:
        """Whether it is in this process: errors are at once."""
        at_once = self.error is not None or not self.transit
        return self.is_ready and (at_once or self.arrives_at <= self.clock.now)

    def fetch(self) -> None:
        """Begin to fetch it, unless that has begun."""
        if self.is_ready and self.transit and self.arrives_at == NEVER:
            self.arrives_at = self.clock.now + self.transit
            self.clock.arriving.append(self)

    def future(self) -> "Arrival":
        self.fetch()
        return Arrival(self)

    @classmethod
    def pending(cls) -> "Ref":
        return cls(is_ready=False)

    def get(self) -> Any:
        """Return the value, or raise the error as Ray does: as one of its cause too."""
        if isinstance(self.error, RayTaskError):
            raise self.error.as_instanceof_cause()
        if self.error is not None:
            raise self.error
        return self.value

    def put(self, value: Any = None, error: BaseException | None = None) -> None:
        """Make the reference ready, unless it is."""
        if not self.is_ready:
            self.value, self.error, self.is_ready = value, error, True


class Arrival:
    """The future of a reference, which keeps its callback, as real ones do."""

    def __init__(self, ref: Ref) -> None:
        self._ref = ref

    def fetch(self) -> None:
        self._ref.fetch()

    def done(self) -> bool:
        return self._ref.is_here

    def exception(self) -> BaseException | None:
        return self._ref.error

    def result(self) -> Any:
        return self._ref.get()

    def call_back(self) -> None:
        self._ended(self)

    def add_done_callback(self, ended: Callable[[Any], None]) -> None:
        self._ended = ended
        if self.done():
            ended(self)
        else:
            self._ref.clock.callbacks.setdefault(self._ref, []).append(self)


class Call(NamedTuple):
    """A call of an actor's method."""

    method: str
    arguments: tuple[Any, ...]
    refs: tuple[Ref, ...]

    def make(self, instance: Any) -> tuple[float, Any]:
        """Return the seconds that it takes, and a function that sets its references."""
        for each in self.arguments:
            if isinstance(each, Ref) and each.error is not None:
                cause = getattr(each.error, "cause", each.error)
                return 0.0, self.failure(RayTaskError(self.method, "lost", cause))
        given = [x.value if isinstance(x, Ref) else x for x in self.arguments]
        try:
            value = getattr(instance, self.method)(*given)
        except RayError as error:
            return 0.0, self.failure(error)
        except Exception as error:
            return 0.0, self.failure(RayTaskError(self.method, str(error), error))
        seconds, value, transit = value if isinstance(value, Takes) else Takes(0, value)
        if isinstance(value, RayError):
            return seconds, self.failure(value)

        def set_values() -> None:
            values = value if len(self.refs) > 1 else [value]
            for ref, each in zip(self.refs, values, strict=True):
                ref.transit = ref.transit or transit
                ref.put(each)

        return seconds, set_values

    def failure(self, error: BaseException) -> Callable[[], None]:
        return lambda: [ref.put(error=error) for ref in self.refs] and None


class FakeActor:
    """A plain object whose methods are called as Ray calls an actor's.

    Args:
        ray: the module.
        instance: the object.
        starts: seconds until it can make its first call.
        hanging: methods that never end.
    Attributes:
        asked: methods that were called, with their arguments.
        is_suspended: whether its process makes no call, not even one beside others.
    """

    def __init__(
        self,
        ray: "FakeRay",
        instance: Any,
        starts: float = 0.0,
        hanging: Sequence[str] = (),
    ) -> None:
        self.instance, self.hanging = instance, set(hanging)
        self.asked: list[tuple[str, tuple[Any, ...]]] = []
        self.is_suspended = False
        self.is_dead = False
        self._error: RayError = ActorDiedError()
        self._ray, self._free_at = ray, ray.now + starts
        self._waiting: deque[Call] = deque()
        self._current: tuple[Call, Callable[[], None]] | None = None
        ray.actors.append(self)

    def __getattr__(self, method: str) -> "Method":
        return Method(self, method)

    def call(self, method: str, count: int, arguments: tuple[Any, ...]) -> Any:
        """Ask for a call; one of the control group doesn't wait for others."""
        self.asked.append((method, arguments))
        call = Call(method, arguments, tuple(Ref.pending() for _ in range(abs(count))))
        has_started = self._current is not None or self._free_at <= self._ray.now
        answers = has_started and not self.is_suspended and method not in self.hanging
        if self.is_dead:
            call.failure(self._error)()
        elif count < 0 and answers:
            call.make(self.instance)[1]()
        else:
            self._waiting.append(call)
        return call.refs if count > 1 else call.refs[0]

    def die(self, error: RayError | None = None) -> None:
        """End its process: calls that have not ended fail, and all others to come."""
        self.is_dead, self._error = True, error or self._error
        calls = [*self._waiting, *([self._current[0]] if self._current else [])]
        for call in calls:
            call.failure(self._error)()

    @property
    def next_at(self) -> float:
        """Clock at which it can do more."""
        is_busy = self._current is not None or self._waiting
        is_stuck = self.is_dead or self.is_suspended or self._free_at <= self._ray.now
        return self._free_at if is_busy and not is_stuck else NEVER

    def step(self) -> bool:
        """Begin or end a call that is due; return whether there was one."""
        if self.is_dead or self.is_suspended or self._free_at > self._ray.now:
            return False
        if self._current is not None:
            (_, end), self._current = self._current, None
            end()
            return True
        given = self._waiting[0].arguments if self._waiting else ()
        refs = [each for each in given if isinstance(each, Ref)]
        if not self._waiting or not all(each.is_ready for each in refs):
            return False
        call = self._waiting.popleft()
        if call.method in self.hanging:
            seconds, end = NEVER, call.failure(ActorDiedError())
        else:
            seconds, end = call.make(self.instance)
        self._current = call, end
        self._free_at = self._ray.now + seconds
        return True


class Method(NamedTuple):
    """A method of an actor, before it is called."""

    actor: FakeActor
    name: str
    count: int = 1

    def options(self, num_returns: int = 1, concurrency_group: str = "") -> "Method":
        return self._replace(count=-1 if concurrency_group else num_returns)

    def remote(self, *arguments: Any) -> Any:
        return self.actor.call(self.name, self.count, arguments)


class FakeRay:
    """The module `ray`, and the module `time`, as far as a run's parts use them."""

    exceptions = ray.exceptions

    def __init__(self) -> None:
        self.now = 1_000.0
        self.actors: list[FakeActor] = []
        self.arriving: list[Ref] = []
        self.callbacks: dict[Ref, list[Arrival]] = {}
        self.experimental = SimpleNamespace(get_local_object_locations=self._locations)
        Ref.clock = self

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(get_node_id=lambda: "here", runtime_env={})

    def _locations(self, references: Sequence[Ref]) -> dict[Ref, dict[str, Any]]:
        """Return where objects are; an error is in the memory of this process."""
        made = (ref for ref in references if ref.is_ready)
        return {ref: {"node_ids": [] if ref.error else ["there"]} for ref in made}

    def after(self, seconds: float, value: Any) -> Ref:
        """Return a reference that is ready after some seconds."""
        given = SimpleNamespace(give=lambda: Takes(seconds, value))
        ref: Ref = FakeActor(self, given).give.remote()
        return ref

    def monotonic(self) -> float:
        return self.now

    perf_counter = monotonic

    def sleep(self, seconds: float) -> None:
        self._advance(self.now + seconds, lambda: False)

    def wait(
        self,
        references: Sequence[Ref],
        num_returns: int,
        timeout: float,
        fetch_local: bool = True,
    ) -> tuple[list[Ref], list[Ref]]:
        def are_ready() -> list[Ref]:
            for ref in references if fetch_local else ():
                ref.fetch()
            return [ref for ref in references if _is_ready(ref, fetch_local)]

        assert len(set(references)) == len(references) >= num_returns
        self._advance(self.now + timeout, lambda: len(are_ready()) >= num_returns)
        ready = are_ready()[:num_returns]
        return ready, [ref for ref in references if ref not in ready]

    def get(self, reference: Ref, timeout: float = NEVER) -> Any:
        def is_here() -> bool:
            reference.fetch()
            return reference.is_here

        self._advance(self.now + timeout, is_here)
        if not is_here():
            raise GetTimeoutError
        return reference.get()

    def wait_for_bell(self, bell: Any, seconds: float) -> None:
        """Wait as `Bell.wait` does, with this clock."""
        self._advance(self.now + seconds, bell.has_rung.is_set)
        bell.has_rung.clear()

    def kill(self, actor: FakeActor) -> None:
        actor.die()

    def _advance(self, until: float, is_done: Callable[[], bool]) -> None:
        while True:
            while any([actor.step() for actor in self.actors]):
                pass
            self._end_transits()
            if is_done() or self.now >= until:
                return
            arrivals = (ref.arrives_at for ref in self.arriving)
            self.now = min([until, *(a.next_at for a in self.actors), *arrivals])

    def _end_transits(self) -> None:
        for ref in self.callbacks:
            ref.fetch()
        self.arriving = [ref for ref in self.arriving if ref.arrives_at > self.now]
        for ref in [ref for ref in self.callbacks if ref.is_here]:
            for arrival in self.callbacks.pop(ref):
                arrival.call_back()


def _is_ready(ref: Ref, fetch_local: bool) -> bool:
    return ref.is_here if fetch_local else ref.is_ready


def crash(line: int = 7, kind: str = "RuntimeError") -> RayTaskError:
    """Return what a rollout raises whose environment fails at a line."""
    trace = (
        "Traceback (most recent call last):\n"
        '  File "/x/actors/env_actor.py", line 120, in rollout\n'
        "    step = self._envs.step(chosen.stepped)\n"
        f'  File "/home/me/mine.py", line {line}, in step\n'
        "    raise RuntimeError(self.text)\n"
        "    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        f"{kind}: no licence at line {line}"
    )
    cause, title = RuntimeError("no licence"), "ray::EnvActor.rollout"
    return RayTaskError("rollout", trace, cause, proctitle=title, pid=7, ip="10.0.0.1")


def full(method: str = "update") -> Ref:
    """Return a reference to what found the object store full."""
    return Ref(error=RayTaskError(method, "", OutOfDiskError("")))
