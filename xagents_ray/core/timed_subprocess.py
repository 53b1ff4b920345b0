"""Calls in a process of their own, which are given a time and then killed."""

import contextlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pkgutil import resolve_name
from typing import Any

import cloudpickle
import psutil

from xagents_ray.core.errors import (
    Diverged,
    EnvironmentFault,
    UserError,
    describe_error,
)


@dataclass(frozen=True)
class Failure:
    """Why a call failed."""

    sentence: str  # what was raised, and where
    is_advice: bool = False  # the sentence has a remedy in it
    trace: str = ""  # traceback of the user's code; "" if it is not to blame


class TimedSubprocess:
    """A call in a process of its own, killed with all that it started on exit.

    The process is started afresh, as Ray's workers are: the arguments are pickled, what
    is defined in `__main__` by value.

    Args:
        path: `module:function`; a generator gives many items, a function one.
        arguments: arguments of the function.
        seconds: seconds after which the process ends itself, if this one is killed.
    """

    def __init__(self, path: str, *arguments: Any, seconds: int = 60) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._items, theirs = spawn.Pipe(duplex=False)
        job = theirs, seconds, path, cloudpickle.dumps(arguments)
        self._process = spawn.Process(target=_run, args=job)
        with without_main():
            self._process.start()
        theirs.close()

    def __enter__(self) -> "TimedSubprocess":
        return self

    def items(self, until: float) -> Iterator[Any]:
        """Yield its items that come by `until`, time.monotonic(); a Failure is last.

        Raises:
            TimeoutError: it is still running then.
        """
        while True:
            if not self._items.poll(max(0.0, until - time.monotonic())):
                raise TimeoutError
            try:
                item = self._items.recv()
            except EOFError:
                self._process.join()
                yield Failure(f"the process ended with {exit_reason(self._process)}")
                return
            if item is None:
                return
            yield item
            if isinstance(item, Failure):
                return

    def result(self, until: float) -> Any:
        """Return its one item, or the Failure; see `items`."""
        return next(self.items(until))

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(self._process.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    child.kill()
        self._process.kill()
        self._process.join()
        self._items.close()


@contextlib.contextmanager
def without_main() -> Iterator[None]:
    """Keep a new process from importing this one's main module.

    A script would run again, and a notebook has no file.
    """
    main = vars(sys.modules["__main__"])
    kept = {name: main.pop(name, None) for name in ("__file__", "__spec__")}
    main["__spec__"] = None
    try:
        yield
    finally:
        # Ray asks for the file, where the module has one.
        main.update({name: held for name, held in kept.items() if held is not None})


def exit_reason(process: BaseProcess) -> str:
    """Return the signal or the exit code of a process that has been joined."""
    code = process.exitcode or 0
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def _run(items: Connection, seconds: int, path: str, arguments: bytes) -> None:
    """Call the function and send its items; print nothing."""
    os.setsid()  # Ctrl-C is the parent's
    signal.alarm(seconds)  # if the parent is killed
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    try:
        found = resolve_name(path)(*cloudpickle.loads(arguments))
        for item in found if isinstance(found, Iterator) else [found]:
            items.send(item)
        items.send(None)
    except EnvironmentFault as error:
        items.send(Failure(str(error), is_advice=True, trace=error.trace))
    except (UserError, Diverged) as error:
        items.send(Failure(str(error), is_advice=True))
    except BaseException as error:
        items.send(Failure(describe_error(error)))
