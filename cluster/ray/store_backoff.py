"""Pauses while Ray's object store is full."""

import math
import time

from xagents_ray.cluster.ray.calls import RayCalls
from xagents_ray.core.errors import Broken, Stopped

_POLL_SECONDS = 0.2
_PAUSES = 1.0, 16.0
"""First and longest pause, in seconds, while the object store is full."""
_FULL_SECONDS = 120.0


class StoreBackoff:
    """Increasing pauses between attempts while the object store is full."""

    def __init__(self, calls: RayCalls) -> None:
        self._calls = calls
        self.reset()

    def reset(self) -> None:
        """Go back to the shortest pause after a successful attempt."""
        self._pause, self._began = _PAUSES[0], math.inf

    def wait(self, calls: int = 0) -> None:
        """Pause after a failed attempt.

        Args:
            calls: number of calls that are counted as failed for lack of room.
        Raises:
            Broken: no attempt has succeeded for too long.
            Stopped: a shutdown was requested.
        """
        self._calls.log.count("calls without room in the object store", calls)
        now = time.monotonic()
        full = "Ray's object store and the disk that it spills to are full"
        remedy = (
            "free some room where Ray has its temporary directory (/tmp/ray, "
            "/tmp/ray-…, or $RAY_TMPDIR), or lower --n-envs, --policy-lag or the batch"
        )
        if math.isinf(self._began):
            self._began = now
            again = f"trying again for {_FULL_SECONDS:.0f} s"
            self._calls.log.warn(f"{full}; {again}: {remedy}")
        if now - self._began > _FULL_SECONDS:
            raise Broken(f"{full} for {_FULL_SECONDS:.0f} s: {remedy}.")
        while time.monotonic() - now < self._pause:
            time.sleep(min(self._pause, _POLL_SECONDS))
            if self._calls.shutdown_requested():
                raise Stopped
        self._pause = min(2 * self._pause, _PAUSES[1])
