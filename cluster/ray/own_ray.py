"""Starting Ray on this machine, for one run or sweep."""

import contextlib
import ctypes
import logging
import os
import shutil
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from xagents_ray.cluster.ray import authentication
from xagents_ray.cluster.ray.ray_session import RayProcesses, RaySession
from xagents_ray.cluster.ray.user_folder import job_without_folder
from xagents_ray.core.errors import Broken, UserError

_INSTALL = "_ZN3ray6RayLog27InstallFailureSignalHandlerEPKcb"
"""Ray's function `RayLog::InstallFailureSignalHandler(const char *, bool)`."""
_SMALLEST_STORE = 128 * 2**20
_USUAL = {"RAY_worker_niceness": "0", "RAY_LOG_MONITOR_MANY_FILES_THRESHOLD": "0"}
"""With Ray's own niceness of 15, other busy processes would starve the workers.

The log monitor looks for new files ten times a second while it has fewer than that
number, otherwise twice.
"""
_UNSEEN = {"REPORTER_UPDATE_INTERVAL_MS": "60000"}
"""Only the dashboard shows what Ray's agent asks each process every 5 s.

With 128 env actors that takes 4 % of two cores.
"""


def start_here(
    session: RaySession,
    dashboard: bool,
    store_bytes: int,
    logs: bool,
    tries_again: Callable[[str], bool],
    requires_ray: bool,
) -> Any:
    """Start Ray on this machine; return the module `ray`.

    Args:
        session: the session, which gets Ray's processes and environment.
        dashboard: whether to serve the dashboard on 127.0.0.1.
        store_bytes: size of the object store, in bytes.
        logs: whether to print the output of Ray's workers.
        tries_again: function that is given the reason of a failed start, and returns
            whether to try once more: Ray has a limit of its own, 30 s.
        requires_ray: whether the command needs Ray even with --local.
    Raises:
        UserError: there is not enough shared memory, or no folder for Ray.
        Broken: Ray does not start.
    """
    usual = _USUAL if dashboard else _USUAL | _UNSEEN
    own = {name: os.environ.get(name, value) for name, value in usual.items()}
    session.set(authentication.for_own_ray() | own)
    bytes_ = object_store_size(store_bytes, requires_ray)
    ray = import_ray(logs)
    try:
        context = _init_twice(ray, session, dashboard, bytes_, logs, tries_again)
    except UserError:
        raise
    except Exception as error:
        instead = "" if requires_ray else ", or use --local"
        raise Broken(
            f"Ray did not start on this machine ({_reason(error)}): try again when the "
            f"machine is less busy{instead}."
        ) from None
    session.processes.watch()
    if dashboard:
        url, token = context.dashboard_url, os.environ["RAY_AUTH_TOKEN"]
        session.link = authentication.DashboardLink(url, token)
        session.notes.append(f"Ray's dashboard: {session.link.url}")
    return ray


def _init_twice(
    ray: Any,
    session: RaySession,
    dashboard: bool,
    store_bytes: int,
    logs: bool,
    tries_again: Callable[[str], bool],
) -> Any:
    """Return what `ray.init` returns; if it fails, call it once more."""
    try:
        return _init(ray, session, dashboard, store_bytes, logs)
    except Exception as error:
        if isinstance(error, UserError) or not tries_again(_reason(error)):
            raise
    _discard(ray, session)
    return _init(ray, session, dashboard, store_bytes, logs)


def _init(
    ray: Any, session: RaySession, dashboard: bool, store_bytes: int, logs: bool
) -> Any:
    folder = session.processes.create_folder()
    with session.processes.starting():
        return ray.init(
            address="local",
            _temp_dir=str(folder),
            include_dashboard=dashboard,
            dashboard_host="127.0.0.1",
            log_to_driver=logs,
            logging_level=logging.CRITICAL,
            object_store_memory=store_bytes,
            configure_logging=True,
            job_config=job_without_folder(ray),
        )


def _discard(ray: Any, session: RaySession) -> None:
    """End what a failed start has left, and its folder."""
    with contextlib.suppress(Exception):
        ray.shutdown()
    session.processes.end()
    session.processes.close()
    session.processes = RayProcesses()


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")


def import_ray(logs: bool) -> Any:
    """Return the module `ray`, imported quietly; `logs` shows its workers' output."""
    # In a notebook, Ray and its dependencies warn about missing widgets.
    logging.getLogger("ray.widgets.util").setLevel(logging.WARNING)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "IProgress not found")
        import ray

    keep_sigterm()
    authentication.tell_ray()
    worker: Any = sys.modules.get("ray._private.worker")

    # `log_to_driver=False` doesn't silence the raylet's notices about dead workers.
    if not logs and hasattr(worker, "_worker_logs_enabled"):
        worker._worker_logs_enabled = False
    return ray


def keep_sigterm() -> None:
    """Let Ray install its signal handlers now, then restore that of SIGTERM.

    Otherwise, `ray.init` installs them and holds the GIL for half a second, in which
    SIGTERM prints a stack trace before `start_ray` can restore the handler.
    """
    extension = ctypes.CDLL(str(sys.modules["ray._raylet"].__file__))
    install = getattr(extension, _INSTALL, None)
    if install is None:
        return  # renamed in another release of Ray
    install.argtypes = ctypes.c_char_p, ctypes.c_bool
    c = ctypes.CDLL(None)
    action = ctypes.create_string_buffer(1024)  # larger than a struct sigaction
    c.sigaction(signal.SIGTERM, None, action)
    install(None, True)
    c.sigaction(signal.SIGTERM, action, None)


def object_store_size(requested: int, requires_ray: bool = False) -> int:
    """Return an object store size that Ray accepts on this machine.

    `requires_ray` is as for `start_here`.

    Raises:
        UserError: there is not enough shared memory for Ray.
    """
    shared = Path("/dev/shm")
    if not shared.exists():
        return max(requested, _SMALLEST_STORE)
    room = int(shutil.disk_usage(shared).free * 0.8)
    if room < _SMALLEST_STORE:
        instead = "" if requires_ray else ", or use --local"
        raise UserError(
            f"/dev/shm has {room / 2**20:.0f} MiB to use and Ray's object store needs "
            f"128: enlarge it (docker run --shm-size=1g){instead}."
        )
    return min(max(requested, _SMALLEST_STORE), room)
