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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from xagents_ray.errors import UserError
from xagents_ray.quiet import stderr_parked

_HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
_SETTINGS_FRAME = 4
_PROBE_SECONDS = 5.0
_SMALLEST_STORE = 128 * 2**20


@dataclass
class _Begun:
    """What was here before this process started a Ray of its own."""

    environment: dict[str, str]
    children: list[psutil.Process]
    watch: "subprocess.Popen[bytes] | None" = None


_begun: list[_Begun] = []


def connect(address: str | None, dashboard: bool, store_bytes: int) -> Any:
    """Start Ray here, or join the cluster at `address`; return the module `ray`.

    Args:
        address: host:port of a cluster; None starts one on this machine.
        dashboard: serve Ray's dashboard on 127.0.0.1.
        store_bytes: of the object store, for the data in flight.
    Raises:
        UserError: the cluster does not answer, or refuses the token.
    """
    if address is not None:
        return _join(address)
    _begun.append(_Begun(dict(os.environ), psutil.Process().children(recursive=True)))
    # Ray's ports are open to the network: only this run knows the token.
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    # Workers would be starved by a busy neighbour at Ray's niceness of 15.
    os.environ.setdefault("RAY_worker_niceness", "0")
    ray = _import()
    ray.init(
        address="local",
        include_dashboard=dashboard,
        dashboard_host="127.0.0.1",
        log_to_driver=False,
        logging_level=logging.CRITICAL,
        object_store_memory=_store(store_bytes),
        configure_logging=True,
    )
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
    """Leave Ray; whatever it started here is gone afterwards."""
    children = started()
    ray.shutdown()
    end(children, seconds=2)
    if _begun:
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


def _import() -> Any:
    import ray
    import ray._private.worker as worker

    # `log_to_driver=False` leaves the raylet's notices about dead workers on.
    if hasattr(worker, "_worker_logs_enabled"):
        worker._worker_logs_enabled = False
    return ray


def _store(wanted: int) -> int:
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


def _join(address: str) -> Any:
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
    ray = _import()
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(_discarded_stderr())
            ray.init(
                address=address, log_to_driver=False, logging_level=logging.CRITICAL
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
