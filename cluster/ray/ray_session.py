"""A Ray instance that this process has started, or a cluster that it has joined."""

import atexit
import contextlib
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from xagents_ray.cluster.ray import authentication
from xagents_ray.cluster.ray.closing import CLOSE_SECONDS
from xagents_ray.cluster.ray.session_folder import create_private_folder
from xagents_ray.core.process import end_now
from xagents_ray.core.signals import Signals

_HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
_SETTINGS_FRAME = 4
_PROBE_SECONDS = 5.0
_REPEAT_SECONDS = 1.0
_REAP_SECONDS = 1.0
_VITAL = ("gcs_server", "raylet")
_SIGNALLED_SECONDS = CLOSE_SECONDS + 5.0
_WITHOUT_RAY_SECONDS = 15.0
"""Limit of Ray's shutdown, which takes half of it if the control service is gone."""
_WATCH = """\
folder=$1; shift
while read -r word && [ "$word" != done ]; do set -- "$@" "$word"; done
[ "$word" = done ] || kill -9 "$@"
for second in 1 2 3 4 5 6 7 8 9 10; do rm -rf "$folder" && exit; sleep 1; done
"""
"""Removes a folder at the end; without `done`, kills the processes that it was told.

What still ends may write to the folder while it is removed.
"""


def why_silent(host: str, port: int, context: ssl.SSLContext | None = None) -> str:
    """Return why no gRPC server answers at an address; "" if one answers.

    `context` is the TLS context; None without TLS.
    """
    try:
        link = socket.create_connection((host, port), timeout=_PROBE_SECONDS)
        if context is not None:
            link = context.wrap_socket(link, server_hostname=host)
        with link:
            link.settimeout(_PROBE_SECONDS)
            link.sendall(_HTTP2_GREETING)
            answer = link.recv(9)
    except TimeoutError:
        return "no answer"
    except ssl.SSLError as error:
        why = getattr(error, "verify_message", "") or error.reason
        return f"RAY_USE_TLS is set, and TLS fails: {why}"
    except UnicodeError:  # a label is empty or too long
        return "not the name of a machine"
    except OSError as error:
        return error.strerror or str(error)
    if len(answer) >= 4 and answer[3] == _SETTINGS_FRAME:
        return ""
    if answer:
        return "something else listens there"
    if context is not None:
        return "it refuses the certificate that RAY_TLS_SERVER_CERT names"
    return "it closes the connection: a cluster with TLS needs RAY_USE_TLS=1 here too"


def silence_limit() -> float:
    """Return the number of seconds for which a head node may be silent.

    A head with external storage may restart. After twice this time, the timeout in
    Ray's environment variable, Ray's client ends this process without a message.
    """
    return float(os.environ.get("RAY_gcs_rpc_server_reconnect_timeout_s", 60)) / 2


class HeadProbe:
    """Probes the control service (GCS) of a cluster's head in a thread.

    After `seconds` of silence, the head is considered lost for good.
    """

    def __init__(
        self,
        host: str,
        port: int,
        seconds: float,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._address, self._seconds = (host, port, context), seconds
        self._silent_since: float | None = None
        self._closed = threading.Event()
        threading.Thread(target=self._probe, daemon=True).start()

    @property
    def silent_seconds(self) -> float:
        """Seconds since the head last answered; 0 if it answered the last probe."""
        since = self._silent_since
        return 0.0 if since is None else time.monotonic() - since

    @property
    def is_gone(self) -> bool:
        """Whether the head has been silent for too long."""
        return self.silent_seconds > self._seconds

    def close(self) -> None:
        self._closed.set()

    def _probe(self) -> None:
        while not self._closed.wait(_REPEAT_SECONDS):
            began = time.monotonic()
            if not why_silent(*self._address):
                self._silent_since = None
            elif self._silent_since is None:
                self._silent_since = began


class RayProcesses:
    """The processes that Ray starts on this machine."""

    def __init__(self) -> None:
        # Children of this process, which start all others; Ray's subclass of Popen.
        self.own: list[Any] = []
        self._watch: subprocess.Popen[bytes] | None = None

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        """Give each process that Ray starts within the block its own session.

        Batch systems signal a whole process group, and Ray must survive that signal so
        that the driver can save the run. The kernel ends Ray when the driver is killed.
        Releases of Ray without `ConsolePopen` keep their processes in the group.
        """
        services: Any = sys.modules.get("ray._private.services")
        started, before = self.own, getattr(services, "ConsolePopen", None)
        if before is None:
            yield
            return

        class Apart(before):  # type: ignore[misc, valid-type]
            def __init__(self, *arguments: Any, **settings: Any) -> None:
                # On other systems, Ray ends them by process group.
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
        """Whether a process that Ray can't work without has ended."""
        return any(
            Path(each.args[0]).name in _VITAL and each.poll() is not None
            for each in self.own
        )

    def all(self) -> list[psutil.Process]:
        """Return Ray's live processes and all of their descendants."""
        found, pids = [], {each.pid for each in self.own}
        for process in psutil.Process().children(recursive=True):  # parents come first
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.pid in pids or process.ppid() in pids:
                    pids.add(process.pid)
                    found.append(process)
        return found

    def create_folder(self) -> Path:
        """Create Ray's folder, which is removed by `close` or if this process ends.

        A shell waits for the end of a pipe that only this process keeps open.

        Raises:
            UserError: the folder can't be created.
        """
        private = create_private_folder()
        self._watch = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "watch", str(private)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # not reached by Ctrl-C
        )
        return private / "r"

    def watch(self) -> None:
        """Kill Ray's agents too if this process is killed; they'd survive for 60 s."""
        agents = [each.pid for each in self.all() if each.name().endswith("Agent")]
        if self._watch is not None and self._watch.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._watch.stdin.write("".join(f"{pid}\n" for pid in agents).encode())
                self._watch.stdin.flush()

    def end(
        self, below: list[psutil.Process] | None = None, seconds: float = 0
    ) -> None:
        """Kill the processes that are still alive after `seconds`.

        `below` is the result of `all` before Ray's shutdown; None calls it now.
        """
        _, alive = psutil.wait_procs(self.all() if below is None else below, seconds)
        for process in alive:
            with contextlib.suppress(psutil.Error):
                process.kill()
        for each in self.own:
            with contextlib.suppress(subprocess.TimeoutExpired):
                each.wait(_REAP_SECONDS)

    def close(self) -> None:
        """Remove Ray's folder, once its processes have ended."""
        if self._watch is not None:
            self._watch.communicate(b"done\n")
            self._watch = None


@dataclass
class RaySession:
    """A Ray instance that was started, or a cluster that was joined."""

    # Previous values of the variables that were set for Ray.
    environment: dict[str, str | None] = field(default_factory=dict)
    # Processes that were started here; none if a cluster was joined.
    processes: RayProcesses = field(default_factory=RayProcesses)
    head: HeadProbe | None = None  # probe of a cluster that was joined
    notes: list[str] = field(default_factory=list)  # for the user, a sentence each
    # What other users of this machine can read or write, in a sentence; "" if nothing.
    exposed_token: str = ""
    exposed_folder: str = ""
    # Link to the dashboard, if it was started here.
    link: authentication.DashboardLink | None = None
    signals: Signals | None = None  # signals that end the run
    guests: int = 0  # number of active nested runs

    def set(self, environment: Mapping[str, str | None]) -> None:
        """Set environment variables, or remove them by None, until `restore`."""
        for name in environment:
            self.environment.setdefault(name, os.environ.get(name))
        _set(environment)

    def restore(self) -> None:
        """Restore the previous values of the environment variables."""
        _set(self.environment)
        authentication.tell_ray()

    @property
    def is_lost(self) -> bool:
        """Whether Ray is lost for good."""
        if self.head is not None and self.head.is_gone:
            return True
        return self.processes.is_broken

    def lose_guest(self) -> bool:
        """Count the end of a nested run; return whether there was one."""
        had, self.guests = self.guests > 0, max(0, self.guests - 1)
        return had

    def leave(self, ray: Any, farewell: Callable[[], None]) -> None:
        """Shut Ray down, with a time limit after a signal or if Ray is lost.

        `farewell` makes the last calls to Ray; it is skipped if Ray is lost.
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
        self.processes.close()
        self.restore()
        if has_left:
            left.result()
        else:
            atexit.register(end_now, code)


def _set(environment: Mapping[str, str | None]) -> None:
    for name, value in environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
