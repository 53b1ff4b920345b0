"""Processes that begin with everything imported, TensorFlow too, and nothing run.

TensorFlow takes seconds to import, and never releases all memory of a graph that it
has run.
"""

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from xagents_ray.core.timed_subprocess import without_main

_PRELOADED = "run.local", "run.session", "learners.learner", "actors.env_actor"


def start(
    target: Callable[..., None], *arguments: Any
) -> tuple[BaseProcess, Connection]:
    """Start a function in such a process; return that and a pipe to it.

    Args:
        target: of a module, called with the other end of the pipe first.
        arguments: the rest.
    """
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload([f"xagents_ray.{name}" for name in _PRELOADED])
    link, theirs = server.Pipe()
    process = server.Process(target=target, args=(theirs, *arguments))
    with without_main():  # it may be Ray's worker
        process.start()
    theirs.close()
    return process, link
