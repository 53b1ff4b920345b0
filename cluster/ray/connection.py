"""Starting Ray on this machine, or joining a cluster, quietly and in bounded time."""

import atexit
import contextlib
import logging
import os
import shutil
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xagents_ray.cluster.ray import authentication, probe
from xagents_ray.cluster.ray.dashboard import Link
from xagents_ray.cluster.ray.processes import Processes
from xagents_ray.core.errors import Broken, Stopped, UserError
from xagents_ray.core.quiet import stderr_parked
from xagents_ray.core.signals import Signals
from xagents_ray.settings.run import ConnectionConfig

_RETAKE_SECONDS = 0.02
_SIGNALLED_SECONDS = 5.0
_WITHOUT_RAY_SECONDS = 15.0
"""Ray's shutdown takes half of that when its control service (GCS) is gone."""
_SMALLEST_STORE = 128 * 2**20


@dataclass
class _Connection:
    """To a Ray that this process has started or joined.

    Attributes:
        environment: what was there before of the variables that Ray needed.
        processes: of Ray; none where it was joined.
        head: of the cluster that was joined.
        dashboard: URL of Ray's, where it was asked for; "" otherwise.
        link: serves that URL where Ray wants its token.
        signals: that end what Ray is needed for.
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
        """Let variables be what they were."""
        for name, value in self.environment.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        authentication.tell_ray()

    @property
    def is_lost(self) -> bool:
        """Whether Ray is gone for good."""
        if self.head is not None and self.head.is_gone:
            return True
        return self.processes.is_broken

    def leave(self, ray: Any, farewell: Callable[[], None]) -> None:
        """Shut Ray down, in bounded time where that may take a minute."""
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
            atexit.register(_end_now, code)


_open: list[_Connection] = []


def start(
    placement: ConnectionConfig, store_bytes: int, signals: Signals, logs: bool = False
) -> Any:
    """Connect in a thread, and take SIGTERM back from Ray as soon as it has it.

    Where this process is one of Ray's already, as a trial of a sweep is, nothing is
    started, and `disconnect` ends nothing.

    Args:
        placement: where Ray is.
        store_bytes: see `connect`.
        signals: end the wait.
        logs: see `connect`.
    Returns:
        The module `ray`.
    Raises:
        Stopped: a signal came.
        UserError: see `connect`.
    """
    ray, outcome = sys.modules.get("ray"), Future[Any]()
    if ray is not None and ray.is_initialized():
        return ray

    def connecting() -> None:
        try:
            address, dashboard = placement.address, placement.dashboard
            outcome.set_result(connect(address, dashboard, store_bytes, logs))
        except BaseException as error:
            outcome.set_exception(error)
        threading.Event().wait()  # Ray's processes end with the thread they began in

    threading.Thread(target=connecting, daemon=True).start()
    while not outcome.done():
        wait([outcome], timeout=_RETAKE_SECONDS)
        signals.take()
        if signals.received is not None:
            for connection in list(_open):
                connection.processes.end()
            # Ray's client aborts when it misses what it was connecting to.
            atexit.register(_end_now, 128 + signals.received)
            raise Stopped
    ray = outcome.result()
    _open[-1].signals = signals
    return ray


def connect(
    address: str | None, dashboard: bool, store_bytes: int, logs: bool = False
) -> Any:
    """Start Ray here, or join the cluster at `address`; return the module `ray`.

    Args:
        address: host:port of a cluster; None starts one on this machine.
        dashboard: serve Ray's dashboard on 127.0.0.1, or find the cluster's.
        store_bytes: of the object store, for the data in flight.
        logs: print what Ray's workers print.
    Raises:
        UserError: the cluster does not answer, or refuses the token.
        Broken: Ray does not start.
    """
    connection = _Connection()
    _open.append(connection)
    try:
        if address is not None:
            ray = _join(connection, address, dashboard, logs)
        else:
            ray = _begin(connection, dashboard, store_bytes, logs)
    except BaseException:
        _open.remove(connection)
        connection.processes.end()
        connection.restore()
        raise
    _no_escape_at_exit()
    return ray


def notes() -> list[str]:
    """Return what the user should know of the Ray that was started or joined here."""
    urls = [connection.dashboard for connection in _open if connection.dashboard]
    return [f"Ray's dashboard: {url}" for url in urls]


def is_lost() -> bool:
    """Return whether the Ray that was started or joined here is gone for good."""
    return any(connection.is_lost for connection in _open)


def disconnect(ray: Any, farewell: Callable[[], None] = lambda: None) -> None:
    """Leave Ray where `start` joined it; what it started here is gone afterwards.

    Args:
        ray: the module.
        farewell: calls Ray for the last time.
    """
    if not _open:
        farewell()
        return
    _open.pop().leave(ray, farewell)


def _end_now(code: int) -> None:
    """End this process without Ray's client, which waits for what is gone."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _begin(
    connection: _Connection, dashboard: bool, store_bytes: int, logs: bool
) -> Any:
    """Start Ray on this machine."""
    connection.set(authentication.for_own_ray())
    # Workers would be starved by a busy neighbor at Ray's niceness of 15.
    if "RAY_worker_niceness" not in os.environ:
        connection.set({"RAY_worker_niceness": "0"})
    bytes_ = store(store_bytes)
    ray = _import(logs)
    try:
        with connection.processes.starting():
            context = ray.init(
                address="local",
                include_dashboard=dashboard,
                dashboard_host="127.0.0.1",
                log_to_driver=logs,
                logging_level=logging.CRITICAL,
                object_store_memory=bytes_,
                configure_logging=True,
            )
    except Exception as error:
        first = str(error).strip().splitlines()[0].rstrip(".")
        raise Broken(
            f"Ray did not start on this machine ({first}): try again when the machine "
            "is less busy, or use --local."
        ) from None
    connection.processes.watch()
    if dashboard:
        connection.link = Link(context.dashboard_url, os.environ["RAY_AUTH_TOKEN"])
        connection.dashboard = connection.link.url
    return ray


def _import(logs: bool) -> Any:
    import ray
    import ray._private.worker as worker

    authentication.tell_ray()

    # `log_to_driver=False` leaves the raylet's notices about dead workers on.
    if not logs and hasattr(worker, "_worker_logs_enabled"):
        worker._worker_logs_enabled = False
    return ray


def store(wanted: int) -> int:
    """Return an object store's size that Ray accepts on this machine."""
    shared = Path("/dev/shm")
    if not shared.exists():
        return max(wanted, _SMALLEST_STORE)
    room = int(shutil.disk_usage(shared).free * 0.8)
    if room < _SMALLEST_STORE:
        raise UserError(
            f"/dev/shm has {room / 2**20:.0f} MiB to use and Ray's object store needs "
            "128: enlarge it (docker run --shm-size=1g), or use --local."
        )
    return min(max(wanted, _SMALLEST_STORE), room)


def _no_escape_at_exit() -> None:
    """Keep Ray's colour library from writing a reset code to the terminal."""
    colours = sys.modules.get("colorama.initialise")
    if colours is not None:
        atexit.unregister(colours.reset_all)


def _join(connection: _Connection, address: str, dashboard: bool, logs: bool) -> Any:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise UserError(
            f"--address {address} is not host:port; Ray's port is 6379 unless chosen."
        )
    reason = probe.silence(host, int(port))
    if reason:
        raise UserError(
            f"No Ray cluster answers at {address} ({reason}): check the address, "
            "or start one with `ray start --head`."
        )
    connection.set(authentication.for_cluster(address))
    connection.set({"RAY_NUM_REDIS_GET_RETRIES": "1"})
    ray = _import(logs)
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(_discarded_stderr())
            context = ray.init(
                address=address, log_to_driver=logs, logging_level=logging.CRITICAL
            )
    except Exception as error:
        raise _refused(address, error) from None
    if dashboard and context.dashboard_url:
        connection.dashboard = f"http://{context.dashboard_url}"
    connection.head = probe.Head(host, int(port), probe.patience())
    return ray


@contextlib.contextmanager
def _discarded_stderr() -> Any:
    """Drop what the C++ client writes; its errors arrive as exceptions."""
    failure: list[Exception] = []
    with stderr_parked():
        try:
            yield
        except Exception as error:
            failure.append(error)
    if failure:
        raise failure[0]


def _refused(address: str, error: Exception) -> UserError:
    text = f"{error} {error.__cause__}".lower()
    if "authentication" in text or "authtoken" in text:
        return UserError(
            f"The Ray cluster at {address} wants a token: set RAY_AUTH_TOKEN to the "
            "cluster's own (`ray get-auth-token` prints it there)."
        )
    first = str(error).strip().splitlines()[0].rstrip(".")
    return UserError(
        f"The Ray cluster at {address} can't be joined: {first}; check that it runs "
        "the same versions of Ray and Python."
    )
