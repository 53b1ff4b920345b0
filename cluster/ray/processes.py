"""Ray's processes on this machine: kept apart from this one, and ended with it."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

_REAP_SECONDS = 1.0
_VITAL = ("gcs_server", "raylet")


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
