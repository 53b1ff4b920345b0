"""Ray's processes on this machine: apart from this one, and gone when it is."""

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
    """The processes that Ray starts here, which no others are.

    Attributes:
        own: those that Ray started itself; they start all others.
    """

    def __init__(self) -> None:
        self.own: list[Any] = []  # of Ray's own class below Popen
        self._watch: subprocess.Popen[bytes] | None = None

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        """Let those that Ray starts in the block lead sessions of their own.

        Batch systems signal a whole process group. Ray must outlive that signal: the
        driver still saves the run. The kernel ends Ray when the driver is killed.
        A Ray without the class that is replaced here stays in this process' group.
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
        """Whether one has ended without which Ray can't go on."""
        return any(
            Path(each.args[0]).name in _VITAL and each.poll() is not None
            for each in self.own
        )

    def all(self) -> list[psutil.Process]:
        """Return those that are alive, with all that they have started."""
        found, pids = [], {each.pid for each in self.own}
        for process in psutil.Process().children(recursive=True):  # parents come first
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.pid in pids or process.ppid() in pids:
                    pids.add(process.pid)
                    found.append(process)
        return found

    def watch(self) -> None:
        """End Ray's agents when this process is killed; they would live on for 60 s.

        A shell waits for the end of a pipe that only this process holds open.
        """
        agents = [str(each.pid) for each in self.all() if each.name().endswith("Agent")]
        self._watch = subprocess.Popen(
            ["/bin/sh", "-c", 'read -r word || kill -9 "$@"', "watch", *agents],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is not for it
        )

    def end(
        self, below: list[psutil.Process] | None = None, seconds: float = 0
    ) -> None:
        """Kill what is still alive after some seconds.

        Args:
            below: what `all` gave before Ray ended; None for what there is now.
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
