"""A Ray that this process has started or joined, until it leaves it."""

import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any

from xagents_ray.cluster.ray import authentication, probe
from xagents_ray.cluster.ray.dashboard import Link
from xagents_ray.cluster.ray.processes import Processes
from xagents_ray.core.signals import Signals

_SIGNALLED_SECONDS = 5.0
_WITHOUT_RAY_SECONDS = 15.0
"""Ray's shutdown takes half of that when its control service (GCS) is gone."""


@dataclass
class RaySession:
    """A Ray that this process has started or joined.

    Attributes:
        environment: previous values of the variables that were set for Ray.
        processes: Ray's own on this machine; none of a cluster that was joined.
        head: of the cluster that was joined.
        dashboard: URL of Ray's dashboard; "" unless it was requested.
        link: serves that URL where Ray requires its token.
        signals: end what Ray is needed for.
    """

    environment: dict[str, str | None] = field(default_factory=dict)
    processes: Processes = field(default_factory=Processes)
    head: probe.Head | None = None
    dashboard: str = ""
    link: Link | None = None
    signals: Signals | None = None

    def set(self, environment: Mapping[str, str]) -> None:
        """Set variables until `restore`."""
        for name, value in environment.items():
            self.environment.setdefault(name, os.environ.get(name))
            os.environ[name] = value

    def restore(self) -> None:
        """Give the variables their previous values."""
        for name, value in self.environment.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        authentication.tell_ray()

    @property
    def is_lost(self) -> bool:
        """Whether Ray is lost for good."""
        if self.head is not None and self.head.is_gone:
            return True
        return self.processes.is_broken

    def leave(self, ray: Any, farewell: Callable[[], None]) -> None:
        """Shut Ray down, with a time limit where that may take a minute.

        Args:
            ray: the module.
            farewell: makes the last calls to Ray; skipped when Ray is lost.
        """
        received = None if self.signals is None else self.signals.received
        code, limit, is_lost = 1, _WITHOUT_RAY_SECONDS, self.is_lost
        if received is not None:
            code, limit = 128 + received, _SIGNALLED_SECONDS
        left = Future[None]()

        def leaving() -> None:
            try:
                if not is_lost:
                    farewell()
                ray.shutdown()
                left.set_result(None)
            except BaseException as error:
                left.set_exception(error)

        below = self.processes.all()
        threading.Thread(target=leaving, daemon=True).start()
        for each in (self.head, self.link):
            if each is not None:
                each.close()
        is_bounded = is_lost or received is not None
        has_left = bool(wait([left], limit if is_bounded else None).done)
        self.processes.end(below, seconds=2 if has_left else 0)
        self.restore()
        if has_left:
            left.result()
        else:
            atexit.register(end_now, code)


def end_now(code: int) -> None:
    """End this process without Ray's client, which waits for what is lost."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
