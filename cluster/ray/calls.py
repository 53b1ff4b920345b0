"""Waiting for Ray's actors in bounded time."""

import math
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from xagents_ray.core.errors import (
    Broken,
    Diverged,
    Stopped,
    UserError,
)
from xagents_ray.core.signals import Signals

_POLL_SECONDS = 0.2
_FETCH_SECONDS = 600.0
"""In which an object that is there must come here, over a slow network too."""
_PAUSES = 1.0, 16.0
"""Seconds of the first pause for room in the object store, and of the longest one."""
_ROOM_SECONDS = 120.0
_FRAME = re.compile(r'^ *File "(.+)", line (\d+)', re.MULTILINE)
_SAVING_SECONDS = 10.0
_CALL = re.compile(r"^.*\bray::\S+\(\).*$", re.MULTILINE)


class LateError(Exception):
    """Something did not come within its time; the message says how long that was."""


class Calls:
    """Waits for objects of Ray, and hears signals meanwhile.

    Args:
        ray: the module.
        signals: end waits.
        is_lost: returns whether Ray is gone for good.
    Attributes:
        ray: the module.
        others: returns references that wake a wait too.
        meanwhile: called whenever a wait wakes.
    """

    def __init__(
        self, ray: Any, signals: Signals, is_lost: Callable[[], bool] = lambda: False
    ) -> None:
        self.ray, self._signals, self._is_lost = ray, signals, is_lost
        self._saving_until: float | None = None
        self.others: Callable[[], Sequence[Any]] = list
        self.meanwhile: Callable[[], None] = _nothing

    def get(self, reference: Any, limit: float, patience: float = 0) -> Any:
        """Return an object when it is there.

        Args:
            reference: to it.
            limit: seconds; LateError after that.
            patience: seconds before a signal that presses raises Stopped.
        Raises:
            Stopped: the run is to end.
            Diverged, UserError: raised by the call itself.
        """
        began = time.monotonic()
        while not self.are_there([reference], _POLL_SECONDS, also=self.others()):
            self.meanwhile()
            waited = time.monotonic() - began
            if self.is_pressing(waited - patience):
                raise Stopped
            if waited > limit:
                raise LateError(f"{limit:.0f} s")
        try:
            return self.value(reference)
        except self.ray.exceptions.GetTimeoutError:
            raise LateError(f"{_FETCH_SECONDS:.0f} s") from None

    def value(self, reference: Any) -> Any:
        """Return an object that is there; raise what its call raised."""
        try:
            return self.ray.get(reference, timeout=_FETCH_SECONDS)
        except self.ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, Diverged | UserError):
                raise error.cause from None
            raise

    def are_there(
        self, references: Sequence[Any], seconds: float, also: Sequence[Any] = ()
    ) -> list[Any]:
        """Return which objects are there; wait some seconds for the first one.

        Args:
            references: to them.
            seconds: to wait.
            also: references that end the wait too.
        Raises:
            Broken: Ray is gone for good.
            Stopped: likewise, and a signal has come.
        """
        self._check_ray()
        both = [*references, *(r for r in also if r not in references)]
        if not both:
            time.sleep(seconds)
            return []
        wait = self.ray.wait
        there, _ = wait(both, num_returns=1, timeout=seconds, fetch_local=False)
        if not there:
            return []
        there, _ = wait(both, num_returns=len(both), timeout=0, fetch_local=False)
        return [reference for reference in references if reference in there]

    def is_pressing(self, waited: float = math.inf) -> bool:
        """Return whether a signal asks what has waited that long to end."""
        return self._signals.is_pressing and waited > 0

    @property
    def is_lost(self) -> bool:
        """Whether Ray is gone for good; no actor can be started any more."""
        return self._is_lost()

    @property
    def is_ending(self) -> bool:
        """Whether nothing that fails now is to be replaced."""
        return self._signals.received is not None or self.is_lost

    @property
    def is_saving(self) -> bool:
        """Whether `begin_saving` was called: the loss of Ray is known."""
        return self._saving_until is not None

    def begin_saving(self) -> None:
        """Allow some seconds for what is still there when Ray is gone."""
        if self._saving_until is None:
            self._saving_until = time.monotonic() + _SAVING_SECONDS

    def _check_ray(self) -> None:
        """Raise Broken, or Stopped after a signal, when Ray is gone for good."""
        until = self._saving_until
        if not self.is_lost or (until is not None and time.monotonic() < until):
            return
        if self._signals.received is not None:
            raise Stopped
        raise Broken(
            "Ray's control process (GCS) or this node's raylet is gone, and no run can "
            "go on without it: continue with --resume last where Ray runs."
        )

    def failed(self, reference: Any) -> bool:
        """Return whether an object is lost, or its call failed."""
        if not self.are_there([reference], 0):
            return False
        try:
            self.ray.get(reference, timeout=_POLL_SECONDS)
        except self.ray.exceptions.GetTimeoutError:
            return False
        except self.ray.exceptions.RayError:
            return True
        return False

    def is_argument(self, error: BaseException) -> bool:
        """Return whether a call did nothing because what it was given is lost."""
        errors = self.ray.exceptions
        lost = (
            errors.ObjectLostError,
            errors.RayActorError,
            errors.WorkerCrashedError,
            errors.NodeDiedError,
            errors.OutOfMemoryError,
        )
        return isinstance(getattr(error, "cause", None), lost)

    def is_full(self, error: BaseException) -> bool:
        """Return whether the object store has no room for what a call gives or takes.

        A call whose argument found none has done nothing.
        """
        errors = self.ray.exceptions
        full = errors.ObjectStoreFullError, errors.OutOfDiskError
        return isinstance(error, full) or isinstance(
            getattr(error, "cause", None), full
        )

    def is_death(self, error: BaseException) -> bool:
        """Return whether it says that an actor, or what it returned, is gone."""
        errors = self.ray.exceptions
        is_raised = isinstance(error, errors.RayTaskError) or self.is_full(error)
        return isinstance(error, errors.RayError) and not is_raised

    def kill(self, actor: Any) -> None:
        """End the process of an actor that is to be replaced, if it is there.

        Raises:
            Broken, Stopped: Ray is gone for good, and nothing can be replaced.
        """
        self._check_ray()
        if actor is not None:
            self.ray.kill(actor)


class Room:
    """Pauses between attempts while the object store is full, each longer.

    Args:
        calls: hears signals.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self.found()

    def found(self) -> None:
        """Begin with a short pause again: an attempt has gone well."""
        self._pause, self._began = _PAUSES[0], math.inf

    def wait(self) -> list[str]:
        """Pause after an attempt that failed.

        Returns:
            A sentence for the user at the first pause.
        Raises:
            Broken: no attempt has gone well for too long.
            Stopped: the run is to end.
        """
        now, is_first = time.monotonic(), math.isinf(self._began)
        self._began = min(self._began, now)
        full = "Ray's object store and the disk that it spills to are full"
        remedy = (
            "free some room in Ray's temporary directory (/tmp/ray, or under "
            "$RAY_TMPDIR), or lower --n-envs, --policy-lag or the batch"
        )
        if now - self._began > _ROOM_SECONDS:
            raise Broken(f"{full} for {_ROOM_SECONDS:.0f} s: {remedy}.")
        while time.monotonic() - now < self._pause:
            time.sleep(min(self._pause, _POLL_SECONDS))
            if self._calls.is_pressing():
                raise Stopped
        self._pause = min(2 * self._pause, _PAUSES[1])
        again = f"trying again for {_ROOM_SECONDS:.0f} s"
        return [f"{full}; {again}: {remedy}"] if is_first else []


def _nothing() -> None:
    pass


def traceback_of(error: BaseException) -> str:
    """Return the traceback of user code that an error of Ray carries; '' without."""
    text = re.sub(r"\x1b\[\d+m", "", str(error))
    if not re.search(_CALL, text):
        return ""
    return re.sub(_CALL, "Traceback (most recent call last):", text).strip()


def place_of(trace: str) -> str:
    """Return which error a traceback ends with, and the line that raised it."""
    frames = list(re.finditer(_FRAME, trace))
    if not frames:
        return trace.rpartition("\n")[2]
    kind = re.search(r"^[\w.]+", trace[frames[-1].end() :], re.MULTILINE)
    file, line = frames[-1].groups()
    return f"{Path(file).name}, line {line} ({kind[0] if kind else 'error'})"
