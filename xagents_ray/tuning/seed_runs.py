"""Which runs of several seeds wait, run, have ended or failed."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeAlias

from xagents_ray.core.signals import Signals
from xagents_ray.watch.result import Result

_POLL_SECONDS = 0.1


class Report(NamedTuple):
    """How far a run is."""

    env_steps: int
    mean_reward: float | None  # None before the first episode has ended


class Failure(NamedTuple):
    """Why a run failed."""

    message: str
    trace: str = ""  # of an unexpected error, or of the user's code; "" for others


Outcome: TypeAlias = Result | Failure | None
"""How a run ended; None for one that was stopped before it began."""


class Process(Protocol):
    """A process that trains with one seed."""

    @property
    def messages(self) -> Connection:
        """Has its reports, and its outcome at last."""

    def terminate(self) -> None:
        """Ask it to save its run and to end; return at once."""

    def join(self) -> str:
        """Wait until it has ended; return its signal or exit code in words."""


@dataclass
class SeedRun:
    """The run of one seed."""

    seed: int
    state: str = "waiting"  # or running, ended, failed, stopped
    newest: Report = field(default_factory=lambda: Report(0, None))
    outcome: Outcome = None


class SeedRuns:
    """Runs with several seeds, so many at a time; what fails ends only itself.

    Args:
        seeds: seeds to train with, in this order.
        parallel: number of runs at the same time.
        start: starts the process of a seed.
        changed: function called when a run's state has changed.
        ended: results by seed of runs that are over already.
    """

    def __init__(
        self,
        seeds: Sequence[int],
        parallel: int,
        start: Callable[[int], Process],
        changed: Callable[[SeedRun], None],
        ended: Mapping[int, Result] = MappingProxyType({}),
    ) -> None:
        self.runs = [SeedRun(seed) for seed in seeds]
        self._start, self._changed, self._parallel = start, changed, parallel
        self._waiting, self._ended = deque(self.runs), ended
        self._running: dict[Connection, tuple[SeedRun, Process]] = {}

    def train(self, signals: Signals, show: Callable[[], None]) -> None:
        """Train with every seed; after a signal, stop those that run.

        Args:
            signals: end it early.
            show: function called several times a second.
        """
        is_ending = False
        for run in self.runs:
            if run.seed in self._ended:
                self._waiting.remove(run)
                self._end(run, self._ended[run.seed])
        while self._running or (self._waiting and not is_ending):
            if signals.received is not None and not is_ending:
                is_ending = True
                for _, process in self._running.values():
                    process.terminate()
            while not is_ending and self._waiting and self._has_room:
                self._begin(self._waiting.popleft())
            for connection in wait(list(self._running), _POLL_SECONDS):
                assert isinstance(connection, Connection)
                self._receive(connection)
            show()

    @property
    def _has_room(self) -> bool:
        return len(self._running) < self._parallel

    def _begin(self, run: SeedRun) -> None:
        try:
            process = self._start(run.seed)
        except (OSError, EOFError) as error:
            self._end(run, Failure(f"its process can't be started ({error})"))
            return
        self._running[process.messages] = run, process
        run.state = "running"
        self._changed(run)

    def _receive(self, connection: Connection) -> None:
        run, process = self._running[connection]
        try:
            message: Report | Outcome = connection.recv()
        except (EOFError, OSError):
            message = Failure(f"its process ended with {process.join()}")
        if isinstance(message, Report):
            run.newest = message
            return
        del self._running[connection]
        process.join()
        connection.close()
        self._end(run, message)

    def _end(self, run: SeedRun, outcome: Outcome) -> None:
        run.outcome, run.state = outcome, "ended"
        if isinstance(outcome, Failure):
            run.state = "failed"
        elif outcome is None or outcome.signal is not None:
            run.state = "stopped"
        if isinstance(outcome, Result):
            run.newest = Report(outcome.env_steps, outcome.mean_reward)
        self._changed(run)
