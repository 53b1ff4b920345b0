"""Commands in processes that begin with TensorFlow imported.

Importing it takes four seconds of a core, and the tests train some hundred times. So
their processes are forked from one that has done that and nothing else; each has its
own arguments, directory, environment and standard streams.
"""

import multiprocessing
import os
import runpy
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest

from xagents_ray.run.child import PRELOADED

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
    [*PRELOADED, "xagents_ray.run.session", "preloaded"]  # which is beside this module
)
# Starting a process polls all others, which only one thread at a time may do.
_LOCK = threading.Lock()


def run(arguments: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
    """Run Python as `subprocess.run` does, with its output captured.

    Args:
        arguments: of the interpreter, `-c` or `-m` first.
        seconds: limit; a process that takes longer is killed.
    """
    with NamedTemporaryFile("r") as out, NamedTemporaryFile("r") as err:
        process = start(arguments, out.name, err.name)
        wait([process.sentinel], seconds)
        with _LOCK:
            code = process.exitcode
        if code is None:
            process.kill()
            raise subprocess.TimeoutExpired(list(arguments), seconds, err.read())
        return subprocess.CompletedProcess(arguments, code, out.read(), err.read())


def start(arguments: Sequence[str], out: str, err: str) -> BaseProcess:
    """Start Python, with its output in two files that are there."""
    with _LOCK, pytest.MonkeyPatch.context() as environment:
        state = os.getcwd(), dict(os.environ)
        process = _SERVER.Process(target=_main, args=(arguments, *state, out, err))
        environment.setenv("PYTHONPATH", str(Path(__file__).parent))  # of the server
        forkserver.ensure_running()
        process.start()
    return process


def _main(
    arguments: Sequence[str],
    folder: str,
    environment: Mapping[str, str],
    out: str,
    err: str,
) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY), number)
    paths = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [folder, *filter(None, paths)]
    how, what, *rest = arguments
    sys.argv = [how, *rest]
    if how == "-c":
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
    else:
        runpy.run_module(what, run_name="__main__", alter_sys=True)
