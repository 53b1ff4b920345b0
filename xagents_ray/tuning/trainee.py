"""The training of a trial, wherever it runs; this module imports no Ray."""

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle
import psutil

from xagents_ray.algorithms.row import Algorithm
from xagents_ray.core.errors import Broken, Diverged, UserError, describe_error
from xagents_ray.core.objects import install_definitions
from xagents_ray.core.signals import Signals
from xagents_ray.run import local
from xagents_ray.run.driver import StartDriver
from xagents_ray.run.session import run_session
from xagents_ray.settings.config import Config
from xagents_ray.tuning.plan import train_command
from xagents_ray.watch.progress import Progress

TrialReport = dict[str, Any]
"""The progress of a trial: `env_steps`, `mean_reward`, the times of its first and last
env step (`began`, `ended`, seconds since 1970) and its process' `memory` in bytes;
`point` where its mean reward is compared with other trials', and whether the window of
that mean `is_full`; at the end `value`, or `failure` and `traceback`."""
_REPORT_SECONDS = 1.0
_POLL_SECONDS = 0.1


class Training:
    """The training of a trial, which reports its progress.

    Args:
        tell: function that receives the reports.
        points: env steps at which the mean reward is compared, in order.
    Attributes:
        permits: one for each point that has been compared, and one more: at a point,
            the training waits until the one before was compared.
    """

    def __init__(self, tell: Callable[[TrialReport], None], points: list[int]) -> None:
        self._report, self._points = tell, list(points)
        self._told = 0.0
        self.permits = threading.Semaphore(1)
        self._facts: TrialReport = {"env_steps": 0, "mean_reward": None}
        self._facts |= {"began": None, "ended": None}

    def run(
        self,
        algorithm: bytes,
        settings: Mapping[str, Any],
        threads: int,
        definitions: tuple[bytes, ...],
        start: StartDriver,
        signals: Signals,
    ) -> None:
        """Train to the end.

        Args:
            algorithm: the pickled algorithm; a script may define it.
            settings: settings of the run by flat name.
            threads: cores that it may use.
            definitions: definitions of environments that the process lacks.
            start: starts the driver.
            signals: end it early.
        """
        last: TrialReport = {"value": None}
        self._signals = signals
        try:
            install_definitions(definitions)
            row: Algorithm = cloudpickle.loads(algorithm)
            config = Config.of(row.config, settings)
            sys.argv = train_command(row, settings)  # the run's directory names it
            result = run_session(
                row, config, signals, start, watch=self._watch, threads=threads
            )
            if result.signal is None:
                last["value"] = result.mean_reward
            else:
                last["failure"] = result.reason
        except (UserError, Diverged, Broken) as error:
            last["failure"] = str(error)
            if trace := getattr(error, "trace", ""):
                last["traceback"] = trace
        except BaseException as error:  # SystemExit of a user's code too
            last["failure"], last["traceback"] = (
                describe_error(error),
                traceback.format_exc(),
            )
        self._report({**self._facts, "memory": _memory(), **last})

    def _watch(self, progress: Progress) -> None:
        """Report the progress when it is due."""
        now, facts = time.time(), self._facts
        facts["began"], facts["ended"] = facts["began"] or now, now
        facts["env_steps"] = progress.env_steps
        facts["mean_reward"] = progress.mean_reward
        point = None
        while self._points and progress.env_steps >= self._points[0]:
            point = self._points.pop(0)
        is_point = point is not None and progress.mean_reward is not None
        while is_point and not self.permits.acquire(timeout=_POLL_SECONDS):
            if self._signals.received is not None:
                break
        if is_point or now - self._told > _REPORT_SECONDS:
            self._told = now
            told = {"point": point, "is_full": progress.is_full} if is_point else {}
            self._report({**facts, "memory": _memory(), **told})


def train_alone(
    link: Connection,
    points: list[int],
    algorithm: bytes,
    settings: Mapping[str, Any],
    threads: int,
    definitions: tuple[bytes, ...],
) -> None:
    """Train in this process, and end with the one that looks after it."""
    os.setsid()  # Ctrl-C is the sweep's
    training = Training(link.send, points)
    permit = threading.Thread(target=_permit, args=(link, training), daemon=True)
    permit.start()
    with Signals() as signals, suppress(ConnectionError):
        training.run(
            algorithm, settings, threads, definitions, local.start_local_driver, signals
        )


def _permit(link: Connection, training: Training) -> None:
    """Hand permits on; end this process when there is nobody left to give one."""
    with suppress(EOFError, OSError):
        while True:
            link.recv()
            training.permits.release()
    os._exit(1)


def _memory() -> int:
    """Return the bytes that this process holds in memory."""
    return int(psutil.Process().memory_info().rss)
