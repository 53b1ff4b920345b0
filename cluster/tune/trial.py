"""A trial of a sweep: a process of Ray Tune, and the training that it supervises.

TensorFlow never releases all memory of a graph that it has run. So a trial trains in
a child process, forked from one that has imported everything and run nothing: it
starts at once, leaves nothing behind, and can crash alone. A trial with env actors has
its learner in an actor, and trains in a thread.
"""

import functools
import queue
import signal
import threading
from contextlib import suppress
from typing import Any

from ray import tune

from xagents_ray.cluster.run import driver
from xagents_ray.core.signals import Signals
from xagents_ray.core.timed_subprocess import exit_reason
from xagents_ray.run import forked
from xagents_ray.tuning.trainee import Training, TrialReport, train_alone

_REPORT_SECONDS = 1.0
"""After this time without a report, the last one is repeated. Tune can end a trial only
between reports, and a training that traces its first update makes none for seconds."""
_PRUNED_SECONDS, _INTERRUPTED_SECONDS = 10.0, 2.0
"""A training's time to end in order; one that is interrupted is never continued."""
_NO_REPORT: TrialReport = {"env_steps": 0, "mean_reward": None}
_NO_REPORT |= {"began": None, "ended": None, "memory": 0}


class Forked:
    """A training in a child process."""

    def __init__(self, points: list[int], *job: Any) -> None:
        self._process, self._link = forked.start(train_alone, points, *job)
        self._last = dict(_NO_REPORT)

    def report(self) -> TrialReport:
        """Continue after a point; return the next report, or the last one again."""
        if self._last.pop("point", None) is not None:
            with suppress(ConnectionError):  # it has ended; its last report hasn't
                self._link.send("continue")
        try:
            if self._link.poll(_REPORT_SECONDS):
                self._last = self._link.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            failure = f"the process ended with {exit_reason(self._process)}"
            self._last = {**self._last, "value": None, "failure": failure}
        return dict(self._last)

    def end(self, seconds: float) -> None:
        """End the training, early if it still runs; kill it after this time."""
        self._process.terminate()
        self._process.join(seconds)
        self._process.kill()
        self._process.join()
        self._link.close()


class Threaded:
    """A training in a thread of this process."""

    def __init__(self, points: list[int], *job: Any) -> None:
        self._reports: queue.SimpleQueue[TrialReport] = queue.SimpleQueue()
        self._signals = Signals()
        self._signals.on_first = None
        self._training = Training(self._reports.put, points)
        start = functools.partial(driver.start_ray_driver, has_claim=True)
        run, arguments = self._training.run, (*job, start, self._signals)
        self._thread = threading.Thread(target=run, args=arguments, daemon=True)
        self._thread.start()
        self._last = dict(_NO_REPORT)

    def report(self) -> TrialReport:
        """Continue after a point; return the next report, or the last one again."""
        if self._last.pop("point", None) is not None:
            self._training.permits.release()
        with suppress(queue.Empty):
            self._last = self._reports.get(timeout=_REPORT_SECONDS)
        return dict(self._last)

    def end(self, seconds: float) -> None:
        """End the training, early if it still runs, however long that takes."""
        self._signals.press(signal.SIGTERM)
        self._thread.join()


class Trial(tune.Trainable):
    """A trial as Ray Tune sees it; its process is used again for the next one."""

    _training: Forked | Threaded | None

    def setup(self, config: dict[str, Any]) -> None:
        """Take the config of the first trial."""
        self._config, self._training = config, None

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """End the training, and take the config of the next trial."""
        self.cleanup(_PRUNED_SECONDS)
        self.setup(new_config)
        return True

    def step(self) -> TrialReport:
        """Return the next report, or the last one again."""
        # Not in `setup`: during that call, Tune would take another process.
        if self._training is None:
            config = self._config
            cores = sum(claim.get("CPU", 0.0) for claim in config["claims"])
            make = Forked if config["settings"].get("local") else Threaded
            job = config["settings"], max(1, round(cores)), config["definitions"]
            self._training = make(config["points"], config["algorithm"], *job)
        return self._training.report()

    def cleanup(self, seconds: float = _INTERRUPTED_SECONDS) -> None:
        """End the training."""
        if self._training is not None:
            self._training.end(seconds)
