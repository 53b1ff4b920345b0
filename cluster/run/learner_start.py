"""The start of a new learner, which Ray may take minutes to place on a node."""

import time
from typing import Any

from xagents_ray.cluster.ray.calls import RayCalls, remote_traceback
from xagents_ray.core.errors import Broken, one_line, shortage

_REPORT_SECONDS = 30.0
START_SECONDS = 600.0
"""Time limit for a learner to start once it is placed."""
COMPILING_SECONDS = 1.0
"""Time for which a first phase may continue after a signal; XLA can't be stopped."""


class LearnerStart:
    """Limits the time until a replaced learner works, and says what it waits for.

    Args:
        calls: Ray calls that wait for the learner.
        seconds: time limit from the loss of a learner, --learner-timeout.
    Attributes:
        is_pending: whether the learner is being replaced.
    """

    def __init__(self, calls: RayCalls, seconds: float) -> None:
        self._calls, self._seconds = calls, seconds
        self.is_pending = False
        self._began = self._reported = time.monotonic()
        self._placed_at: float | None = None
        self._actor = self._answer = None  # its handle, and the answer to a ping

    def begin(self, actor: Any) -> None:
        """Follow the start of a new learner; a further one has only the time left."""
        now = self._reported = time.monotonic()
        self._began = self._began if self.is_pending else now
        self.is_pending, self._placed_at = True, None
        # Its process answers while it imports TensorFlow, and once it is placed.
        self._answer = actor.ping.options(concurrency_group="control").remote()
        self._actor = actor

    def check(self) -> None:
        """Say every 30 s what the start waits for; kill a learner that hangs in it.

        Raises:
            Broken: it takes longer than --learner-timeout.
        """
        now = time.monotonic()
        waited, limit = now - self._began, f"{self._seconds:.0f} s"
        if self._placed_at is None and self._calls.ready([self._answer], 0):
            self._placed_at = now
        if waited > self._seconds:
            late = "placed" if self._placed_at is None else "started"
            raise Broken(
                f"Ray has {late} no new learner within {limit}: see `ray status`, and "
                "continue with --resume last or a longer --learner-timeout."
            )
        if self._placed_at is None:
            what = "Ray to place a new learner, with the resources of the lost one"
        else:
            what = "the new learner to load TensorFlow and its state"
            if now - self._placed_at > START_SECONDS:
                self._calls.kill(self._actor)
        if now - self._reported >= _REPORT_SECONDS:
            self._reported = now
            self._calls.log.warn_now(
                f"Waiting for {what}: {waited:.0f} s of at most {limit} "
                "(--learner-timeout)"
            )


def learner_failure(error: BaseException) -> Broken | MemoryError:
    """Return the error of a run in which a call of the learner raised an error.

    Args:
        error: the error that Ray raised for the call.
    """
    cause = getattr(error, "cause", None)
    if isinstance(cause, BaseException) and shortage(cause) == "memory":
        return MemoryError(f"in the learner, {one_line(cause)}")
    trace = remote_traceback(error) or str(error)
    return Broken(f"The learner failed:\n{trace}")
