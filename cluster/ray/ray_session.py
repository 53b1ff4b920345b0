"""A Ray that was started or joined by this process: its processes, or its head."""

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
from xagents_ray.core.signals import Signals

_HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
_SETTINGS_FRAME = 4
_PROBE_SECONDS = 5.0
_REPEAT_SECONDS = 1.0
_REAP_SECONDS = 1.0
_VITAL = ("gcs_server", "raylet")
_SIGNALLED_SECONDS = 5.0
_WITHOUT_RAY_SECONDS = 15.0
"""Ray's shutdown takes half of that when its control service (GCS) is gone."""


def why_silent(host: str, port: int, context: ssl.SSLContext | None = None) -> str:
    """Return why no gRPC server answers at an address; "" if one answers.

    The context is that of TLS, None if it is off.
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
    except UnicodeError:  # of a label that is empty or too long
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
    """Return the seconds for which a head may be silent.

    A head that stores its state elsewhere may restart. After twice this time, which
    Ray's variable sets, Ray's client ends this process without a message.
    """
    return float(os.environ.get("RAY_gcs_rpc_server_reconnect_timeout_s", 60)) / 2


class HeadProbe:
    """Probes the control service (GCS) of a cluster's head in a thread.

    After some seconds of silence, the head counts as lost for good.
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
        # Those that this process has started, which start all others; of Ray's own
        # class below Popen.
        self.own: list[Any] = []
        self._watch: subprocess.Popen[bytes] | None = None

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        """Start the processes that Ray starts in the block in their own sessions.

        Batch systems signal a whole process group, and Ray must survive that signal so
        that the driver can save the run. The kernel ends Ray when the driver is killed.
        Releases of Ray without the class that is replaced here stay in the group.
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
        """Whether a process that Ray can't work without has ended."""
        return any(
            Path(each.args[0]).name in _VITAL and each.poll() is not None
            for each in self.own
        )

    def all(self) -> list[psutil.Process]:
        """Return the living processes, and all that they have started."""
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

        `below` is what `all` returned before Ray ended; None means the current
        processes.
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
    """A Ray that this process has started or joined."""

    # Previous values of the variables that were set for Ray.
    environment: dict[str, str | None] = field(default_factory=dict)
    # Ray's own on this machine; none of a cluster that was joined.
    processes: RayProcesses = field(default_factory=RayProcesses)
    head: HeadProbe | None = None  # of the cluster that was joined
    notes: list[str] = field(default_factory=list)  # for the user, a sentence each
    # To the dashboard of a Ray that has a token.
    link: authentication.DashboardLink | None = None
    signals: Signals | None = None  # end what Ray is needed for
    guests: int = 0  # runs within the one that it was opened for

    def set(self, environment: Mapping[str, str]) -> None:
        """Set environment variables until `restore`."""
        for name, value in environment.items():
            self.environment.setdefault(name, os.environ.get(name))
            os.environ[name] = value

    def restore(self) -> None:
        """Restore the previous values of the environment variables."""
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

    def lose_guest(self) -> bool:
        """Note that a guest has ended; return whether there was one."""
        had, self.guests = self.guests > 0, max(0, self.guests - 1)
        return had

    def leave(self, ray: Any, farewell: Callable[[], None]) -> None:
        """Shut Ray down, with a time limit if that may take a minute.

        `farewell` makes the last calls to Ray; it is skipped when Ray is lost.
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
    """End this process without Ray's client, which would wait for what is lost."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
