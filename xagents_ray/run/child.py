"""Jobs in child processes: start, reports, outcome and termination.

A job runs in a new interpreter, as Ray's workers do, or in a process forked from a
server that has imported everything, including TensorFlow, and run nothing: TensorFlow
takes seconds to import, and never releases all memory of a graph that it has run.
"""

import contextlib
import functools
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from pkgutil import resolve_name
from typing import Any

import cloudpickle
import psutil

from xagents_ray.core.errors import Broken, Diverged, UserError, describe_error
from xagents_ray.core.signals import Signals
from xagents_ray.run.driver import LOCAL_DRIVER
from xagents_ray.run.learner_access import LEARNERS

PRELOADED = LOCAL_DRIVER, LEARNERS
"""Modules that the fork server imports besides the one of a job's function."""
_SAFE_PATH = "PYTHONSAFEPATH"
_SIGNALS = signal.SIGINT, signal.SIGTERM
_ENDING_SECONDS = 30.0
_starting = threading.Lock()


@dataclass(frozen=True)
class Job:
    """A call of a function in a child process."""

    path: str  # import path `module:function`; the items of a generator are reports
    arguments: tuple[Any, ...] = ()  # objects of `__main__` are pickled by value
    seconds: int = 60  # time limit, unless it is forked
    output: str | None = os.devnull  # file for its output; None inherits ours
    # Whether it is forked; its function then takes a Supervisor as first argument.
    is_forked: bool = False
    # Whether a forked job gets SIGTERM if its supervisor is gone; others exit at once.
    saves_alone: bool = False


@dataclass(frozen=True)
class Report:
    """The progress of a training in a child process."""

    env_steps: int = 0
    mean_reward: float | None = None  # None before the first episode has ended
    is_full: bool = False  # whether the mean is over a full reward buffer
    began: float | None = None  # time of the first env step, seconds since 1970
    ended: float | None = None  # time of the newest env step
    memory: int = 0  # resident memory of the process, in bytes
    point: int | None = None  # env steps of a comparison point, if it is one


@dataclass(frozen=True)
class Outcome:
    """How a job ended; without value and failure, it was stopped or a generator."""

    value: Any = None  # what the function returned
    failure: str = ""  # why it failed, in one sentence; "" if it didn't
    is_advice: bool = False  # whether `failure` contains a remedy
    trace: str = ""  # traceback of an unexpected error, or of the user's code


@dataclass(frozen=True)
class Supervisor:
    """A job's connection to the process that started it."""

    report: Callable[[Any], None]  # sends a report
    signals: Signals  # signals that end the job early
    # Number of permits received, plus one.
    permits: threading.Semaphore = field(default_factory=threading.Semaphore)


class Child:
    """A job's process; on exit of its context, it and its children are killed."""

    def __init__(self, process: BaseProcess, link: Connection) -> None:
        self.process, self.link = process, link

    @classmethod
    def start(cls, job: Job) -> "Child":
        context: ForkServerContext | SpawnContext
        if job.is_forked:
            context = _fork_server(job.path)
        else:
            context = multiprocessing.get_context("spawn")
        link, theirs = context.Pipe()
        arguments = {
            "link": theirs,
            "job": replace(job, arguments=()),
            "arguments": cloudpickle.dumps(job.arguments),
            "folder": os.getcwd(),
            "environment": dict(os.environ),
            "argv": sys.argv,
        }
        process = context.Process(target=_run, kwargs=arguments)
        with _without_main(), _safe_path():  # may be Ray's worker script
            process.start()
        theirs.close()
        return cls(process, link)

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *error: object) -> None:
        self.join(0)
        self.link.close()

    def receive(self, until: float) -> Any:
        """Return the next report, or finally the Outcome.

        Raises:
            TimeoutError: nothing arrives by `until`, a value of time.monotonic().
        """
        if not self.link.poll(max(0.0, until - time.monotonic())):
            raise TimeoutError
        try:
            return self.link.recv()
        except (EOFError, OSError):
            return Outcome(failure=f"the process ended with {self.join()}")

    def permit(self) -> None:
        """Send the job one permit."""
        with contextlib.suppress(OSError):  # it has ended, with reports still unread
            self.link.send(None)

    def join(self, seconds: float = _ENDING_SECONDS) -> str:
        """Wait until the process has ended; after `seconds`, kill it and its children.

        Returns:
            The name of the signal that ended it, or its exit code.
        """
        self.process.join(seconds)
        if self.process.is_alive():
            with contextlib.suppress(psutil.Error):
                for child in psutil.Process(self.process.pid).children(recursive=True):
                    with contextlib.suppress(psutil.Error):
                        child.kill()
            self.process.kill()
            self.process.join()
        code = self.process.exitcode or 0
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"

    def end(self, seconds: float) -> None:
        """Ask a forked job to end; kill it after `seconds`."""
        self.process.terminate()
        self.join(seconds)
        self.link.close()


def outcome_of(call: Callable[[], Any], supervisor: Supervisor) -> Outcome:
    """Run a job in this process; report a generator's items and return the outcome."""
    try:
        value = call()
        if isinstance(value, Iterator):
            for item in value:
                supervisor.report(item)
            value = None
        return Outcome(value)
    except (UserError, Diverged, Broken) as error:
        trace, is_advice = getattr(error, "trace", ""), not isinstance(error, Broken)
        return Outcome(failure=str(error), is_advice=is_advice, trace=trace)
    except BaseException as error:  # including SystemExit of user code
        if isinstance(error, SystemExit) and supervisor.signals.received is not None:
            return Outcome()
        return Outcome(failure=describe_error(error), trace=traceback.format_exc())


def _fork_server(path: str) -> ForkServerContext:
    """Start the fork server, with SIGINT and SIGTERM blocked.

    Ctrl-C in a terminal goes to the whole process group, and would end the server while
    it imports. Each job unblocks the signals when it is ready for them.
    """
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload([*PRELOADED, path.partition(":")[0]])
    with _safe_path():
        resource_tracker.ensure_running()  # its start unblocks the signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        with _safe_path():
            forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return server


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Prevent a new process from importing this process's main module.

    A script would run again, and a notebook has no file.
    """
    main = vars(sys.modules["__main__"])
    kept = {name: main.pop(name, None) for name in ("__file__", "__spec__")}
    main["__spec__"] = None
    try:
        yield
    finally:
        # Ray reads `__file__` if the module has one.
        main.update({name: held for name, held in kept.items() if held is not None})


@contextlib.contextmanager
def _safe_path() -> Iterator[None]:
    """Prevent new interpreters from importing modules in the working directory.

    Python 3.10 ignores this.
    """
    with _starting:  # threads share the environment
        before = os.environ.get(_SAFE_PATH)
        os.environ[_SAFE_PATH] = "1"
        try:
            yield
        finally:
            del os.environ[_SAFE_PATH]
            if before is not None:
                os.environ[_SAFE_PATH] = before


def _run(
    link: Connection,
    job: Job,
    arguments: bytes,
    folder: str,
    environment: Mapping[str, str],
    argv: list[str],
) -> None:
    """Run a job in this process, and send its outcome."""
    os.setsid()  # only the parent gets Ctrl-C
    signal.alarm(0 if job.is_forked else job.seconds)
    if job.output is not None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        file = os.open(job.output, flags, 0o644)
        os.dup2(file, 1)
        os.dup2(file, 2)
    os.chdir(folder)
    os.environ.pop(_SAFE_PATH, None)  # for the user's own processes
    os.environ.update(environment)
    sys.argv = argv
    with contextlib.suppress(OSError), Signals() as signals:
        supervisor = Supervisor(link.send, signals)
        if job.is_forked:
            listening = link, supervisor.permits, job.saves_alone
            threading.Thread(target=_listen, args=listening, daemon=True).start()
        outcome = outcome_of(lambda: _call(job, arguments, supervisor), supervisor)
        signals.on_first = None
        link.send(outcome)


def _call(job: Job, arguments: bytes, supervisor: Supervisor) -> Any:
    """Unblock the signals, then call the function of a job."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    function = resolve_name(job.path)
    if job.is_forked:
        function = functools.partial(function, supervisor)
    return function(*cloudpickle.loads(arguments))


def _listen(link: Connection, permits: threading.Semaphore, saves_alone: bool) -> None:
    """Receive permits; end this process when its supervisor is gone."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            link.recv()
            permits.release()
    if saves_alone:
        os.kill(os.getpid(), signal.SIGTERM)
    else:
        os._exit(1)
