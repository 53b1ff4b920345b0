"""Starting Ray on this machine, or joining a cluster, quietly and with time limits."""

import atexit
import logging
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

from xagents_ray.cluster.ray import addresses, authentication, ray_session, tls
from xagents_ray.cluster.ray.own_ray import import_ray, start_here
from xagents_ray.cluster.ray.ray_session import RaySession
from xagents_ray.cluster.ray.session_folder import exposed_folder
from xagents_ray.cluster.ray.user_folder import has_other_machines, join_with_folder
from xagents_ray.core.errors import Stopped, UserError
from xagents_ray.core.process import end_now, quiet_stderr
from xagents_ray.core.signals import Signals
from xagents_ray.core.user_code import folder_of_modules
from xagents_ray.settings.resources import ConnectionConfig

_RETAKE_SECONDS = 0.02
_open: list[RaySession] = []


def start_ray(
    placement: ConnectionConfig,
    store_bytes: int,
    signals: Signals,
    note: Callable[[str], None],
    logs: bool = False,
    requires_ray: bool = False,
) -> Any:
    """Call `connect_to_ray` in a thread; reinstall our SIGTERM handler after Ray's.

    If this process already uses Ray, as a sweep's trial does, nothing is started, and
    `leave_ray` ends nothing. `note` is called with a message before each slow start.
    `requires_ray` is as for `start_here`.

    Raises:
        Stopped: a signal was received.
        UserError, Broken: raised by `connect_to_ray`.
    """
    ray, outcome = sys.modules.get("ray"), Future[Any]()
    if ray is not None and ray.is_initialized():
        return _in_use(ray, placement.address)
    where = _announced(placement, note)

    dashboard = placement.dashboard

    def tries_again(reason: str) -> bool:
        if signals.received is None:
            note(f"Ray did not start ({reason}); trying once more...")
        return signals.received is None

    def connecting() -> None:
        try:
            joined = connect_to_ray(
                where, dashboard, store_bytes, logs, tries_again, requires_ray
            )
            outcome.set_result(joined)
        except BaseException as error:
            outcome.set_exception(error)
        threading.Event().wait()  # Ray's processes end with this thread

    threading.Thread(target=connecting, daemon=True).start()
    _wait_for(outcome, signals)
    ray = outcome.result()
    _open[-1].signals = signals
    return ray


def _wait_for(outcome: Future[Any], signals: Signals) -> None:
    """Wait until Ray has started or failed; at a signal, end it and raise Stopped."""
    while not outcome.done():
        wait([outcome], timeout=_RETAKE_SECONDS)
        signals.take()
        if signals.received is not None:
            _quiet_threads()
            for session in list(_open):
                session.processes.end()
            # Ray's client aborts if Ray disappears while it connects.
            atexit.register(end_now, 128 + signals.received)
            raise Stopped


def _announced(placement: ConnectionConfig, note: Callable[[str], None]) -> str | None:
    """Return the address of the cluster to join, and say it; None for an own Ray."""
    where, source = addresses.resolve(placement.address, os.environ)
    origin = f" ({source})" if source == addresses.VARIABLE else ""
    joining = f"Joining the Ray cluster at {where}{origin}"
    note("Starting Ray..." if where is None else f"{joining}...")
    return where


def _quiet_threads() -> None:
    """Suppress tracebacks of Ray's threads, which fail when Ray ends."""
    shown = threading.excepthook

    def show(args: threading.ExceptHookArgs) -> None:
        if args.thread is None or not args.thread.name.startswith("ray_"):
            shown(args)

    threading.excepthook = show


def _in_use(ray: Any, address: str | None) -> Any:
    """Return the `ray` module in use; UserError if connected to another address."""
    if address is not None:
        used = getattr(ray.get_runtime_context(), "gcs_address", "")
        is_own = any(session.processes.own for session in _open)
        addresses.check_in_use(address, used, is_own)
    if _open:  # a nested run
        _open[-1].guests += 1
    return ray


def connect_to_ray(
    address: str | None,
    dashboard: bool,
    store_bytes: int,
    logs: bool = False,
    tries_again: Callable[[str], bool] = lambda reason: False,
    requires_ray: bool = False,
) -> Any:
    """Start Ray here, or join the cluster at `address`; return the module `ray`.

    Args:
        address: address of a cluster, host:port; None starts Ray on this machine.
        dashboard: whether to serve the dashboard on 127.0.0.1, or find the cluster's.
        store_bytes: size of the object store, in bytes, for the data in flight.
        logs: whether to print the output of Ray's workers.
        tries_again: function that decides about another try; see `start_here`.
        requires_ray: whether the command needs Ray even with --local.
    Raises:
        UserError: the cluster does not answer, or refuses the token.
        Broken: Ray does not start.
    """
    session = RaySession()
    _open.append(session)
    try:
        if address is None:
            session.set(addresses.NOT_FOR_OWN_RAY)
            ray = start_here(
                session, dashboard, store_bytes, logs, tries_again, requires_ray
            )
        else:
            ray = _join(session, address, dashboard, logs)
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


def _join(session: RaySession, address: str, dashboard: bool, logs: bool) -> Any:
    host, port = addresses.split(address)
    encrypted = tls.tls_context()
    if reason := ray_session.why_silent(host, port, encrypted):
        raise UserError(
            f"No Ray cluster answers at {address} ({reason}): check the address, "
            "or start one with `ray start --head`."
        )
    retries = {"RAY_NUM_REDIS_GET_RETRIES": "1"}
    session.set(authentication.for_cluster(address) | retries)
    ray = import_ray(logs)
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
    session.head = ray_session.HeadProbe(host, port, limit, encrypted)
    return ray


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
