"""A trial of a sweep: a Ray Tune process that supervises a training run.

TensorFlow never releases all memory of a graph that it has run. Therefore, a trial
trains in a child process, forked from one that has imported everything and run
nothing: it starts at once, frees its memory, and can crash alone. A trial with env
actors has its learner in an actor, and trains in a thread.
"""

import functools
import os
import queue
import signal
import threading
import time
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from ray import tune

from xagents_ray.cluster.run import driver
from xagents_ray.cluster.run.nodes import amount_of
from xagents_ray.core.signals import Signals
from xagents_ray.run.child import Child, Job, Outcome, Report, Supervisor, outcome_of
from xagents_ray.run.driver import StartDriver
from xagents_ray.run.local import start_local_driver
from xagents_ray.tuning.trial_training import end_of_trial, train_trial

_REPORT_SECONDS = 1.0
"""After this time without a report, the last one is repeated. Tune can end a trial only
between reports, and there are none for seconds while the first update is traced."""
_PRUNED_SECONDS, _INTERRUPTED_SECONDS = 10.0, 5.0
"""Time limits for a clean shutdown; an interrupted training is never resumed, and only
closes its environments."""


class TrainingThread:
    """A training in a thread of this process, with the same methods as Child."""

    def __init__(self, job: Job) -> None:
        self._messages: queue.SimpleQueue[Report | Outcome] = queue.SimpleQueue()
        self._signals = Signals()
        self._signals.on_first = None
        self._supervisor = Supervisor(self._messages.put, self._signals)
        self._thread = threading.Thread(target=self._train, args=(job,), daemon=True)
        self._thread.start()

    def _train(self, job: Job) -> None:
        train = functools.partial(train_trial, self._supervisor, *job.arguments)
        self._messages.put(outcome_of(train, self._supervisor))

    def receive(self, until: float) -> Report | Outcome:
        try:
            return self._messages.get(timeout=until - time.monotonic())
        except queue.Empty:
            raise TimeoutError from None

    def permit(self) -> None:
        self._supervisor.permits.release()

    def end(self, seconds: float) -> None:
        """Stop the training early, and wait for its end without a time limit."""
        self._signals.press(signal.SIGTERM)
        self._thread.join()


class Trial(tune.Trainable):
    """A trial as a Ray Tune Trainable; the next trial reuses its process."""

    _training: Child | TrainingThread | None

    def setup(self, config: dict[str, Any]) -> None:
        """Store the config of the first trial."""
        self._config, self._training, self._newest = config, None, Report()

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """End the training, and store the config of the next trial."""
        self.cleanup(_PRUNED_SECONDS)
        self.setup(new_config)
        return True

    def step(self) -> dict[str, Any]:
        """Continue past a point; return the next report, or the last one again.

        At the end of the trial, the report has its `value`, or the cause of failure.
        """
        # Not in `setup`: while that runs, Tune would use another process.
        if self._training is None:
            self._training = self._start()
        if self._newest.point is not None:
            self._newest = replace(self._newest, point=None)
            self._training.permit()
        ended: dict[str, Any] = {}
        with suppress(TimeoutError):
            message = self._training.receive(time.monotonic() + _REPORT_SECONDS)
            if isinstance(message, Report):
                self._newest = message
            else:
                ended = end_of_trial(message)
        return asdict(self._newest) | ended

    def cleanup(self, seconds: float = _INTERRUPTED_SECONDS) -> None:
        """End the training."""
        if self._training is not None:
            self._training.end(seconds)

    def _start(self) -> Child | TrainingThread:
        config = self._config
        settings, variables = config["settings"], config["variables"]
        os.environ.update(variables)
        is_local = settings.get("local")
        start: StartDriver = start_local_driver
        if not is_local:
            settings = {**settings, "worker_env": (*variables,) or None}
            start = functools.partial(driver.start_ray_driver, has_claim=True)
        cores = sum(amount_of(claim, "CPU") for claim in config["claims"])
        job = Job(
            "xagents_ray.tuning.trial_training:train_trial",
            arguments=(
                config["algorithm"],
                settings,
                max(1, round(cores)),
                config["definitions"],
                config["points"],
                start,
            ),
            output=None,
            is_forked=True,
        )
        return Child.start(job) if is_local else TrainingThread(job)
