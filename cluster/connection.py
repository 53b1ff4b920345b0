"""Starting Ray on this machine, or joining a cluster, quietly and in bounded time."""

import atexit
import contextlib
import logging
import os
import secrets
import shutil
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from xagents_ray.config import PlacementConfig
from xagents_ray.errors import Broken, Stopped, UserError
from xagents_ray.quiet import stderr_parked
from xagents_ray.signals import Signals

_HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
_SETTINGS_FRAME = 4
_PROBE_SECONDS = 5.0
_RETAKE_SECONDS = 0.02
_SMALLEST_STORE = 128 * 2**20
_TOKEN = secrets.token_hex(32)
"""Of every Ray that this process starts: Ray reads it once."""


@dataclass
class _Begun:
    """What was here before this process started a Ray of its own."""

    environment: dict[str, str]
    children: list[psutil.Process]
    watch: "subprocess.Popen[bytes] | None" = None


_begun: list[_Begun] = []


def start(
    placement: PlacementConfig, store_bytes: int, signals: Signals, logs: bool = False
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
            end(started(), seconds=0)
            # Ray's client aborts when it misses what it was connecting to.
            atexit.register(os._exit, 128 + signals.received)
            raise Stopped
    return outcome.result()


def connect(
    address: str | None, dashboard: bool, store_bytes: int, logs: bool = False
) -> Any:
    """Start Ray here, or join the cluster at `address`; return the module `ray`.

    Args:
        address: host:port of a cluster; None starts one on this machine.
        dashboard: serve Ray's dashboard on 127.0.0.1.
        store_bytes: of the object store, for the data in flight.
        logs: print what Ray's workers print.
    Raises:
        UserError: the cluster does not answer, or refuses the token.
        Broken: Ray does not start.
    """
    begun = _Begun(dict(os.environ), psutil.Process().children(recursive=True))
    if address is not None:
        ray = _join(address, logs)
        # Not before: `disconnect` must leave alone a Ray that was not joined.
        _begun.append(begun)
        return ray
    _begun.append(begun)
    # Ray's ports are open to the network: only this run knows the token.
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN"] = _TOKEN
    # Workers would be starved by a busy neighbour at Ray's niceness of 15.
    os.environ.setdefault("RAY_worker_niceness", "0")
    ray, bytes_ = _import(logs), store(store_bytes)
    try:
        ray.init(
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
    _no_escape_at_exit()
    _leave_nothing()
    return ray


def _leave_nothing() -> None:
    """End Ray's agents when this process is killed; they would live on for 60 s.

    A shell waits for the end of a pipe that only this process holds open.
    """
    agents = [str(child.pid) for child in started() if child.name().endswith("Agent")]
    _begun[-1].watch = subprocess.Popen(
        ["/bin/sh", "-c", 'read -r word || kill -9 "$@"', "watch", *agents],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is not for it
    )


def started() -> list[psutil.Process]:
    """Return the processes below this one that Ray has started."""
    if not _begun:
        return []
    before, watch = _begun[-1].children, _begun[-1].watch
    return [
        child
        for child in psutil.Process().children(recursive=True)
        if child not in before and (watch is None or child.pid != watch.pid)
    ]


def disconnect(ray: Any) -> None:
    """Leave Ray where `start` joined it; what it started here is gone afterwards."""
    if not _begun:
        return
    children = started()
    ray.shutdown()
    end(children, seconds=2)
    begun = _begun.pop()
    if begun.watch is not None:
        begun.watch.communicate(b"done\n")
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        os.environ.pop(name, None)
        if name in begun.environment:
            os.environ[name] = begun.environment[name]


def end(processes: list[psutil.Process], seconds: float) -> None:
    """Kill what is still alive after some seconds."""
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.kill()


def _import(logs: bool) -> Any:
    import ray
    import ray._private.worker as worker

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


def _join(address: str, logs: bool) -> Any:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise UserError(
            f"--address {address} is not host:port; Ray's port is 6379 unless chosen."
        )
    reason = _silence(host, int(port))
    if reason:
        raise UserError(
            f"No Ray cluster answers at {address} ({reason}): check the address, "
            "or start one with `ray start --head`."
        )
    has_token = "RAY_AUTH_TOKEN" in os.environ or "RAY_AUTH_TOKEN_PATH" in os.environ
    has_token = has_token or (Path.home() / ".ray" / "auth_token").is_file()
    os.environ.setdefault("RAY_AUTH_MODE", "token" if has_token else "disabled")
    os.environ["RAY_NUM_REDIS_GET_RETRIES"] = "1"
    ray = _import(logs)
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(_discarded_stderr())
            ray.init(
                address=address, log_to_driver=logs, logging_level=logging.CRITICAL
            )
    except Exception as error:
        raise _refused(address, error) from None
    _no_escape_at_exit()
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
    text = f"{error} {error.__cause__}"
    if "Authentication" in text or "AuthToken" in text:
        return UserError(
            f"The Ray cluster at {address} wants a token: set RAY_AUTH_TOKEN to the "
            "cluster's own (`ray get-auth-token` prints it there)."
        )
    first = str(error).strip().splitlines()[0].rstrip(".")
    return UserError(
        f"The Ray cluster at {address} can't be joined: {first}; check that it runs "
        "the same versions of Ray and Python."
    )


def _silence(host: str, port: int) -> str:
    """Return why no gRPC server answers there; '' when one does."""
    try:
        with socket.create_connection((host, port), timeout=_PROBE_SECONDS) as link:
            link.settimeout(_PROBE_SECONDS)
            link.sendall(_HTTP2_GREETING)
            answer = link.recv(9)
    except TimeoutError:
        return "no answer"
    except OSError as error:
        return error.strerror or str(error)
    is_http2 = len(answer) >= 4 and answer[3] == _SETTINGS_FRAME
    return "" if is_http2 else "something else listens there"
