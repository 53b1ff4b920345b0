"""A training supervised by another process; this module doesn't import Ray."""

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import cloudpickle
import psutil

from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.run.child import Outcome, Report, Supervisor
from xagents_ray.run.driver import StartDriver
from xagents_ray.run.learner_access import install_parts
from xagents_ray.run.session import run_session
from xagents_ray.settings.config import Config
from xagents_ray.tuning.plan import train_command
from xagents_ray.watch.progress import Progress
from xagents_ray.watch.result import Result

_REPORT_SECONDS = 1.0
_POLL_SECONDS = 0.1


class ProgressReporter:
    """Reports the progress of a training to its supervisor.

    Args:
        supervisor: the supervisor, which sends a permit for each point that it has
            compared. At a point, training waits until the previous one is compared.
        seconds: shortest time between two reports other than at points.
        points: env steps at which the mean reward is compared, in order.
    """

    def __init__(
        self, supervisor: Supervisor, seconds: float, points: Sequence[int] = ()
    ) -> None:
        self._supervisor, self._seconds = supervisor, seconds
        self._points, self._newest = list(points), Report()
        self._reported_at = 0.0

    def __call__(self, progress: Progress) -> None:
        """Report the progress if it is due."""
        now, mean = time.time(), progress.mean_reward
        self._newest = Report(
            env_steps=progress.env_steps,
            mean_reward=mean,
            is_full=progress.is_full,
            began=self._newest.began or now,
            ended=now,
        )
        point = None
        while self._points and progress.env_steps >= self._points[0]:
            point = self._points.pop(0)
        if point is not None and mean is not None:
            self._wait_for_permit()
            self.report(point)
        elif now - self._reported_at > self._seconds:
            self.report()

    def report(self, point: int | None = None) -> None:
        """Send the newest progress, and the point if it is at one."""
        self._reported_at = time.time()
        memory = int(psutil.Process().memory_info().rss)
        with suppress(OSError):  # the supervisor is gone
            self._supervisor.report(replace(self._newest, memory=memory, point=point))

    def _wait_for_permit(self) -> None:
        while not self._supervisor.permits.acquire(timeout=_POLL_SECONDS):
            if self._supervisor.signals.received is not None:
                return


def train_trial(
    supervisor: Supervisor,
    algorithm: bytes,
    settings: Mapping[str, Any],
    threads: int,
    definitions: tuple[bytes, ...],
    points: Sequence[int],
    start: StartDriver,
) -> Result:
    """Run the training of a trial.

    Args:
        supervisor: the process that supervises the trial.
        algorithm: the pickled algorithm, which a script may define.
        settings: settings of the run by flat name.
        threads: cores that the training may use.
        definitions: definitions of environments and networks' parts that the process
            lacks.
        points: env steps at which the mean reward is compared, in order.
        start: function that starts the driver.
    """
    reporter = ProgressReporter(supervisor, _REPORT_SECONDS, points)
    try:
        install_parts(definitions)
        row: Algorithm = cloudpickle.loads(algorithm)
        config = Config.of(row.config, settings)
        sys.argv = train_command(row, settings)  # recorded in the run's directory
        signals = supervisor.signals
        return run_session(row, config, signals, start, watch=reporter, threads=threads)
    finally:
        reporter.report()


def end_of_trial(outcome: Outcome) -> dict[str, Any]:
    """Return the value of a trial, or why it has none."""
    value, failure, result = None, outcome.failure, outcome.value
    if result is not None and result.signal is None:
        value = result.mean_reward
    elif result is not None:
        failure = result.reason
    return {"value": value, "failure": failure, "traceback": outcome.trace}
