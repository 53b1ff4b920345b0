"""A Ray that this process has started or joined, and its processes here."""

import atexit
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from xagents_ray.cluster.ray import authentication, probe
from xagents_ray.core.signals import Signals

_REAP_SECONDS = 1.0
_VITAL = ("gcs_server", "raylet")
_SIGNALLED_SECONDS = 5.0
_WITHOUT_RAY_SECONDS = 15.0
"""Ray's shutdown takes half of that when its control service (GCS) is gone."""


class Processes:
    """The processes that Ray starts on this machine.

    Attributes:
        own: those that this process has started; they start all others.
    """

    def __init__(self) -> None:
        self.own: list[Any] = []  # of Ray's own class below Popen
        self._watch: subprocess.Popen[bytes] | None = None

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        """Start the processes that Ray starts in the block in sessions of their own.

        Batch systems signal a whole process group, and Ray must outlive that signal:
        the driver still saves the run. The kernel ends Ray when the driver is killed.
        A release of Ray without the class that is replaced here stays in the group.
        """
        services: Any = sys.modules.get("ray._private.services")
        started, before = self.own, getattr(services, "ConsolePopen", None)
        if before is None:
            yield
            return

        class Apart(before):  # type: ignore[misc, valid-type]
            def __init__(self, *arguments: Any, **settings: Any) -> None:
                # Elsewhere, Ray ends them by their process group.
                settings["start_new_session"] = sys.platform == "linux"
                super().__init__(*arguments, **settings)
                started.append(self)

        services.ConsolePopen = Apart
        try:
            yield
        finally:
            services.ConsolePopen = before

    @property
    def is_broken(self) -> bool:
        """Whether a process has ended without which Ray can't work."""
        return any(
            Path(each.args[0]).name in _VITAL and each.poll() is not None
            for each in self.own
        )

    def all(self) -> list[psutil.Process]:
        """Return the processes that are alive, and all that they have started."""
        found, pids = [], {each.pid for each in self.own}
        for process in psutil.Process().children(recursive=True):  # parents come first
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.pid in pids or process.ppid() in pids:
                    pids.add(process.pid)
                    found.append(process)
        return found

    def watch(self) -> None:
        """End Ray's agents when this process is killed; they would survive for 60 s.

        A shell waits for the end of a pipe that only this process holds open.
        """
        agents = [str(each.pid) for each in self.all() if each.name().endswith("Agent")]
        self._watch = subprocess.Popen(
            ["/bin/sh", "-c", 'read -r word || kill -9 "$@"', "watch", *agents],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # away from Ctrl-C
        )

    def end(
        self, below: list[psutil.Process] | None = None, seconds: float = 0
    ) -> None:
        """Kill the processes that are still alive after some seconds.

        Args:
            below: what `all` returned before Ray ended; None for the current ones.
            seconds: to wait.
        """
        _, alive = psutil.wait_procs(self.all() if below is None else below, seconds)
        for process in alive:
            with contextlib.suppress(psutil.Error):
                process.kill()
        for each in self.own:
            with contextlib.suppress(subprocess.TimeoutExpired):
                each.wait(_REAP_SECONDS)
        if self._watch is not None:
            self._watch.communicate(b"done\n")


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
    link: authentication.DashboardLink | None = None
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
