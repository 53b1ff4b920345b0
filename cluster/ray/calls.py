"""Calls to Ray actors with time limits, and a log of failures."""

import math
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from xagents_ray.cluster.ray.actor_group import actors_of
from xagents_ray.cluster.ray.bell import Bell
from xagents_ray.cluster.ray.closing import ClosingActors
from xagents_ray.core.errors import Broken, Diverged, Stopped, UserError
from xagents_ray.core.inference import InferenceLost
from xagents_ray.core.printed import PrintLimit
from xagents_ray.core.signals import Signals
from xagents_ray.core.user_code import from_their_frame

_POLL_SECONDS = 0.2
FETCH_SECONDS = 600.0
"""Time limit for fetching an object that is ready, even over a slow network."""
_LAST_FETCH_SECONDS = 9.0
"""Time limit for fetching what is to be saved after a signal."""
_SAVING_SECONDS = 10.0
_CALL = re.compile(r"^.*\bray::\S+\(\).*$", re.MULTILINE)


@dataclass
class FailureLog:
    """A log of the failures of a run's components, and of what is printed in them."""

    # Numbers of failed components and lost items, by name.
    counts: Counter[str] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)  # sentences, oldest first
    printed: PrintLimit = field(default_factory=PrintLimit)  # by environments
    show: Callable[[], None] = lambda: None  # shows the warnings so far

    def count(self, name: str, number: int = 1) -> None:
        """Count failures or lost items; a number of 0 adds no entry."""
        if number:
            self.counts[name] += number

    def warn(self, sentence: str) -> None:
        self.warnings.append(sentence)

    def warn_now(self, sentence: str) -> None:
        """Show a warning, and earlier ones, during a long wait."""
        self.warn(sentence)
        self.show()

    def take_warnings(self) -> list[str]:
        """Return the warnings since the last call."""
        taken, self.warnings = self.warnings, []
        return taken


class LateError(Exception):
    """A result did not arrive in time; the message gives the limit."""


class RayCalls:
    """Waits for Ray objects while responding to signals.

    Args:
        ray: the `ray` module.
        signals: the signals, which end waits.
        is_lost: function that returns whether Ray is lost for good.
    Attributes:
        log: log of the failures.
        bell: wakes the driver when a watched call has ended.
        meanwhile: function that is called whenever a wait wakes up.
        closing: actors that close their environments before they are killed.
    """

    def __init__(
        self, ray: Any, signals: Signals, is_lost: Callable[[], bool] = lambda: False
    ) -> None:
        self.ray, self._signals, self._is_lost = ray, signals, is_lost
        self.log, self.bell = FailureLog(), Bell()
        self.closing = ClosingActors(ray, lambda x: self.log.printed.add(x))
        self._saving_until: float | None = None
        self.meanwhile: Callable[[], Any] = lambda: None

    def get(self, reference: Any, limit: float, patience: float = 0) -> Any:
        """Return an object once it is ready.

        Args:
            reference: reference to the object.
            limit: seconds after which LateError is raised.
            patience: seconds to wait despite a requested shutdown; with any, the
                object may be on its way for up to 9 s.
        Raises:
            Stopped: a shutdown was requested.
            Diverged, UserError: raised by the call itself.
        """
        began, is_watched = time.monotonic(), False
        while not self.ready([reference], 0):
            if not is_watched:
                self.bell.watch(reference)
                is_watched = True
            self.bell.wait(_POLL_SECONDS)
            self.meanwhile()
            waited = time.monotonic() - began
            if self.shutdown_requested(waited - patience):
                raise Stopped
            if waited > limit:
                raise LateError(f"{limit:.0f} s")
        left = max(patience, _LAST_FETCH_SECONDS) - time.monotonic() + began
        try:
            return self.value(reference, left if patience > 0 else 0)
        except self.ray.exceptions.RayError as error:
            if self._is_late(error):
                raise LateError(f"{FETCH_SECONDS:.0f} s") from None
            raise

    def value(self, reference: Any, patience: float = 0) -> Any:
        """Return an object that is ready, once it is on this node.

        Args:
            reference: reference to the object.
            patience: seconds to wait despite a requested shutdown.
        Raises:
            Stopped: a shutdown was requested.
            GetTimeoutError: the object has not arrived within 600 s.
            Diverged, UserError, RayError: raised by the call itself.
        """
        began, wait, get = time.monotonic(), self.ray.wait, self.ray.get
        while not wait([reference], num_returns=1, timeout=_POLL_SECONDS)[0]:
            self._check_ray()
            self.meanwhile()
            waited = time.monotonic() - began
            if self.shutdown_requested(waited - patience):
                raise Stopped
            if waited > FETCH_SECONDS:
                raise self.ray.exceptions.GetTimeoutError
        return self._result(lambda: get(reference, timeout=_LAST_FETCH_SECONDS))

    def ended(self, future: Any) -> Any:
        """Return the result of a watched call that has ended; raise as `value` does."""
        return self._result(future.result)

    def _result(self, get: Callable[[], Any]) -> Any:
        try:
            return get()
        except self.ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, Diverged | UserError):
                raise error.cause from None
            raise

    def ready(self, references: Sequence[Any], seconds: float) -> list[Any]:
        """Return which objects are ready; wait for the first one if needed.

        Args:
            references: references to the objects.
            seconds: maximum number of seconds to wait.
        Raises:
            Broken: Ray is lost for good.
            Stopped: Ray is lost for good after a signal.
        """
        self._check_ray()
        self.closing.tend()
        if not references:
            time.sleep(seconds)
            return []
        wait, count = self.ray.wait, len(references)
        ready, _ = wait(references, num_returns=1, timeout=seconds, fetch_local=False)
        if not ready or count == 1:
            return list(ready)
        ready, _ = wait(references, num_returns=count, timeout=0, fetch_local=False)
        return list(ready)

    def pause(self, seconds: float = math.inf) -> None:
        """Wait briefly until a watched call has ended, for at most `seconds`.

        Raises:
            Stopped: a shutdown was requested.
            Broken: Ray is lost for good.
        """
        self._check_ray()
        self.closing.tend()
        self.bell.wait(max(0.0, min(seconds, _POLL_SECONDS)))
        if self.shutdown_requested():
            raise Stopped

    def shutdown_requested(self, waited: float = math.inf) -> bool:
        """Return whether a signal ends a wait that has lasted `waited` seconds."""
        return self._signals.shutdown_requested and waited > 0

    @property
    def is_lost(self) -> bool:
        """Whether Ray is lost for good: no actor can be started anymore."""
        return self._is_lost()

    @property
    def is_ending(self) -> bool:
        """Whether failed parts are no longer replaced."""
        return self._signals.received is not None or self.is_lost

    @property
    def is_saving(self) -> bool:
        """Whether `begin_saving` was called, after the loss of Ray."""
        return self._saving_until is not None

    def begin_saving(self) -> None:
        """Allow some seconds to fetch what is still available after the loss of Ray."""
        if self._saving_until is None:
            self._saving_until = time.monotonic() + _SAVING_SECONDS

    def _check_ray(self) -> None:
        """Raise Broken, or Stopped after a signal, if Ray is lost for good."""
        until = self._saving_until
        if not self.is_lost or (until is not None and time.monotonic() < until):
            return
        if self._signals.received is not None:
            raise Stopped
        raise Broken(
            "Ray's control process (GCS) or this node's raylet is gone, and no run "
            "works without it: continue with --resume last where Ray runs."
        )

    def lost(self, references: Sequence[Any]) -> dict[Any, Exception]:
        """Return the errors of objects that are lost or failed, without fetching any.

        The error that takes the place of an object is in this process or on its node.
        """
        lost: dict[Any, Exception] = {}
        if not references:
            return lost
        ready = self.ready(references, 0)
        located = self.ray.experimental.get_local_object_locations(ready)
        here = self.ray.get_runtime_context().get_node_id()
        for reference in ready:
            nodes = located.get(reference, {}).get("node_ids", ())
            if not nodes or here in nodes:
                try:
                    self.ray.get(reference, timeout=0)
                except self.ray.exceptions.RayError as error:
                    if not self._is_late(error):  # it is spilled, or was just moved
                        lost[reference] = error
        return lost

    def _is_late(self, error: BaseException) -> bool:
        """Return whether a wait took too long, and none within the call itself."""
        errors = self.ray.exceptions
        is_of_call = isinstance(error, errors.RayTaskError)
        return isinstance(error, errors.GetTimeoutError) and not is_of_call

    def is_argument(self, error: BaseException) -> bool:
        """Return whether a call failed because one of its arguments is lost.

        That includes what the call itself fetches.
        """
        errors = self.ray.exceptions
        dead = errors.RayActorError, errors.WorkerCrashedError, errors.NodeDiedError
        late = errors.GetTimeoutError
        lost = errors.ObjectLostError, errors.OutOfMemoryError, late, *dead
        return isinstance(getattr(error, "cause", None), lost)

    def is_inference(self, error: BaseException) -> bool:
        """Return whether a rollout was lost with the process that acted for it."""
        return isinstance(getattr(error, "cause", None), InferenceLost)

    def is_full(self, error: BaseException) -> bool:
        """Return whether the object store is full for a call's result or arguments.

        A call without room for its arguments did not run.
        """
        errors = self.ray.exceptions
        full = errors.ObjectStoreFullError, errors.OutOfDiskError
        cause = getattr(error, "cause", None)
        return isinstance(error, full) or isinstance(cause, full)

    def is_death(self, error: BaseException) -> bool:
        """Return whether an error means that an actor or its result is lost."""
        errors = self.ray.exceptions
        is_raised = isinstance(error, errors.RayTaskError) or self.is_full(error)
        return isinstance(error, errors.RayError) and not is_raised

    def kill(self, actor: Any) -> None:
        """Kill an actor's process, if it has one, so that it can be replaced.

        Raises:
            Broken, Stopped: Ray is lost for good, and nothing can be replaced.
        """
        self._check_ray()
        if actor is not None:
            for each in actors_of(actor):
                self.ray.kill(each)

    def retire(self, actor: Any) -> None:
        """Let an actor close its environments, and kill it 5 s later at the latest.

        Raises:
            Broken, Stopped: Ray is lost for good, and nothing can be replaced.
        """
        self._check_ray()
        if actor is not None:
            self.closing.begin(actor)


def remote_traceback(error: BaseException) -> str:
    """Return the traceback of user code in an error of Ray; "" if it has none."""
    text = re.sub(r"\x1b\[\d+m", "", str(error))
    if not re.search(_CALL, text):
        return ""
    return from_their_frame(
        re.sub(_CALL, "Traceback (most recent call last):", text).strip()
    )
