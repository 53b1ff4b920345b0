"""Starting Ray on this machine, or joining a cluster, quietly and with time limits."""

import atexit
import ctypes
import logging
import os
import shutil
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

from xagents_ray.cluster.ray import authentication, ray_session, tls
from xagents_ray.cluster.ray.ray_session import RaySession
from xagents_ray.cluster.ray.session_folder import exposed_folder
from xagents_ray.cluster.ray.user_folder import job_without_folder, join_with_folder
from xagents_ray.core.errors import Broken, Stopped, UserError
from xagents_ray.core.process import quiet_stderr
from xagents_ray.core.signals import Signals
from xagents_ray.core.user_code import folder_of_modules
from xagents_ray.settings.run import ConnectionConfig

_RETAKE_SECONDS = 0.02
_INSTALL = "_ZN3ray6RayLog27InstallFailureSignalHandlerEPKcb"
"""Ray's function `RayLog::InstallFailureSignalHandler(const char *, bool)`."""
_SMALLEST_STORE = 128 * 2**20
_open: list[RaySession] = []


def start_ray(
    placement: ConnectionConfig,
    store_bytes: int,
    signals: Signals,
    note: Callable[[str], None],
    logs: bool = False,
) -> Any:
    """Call `connect_to_ray` in a thread; reinstall our SIGTERM handler after Ray's.

    If this process already uses Ray, as a sweep's trial does, nothing is started, and
    `leave_ray` ends nothing. `note` is called with a message before a slow start.

    Raises:
        Stopped: a signal was received.
        UserError, Broken: raised by `connect_to_ray`.
    """
    ray, outcome = sys.modules.get("ray"), Future[Any]()
    if ray is not None and ray.is_initialized():
        return _in_use(ray, placement.address)
    where = placement.address
    begun = "Starting Ray" if where is None else f"Joining the Ray cluster at {where}"
    note(f"{begun}...")

    def connecting() -> None:
        try:
            joined = connect_to_ray(where, placement.dashboard, store_bytes, logs)
            outcome.set_result(joined)
        except BaseException as error:
            outcome.set_exception(error)
        threading.Event().wait()  # Ray's processes end with this thread

    threading.Thread(target=connecting, daemon=True).start()
    while not outcome.done():
        wait([outcome], timeout=_RETAKE_SECONDS)
        signals.take()
        if signals.received is not None:
            _quiet_threads()
            for session in list(_open):
                session.processes.end()
            # Ray's client aborts if Ray disappears while it connects.
            atexit.register(ray_session.end_now, 128 + signals.received)
            raise Stopped
    ray = outcome.result()
    _open[-1].signals = signals
    return ray


def _quiet_threads() -> None:
    """Suppress tracebacks of Ray's threads, which fail when Ray ends."""
    shown = threading.excepthook

    def show(args: threading.ExceptHookArgs) -> None:
        if args.thread is None or not args.thread.name.startswith("ray_"):
            shown(args)

    threading.excepthook = show


def _in_use(ray: Any, address: str | None) -> Any:
    """Return the `ray` module in use; UserError if connected to another address."""
    own = None
    if address is not None:
        own = getattr(ray.get_runtime_context(), "gcs_address", "")
    if address != own:
        raise UserError(
            f"--address {address} is not the Ray at {own} that this program uses: give "
            "address=None to use that one, or call ray.shutdown() first."
        )
    if _open:  # a nested run
        _open[-1].guests += 1
    return ray


def connect_to_ray(
    address: str | None, dashboard: bool, store_bytes: int, logs: bool = False
) -> Any:
    """Start Ray here, or join the cluster at `address`; return the module `ray`.

    Args:
        address: address of a cluster, host:port; None starts Ray on this machine.
        dashboard: whether to serve the dashboard on 127.0.0.1, or find the cluster's.
        store_bytes: size of the object store, in bytes, for the data in flight.
        logs: whether to print the output of Ray's workers.
    Raises:
        UserError: the cluster does not answer, or refuses the token.
        Broken: Ray does not start.
    """
    session = RaySession()
    _open.append(session)
    try:
        if address is not None:
            ray = _join(session, address, dashboard, logs)
        else:
            ray = _begin(session, dashboard, store_bytes, logs)
    except BaseException:
        _open.remove(session)
        session.processes.end()
        session.processes.close()
        session.restore()
        raise
    colorama = sys.modules.get("colorama.initialise")
    if colorama is not None:  # Ray's color library would write to the terminal at exit
        atexit.unregister(colorama.reset_all)
    return ray


def ray_notes() -> list[str]:
    """Return notes for the user on the current Ray connection."""
    return [note for session in _open for note in session.notes]


def current_session() -> RaySession:
    """Return the current Ray connection."""
    return _open[-1]


def is_lost() -> bool:
    """Return whether the current Ray instance or cluster is lost for good."""
    return any(session.is_lost for session in _open)


def leave_ray(ray: Any, farewell: Callable[[], None] = lambda: None) -> None:
    """Call `farewell` and disconnect; shut Ray down if this process started it."""
    if not _open or _open[-1].lose_guest():
        farewell()
        return
    _open.pop().leave(ray, farewell)


def _begin(session: RaySession, dashboard: bool, store_bytes: int, logs: bool) -> Any:
    """Start Ray on this machine."""
    # At Ray's default niceness of 15, other busy processes would starve the workers.
    niceness = {"RAY_worker_niceness": os.environ.get("RAY_worker_niceness", "0")}
    session.set(authentication.for_own_ray() | niceness)
    bytes_ = object_store_size(store_bytes)
    ray = _import(logs)
    folder = session.processes.create_folder()
    try:
        with session.processes.starting():
            context = ray.init(
                address="local",
                _temp_dir=str(folder),
                include_dashboard=dashboard,
                dashboard_host="127.0.0.1",
                log_to_driver=logs,
                logging_level=logging.CRITICAL,
                object_store_memory=bytes_,
                configure_logging=True,
                job_config=job_without_folder(ray),
            )
    except Exception as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise Broken(
            f"Ray did not start on this machine ({reason}): try again when the machine "
            "is less busy, or use --local."
        ) from None
    session.processes.watch()
    if dashboard:
        url, token = context.dashboard_url, os.environ["RAY_AUTH_TOKEN"]
        session.link = authentication.DashboardLink(url, token)
        session.notes.append(f"Ray's dashboard: {session.link.url}")
    return ray


def _import(logs: bool) -> Any:
    # In a notebook, Ray and its dependencies warn about missing widgets.
    logging.getLogger("ray.widgets.util").setLevel(logging.WARNING)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "IProgress not found")
        import ray

    _keep_sigterm()
    authentication.tell_ray()
    worker: Any = sys.modules.get("ray._private.worker")

    # `log_to_driver=False` doesn't silence the raylet's notices about dead workers.
    if not logs and hasattr(worker, "_worker_logs_enabled"):
        worker._worker_logs_enabled = False
    return ray


def _keep_sigterm() -> None:
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


def object_store_size(requested: int) -> int:
    """Return an object store size that Ray accepts on this machine.

    Raises:
        UserError: there is not enough shared memory for Ray.
    """
    shared = Path("/dev/shm")
    if not shared.exists():
        return max(requested, _SMALLEST_STORE)
    room = int(shutil.disk_usage(shared).free * 0.8)
    if room < _SMALLEST_STORE:
        raise UserError(
            f"/dev/shm has {room / 2**20:.0f} MiB to use and Ray's object store needs "
            "128: enlarge it (docker run --shm-size=1g), or use --local."
        )
    return min(max(requested, _SMALLEST_STORE), room)


def _join(session: RaySession, address: str, dashboard: bool, logs: bool) -> Any:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise UserError(
            f"--address {address} is not host:port; Ray's port is 6379 unless chosen."
        )
    host = host.removeprefix("[").removesuffix("]")  # IPv6
    encrypted = tls.tls_context()
    if reason := ray_session.why_silent(host, int(port), encrypted):
        raise UserError(
            f"No Ray cluster answers at {address} ({reason}): check the address, "
            "or start one with `ray start --head`."
        )
    retries = {"RAY_NUM_REDIS_GET_RETRIES": "1"}
    session.set(authentication.for_cluster(address) | retries)
    ray = _import(logs)
    failure: Exception | None = None
    joining = {"log_to_driver": logs, "logging_level": logging.CRITICAL}
    with quiet_stderr():
        try:
            context = ray.init(address, **joining)
        except Exception as error:  # has what the suppressed C++ log says
            failure = error
    if failure is not None:
        raise _refused(address, failure)
    folder = folder_of_modules()
    # `ray job submit --working-dir` has sent the folder already.
    is_sent = "working_dir" in ray.get_runtime_context().runtime_env
    if folder is not None and has_other_machines(ray) and not is_sent:
        ray.shutdown()
        context, note = join_with_folder(ray, address, folder, joining)
        session.notes.append(note)
    if dashboard and context.dashboard_url:
        session.notes.append(f"Ray's dashboard: http://{context.dashboard_url}")
    open_to_all = authentication.open_to_all(address)
    session.exposed_token = "" if open_to_all else authentication.exposed_token()
    session.exposed_folder = exposed_folder(Path(context.address_info["session_dir"]))
    notes = (open_to_all, session.exposed_token, session.exposed_folder)
    session.notes += filter(None, notes)
    limit = ray_session.silence_limit()
    session.head = ray_session.HeadProbe(host, int(port), limit, encrypted)
    return ray


def has_other_machines(ray: Any) -> bool:
    """Return whether the cluster has nodes on several machines."""
    return len({node["NodeManagerAddress"] for node in ray.nodes()}) > 1


def _refused(address: str, error: Exception) -> UserError:
    text = f"{error} {error.__cause__}".lower()
    if "authentication" in text or "authtoken" in text:
        return UserError(
            f"The Ray cluster at {address} requires a token: set RAY_AUTH_TOKEN to the "
            "cluster's own (`ray get-auth-token` prints it there)."
        )
    reason = " ".join(str(error).split()).rstrip(".")
    return UserError(
        f"The Ray cluster at {address} can't be joined: {reason}; run the command on a "
        f"node of the cluster (`ray start --address {address} --num-cpus 0` makes this "
        "machine one), and check that it runs the same versions of Ray and Python."
    )
