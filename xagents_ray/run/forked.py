"""Processes that begin with everything imported, TensorFlow too, and nothing run.

TensorFlow takes seconds to import, and never releases all memory of a graph that it
has run.
"""

import multiprocessing
import signal
from collections.abc import Callable
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from typing import Any

from xagents_ray.core.timed_subprocess import without_main

_SIGNALS = signal.SIGINT, signal.SIGTERM
_PRELOADED = "run.local", "run.session", "learners.make", "actors.env_actor"


def shield(module: str) -> None:
    """Make the process that others are forked from, which no signal ends.

    Ctrl-C in a terminal goes to the whole process group, and would end it while it
    imports. Both signals wait there forever, and in each process that is started until
    it calls `accept_signals`. The module has the functions that will be started.
    """
    _preload(module)
    resource_tracker.ensure_running()  # it lets the signals through at its start
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def accept_signals() -> None:
    """Let Ctrl-C and SIGTERM through, those too that came since the process began."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def start(
    target: Callable[..., None], *arguments: Any
) -> tuple[BaseProcess, Connection]:
    """Start a function in such a process; return that and a pipe to it.

    Args:
        target: a module's function; its first argument is the pipe's other end.
        arguments: the rest.
    """
    server = _preload(target.__module__)
    link, theirs = server.Pipe()
    process = server.Process(target=target, args=(theirs, *arguments))
    with without_main():  # it may be Ray's worker
        process.start()
    theirs.close()
    return process, link


def _preload(module: str) -> ForkServerContext:
    server = multiprocessing.get_context("forkserver")
    preloaded = [f"xagents_ray.{name}" for name in _PRELOADED]
    server.set_forkserver_preload([*preloaded, module])
    return server
