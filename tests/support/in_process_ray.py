"""Ray in this process: a call is made at once, or when its arguments are there."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import ray.exceptions
from ray.exceptions import ActorDiedError, GetTimeoutError, RayTaskError

exceptions = ray.exceptions


class Ref:
    """What a call gives; there once it has a value or an error."""

    def __init__(self, value: Any = None, error: BaseException | None = None) -> None:
        self.value, self.error = value, error
        self.is_there = True

    @classmethod
    def pending(cls) -> "Ref":
        """Return one that isn't there."""
        ref = cls()
        ref.is_there = False
        return ref

    def put(self, value: Any = None, error: BaseException | None = None) -> None:
        """Let it be there."""
        if not self.is_there:
            self.value, self.error, self.is_there = value, error, True


class Actor:
    """A plain object, or calls that it leaves unanswered.

    Attributes:
        asked: methods that were called, with their arguments.
        silent: methods that never answer, until the actor is killed.
    """

    def __init__(self, instance: Any, silent: Sequence[str] = ()) -> None:
        self.instance, self.silent = instance, set(silent)
        self.asked: list[tuple[str, tuple[Any, ...]]] = []
        self.is_dead = False
        self._waiting: list[tuple[Ref, ...]] = []

    def __getattr__(self, method: str) -> "Method":
        return Method(self, method)

    def call(self, method: str, count: int, arguments: tuple[Any, ...]) -> Any:
        self.asked.append((method, arguments))
        refs = tuple(Ref.pending() for _ in range(count))
        self._waiting.append(refs)
        if self.is_dead:
            self.kill()
        elif method not in self.silent:
            _work(lambda: self._answer(method, refs, arguments))
        return refs if count > 1 else refs[0]

    def kill(self) -> None:
        """End it: what has not come will not come."""
        self.is_dead = True
        for refs in self._waiting:
            for ref in refs:
                ref.put(error=ActorDiedError())
        _settle()

    def _answer(
        self, method: str, refs: tuple[Ref, ...], arguments: tuple[Any, ...]
    ) -> bool:
        """Answer a call when its arguments are there; return whether they are."""
        given = [each for each in arguments if isinstance(each, Ref)]
        if not all(each.is_there for each in given):
            return self.is_dead
        for each in given:
            if each.error is not None:
                cause = getattr(each.error, "cause", each.error)
                return _put_all(refs, RayTaskError(method, "lost", cause))
        try:
            plain = [x.value if isinstance(x, Ref) else x for x in arguments]
            values = getattr(self.instance, method)(*plain)
        except Exception as error:
            return _put_all(refs, RayTaskError(method, str(error), error))
        for ref, value in zip(refs, values if len(refs) > 1 else [values], strict=True):
            full = value if isinstance(value, ray.exceptions.RayError) else None
            ref.put(value, RayTaskError(method, "full", full) if full else None)
        return True


class Method:
    """A method of an actor, before it is called."""

    def __init__(self, actor: Actor, name: str, count: int = 1) -> None:
        self._actor, self._name, self._count = actor, name, count

    def options(self, num_returns: int = 1, concurrency_group: str = "") -> "Method":
        return Method(self._actor, self._name, num_returns)

    def remote(self, *arguments: Any) -> Any:
        return self._actor.call(self._name, self._count, arguments)


def wait(
    references: Sequence[Ref], num_returns: int, timeout: float, fetch_local: bool
) -> tuple[list[Ref], list[Ref]]:
    """Return which are there, and which are not."""
    _settle()
    there = [ref for ref in references if ref.is_there]
    if not there:
        time.sleep(min(timeout, 0.01))
    return there[:num_returns], [ref for ref in references if ref not in there]


def get(reference: Ref, timeout: float | None = None) -> Any:
    """Return what a call gave; raise what it raised."""
    _settle()
    if not reference.is_there:
        raise GetTimeoutError
    if reference.error is not None:
        raise reference.error
    return reference.value


def kill(actor: Actor) -> None:
    """End an actor."""
    actor.kill()


_open: list[Callable[[], bool]] = []


def _work(attempt: Callable[[], bool]) -> None:
    _open.append(attempt)
    _settle()


def _settle() -> None:
    """Make the calls that can be made."""
    for attempt in list(_open):
        if attempt in _open and attempt():
            _open.remove(attempt)


def _put_all(refs: Sequence[Ref], error: BaseException) -> bool:
    for ref in refs:
        ref.put(error=error)
    return True
