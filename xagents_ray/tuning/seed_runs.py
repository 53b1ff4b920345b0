"""Schedules runs with several seeds, and tracks their states."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from types import MappingProxyType

from xagents_ray.core.signals import Signals
from xagents_ray.run.child import Child, Outcome, Report
from xagents_ray.watch.result import Result

_POLL_SECONDS = 0.1


@dataclass
class SeedRun:
    seed: int
    state: str = "waiting"  # or running, ended, failed, stopped
    newest: Report = field(default_factory=Report)
    outcome: Outcome = field(default_factory=Outcome)  # its value is a Result


class SeedRuns:
    """Runs with several seeds, some in parallel; a failure ends only its own run.

    Args:
        seeds: seeds to train with, in this order.
        parallel: number of runs at the same time.
        start: function that starts the process of a seed.
        changed: function called when a run's state has changed.
        ended: results of completed runs by seed.
    """

    def __init__(
        self,
        seeds: Sequence[int],
        parallel: int,
        start: Callable[[int], Child],
        changed: Callable[[SeedRun], None],
        ended: Mapping[int, Result] = MappingProxyType({}),
    ) -> None:
        self.runs = [SeedRun(seed) for seed in seeds]
        self._start, self._changed, self._parallel = start, changed, parallel
        self._waiting, self._ended = deque(self.runs), ended
        self._running: dict[Connection, tuple[SeedRun, Child]] = {}

    def train(self, signals: Signals, show: Callable[[], None]) -> None:
        """Train with every seed; after a signal, stop the active runs.

        Args:
            signals: signals that end the runs early.
            show: function called several times a second.
        """
        is_ending = False
        for run in self.runs:
            if run.seed in self._ended:
                self._waiting.remove(run)
                self._end(run, Outcome(self._ended[run.seed]))
        while self._running or (self._waiting and not is_ending):
            if signals.received is not None and not is_ending:
                is_ending = True
                for _, child in self._running.values():
                    child.process.terminate()  # it saves its run
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
            child = self._start(run.seed)
        except (OSError, EOFError) as error:
            failure = f"its process can't be started ({error})"
            self._end(run, Outcome(failure=failure))
            return
        self._running[child.link] = run, child
        run.state = "running"
        self._changed(run)

    def _receive(self, connection: Connection) -> None:
        run, child = self._running[connection]
        message = child.receive(until=0.0)
        if isinstance(message, Report):
            run.newest = message
            return
        del self._running[connection]
        child.join()
        connection.close()
        self._end(run, message)

    def _end(self, run: SeedRun, outcome: Outcome) -> None:
        run.outcome, run.state, result = outcome, "ended", outcome.value
        if outcome.failure:
            run.state = "failed"
        elif result is None or result.signal is not None:
            run.state = "stopped"
        if result is not None:
            run.newest = Report(result.env_steps, result.mean_reward)
        self._changed(run)
