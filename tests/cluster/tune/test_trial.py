"""What is reported of a training that has ended, or that can't report for a while."""

import functools
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle
import pytest
from results import result

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.cluster.tune.trial import Trial
from xagents_ray.core.signals import Signals
from xagents_ray.run.child import Child, Outcome, Report, Supervisor, outcome_of
from xagents_ray.tuning.trial_training import train_trial

AT_POINT = Report(475, 20.0, began=1.0, ended=2.0, memory=1, point=475)


def _ends_at_once(link: Connection) -> None:
    """Report a point and the end of a training, as a short trial's last round does."""
    link.send(AT_POINT)
    link.send(replace(AT_POINT, env_steps=512, point=None))
    link.send(Outcome(result(21.0)))


def _traces(link: Connection) -> None:
    """Report a point, and then hear no signal for long."""
    link.send(AT_POINT)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)


def trial_of(training: Callable[[Connection], None]) -> tuple[Trial, Child]:
    """Return a trial, and the child process in which it trains with a function."""
    context = multiprocessing.get_context("fork")
    link, theirs = context.Pipe()
    process = context.Process(target=training, args=(theirs,))
    process.start()
    theirs.close()
    trial = object.__new__(Trial)  # Tune makes others
    trial.setup({})
    trial._training = child = Child(process, link)
    return trial, child


@pytest.mark.parametrize(
    ("is_local", "given"), [(True, None), (False, ("LICENSE", "LEVEL"))]
)
def test_what_trains_has_the_variables_of_workers(
    is_local: bool, given: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings, which are written to the run's directory, have only their names."""
    variables = {"LICENSE": "abc", "LEVEL": "2"}
    for name in variables:
        monkeypatch.setenv(name, "that of the node")
    monkeypatch.setattr(Child, "start", lambda job: job)
    monkeypatch.setattr("xagents_ray.cluster.tune.trial.TrainingThread", lambda x: x)
    trial = object.__new__(Trial)
    config = {"settings": {"local": is_local}, "variables": variables}
    trial.setup(
        {**config, "algorithm": b"", "claims": (), "definitions": (), "points": ()}
    )
    job: Any = trial._start()
    assert {name: os.environ[name] for name in variables} == variables
    assert job.arguments[1].get("worker_env") == given


def test_the_last_report_is_read_of_a_training_that_has_ended() -> None:
    trial, child = trial_of(_ends_at_once)
    assert trial.step()["point"] == 475
    child.process.join()  # Tune was busy with other trials meanwhile
    assert "value" not in trial.step()
    last = trial.step()
    assert (last["value"], last["env_steps"], last["failure"]) == (21, 512, "")
    trial.cleanup(10)


def test_tracing_does_not_hold_up_a_sweep() -> None:
    trial, child = trial_of(_traces)
    assert trial.step()["point"] == 475
    began = time.monotonic()
    again = trial.step()
    assert again == {**asdict(AT_POINT), "point": None}  # it was compared already
    trial.cleanup(0.5)
    assert child.process.exitcode == -signal.SIGKILL
    assert time.monotonic() - began < 5


def test_a_training_that_exits_has_an_outcome() -> None:
    def start(*arguments: Any) -> Any:
        sys.exit("no licence on this node")

    reports: list[Report] = []
    supervisor = Supervisor(reports.append, Signals())
    ppo = cloudpickle.dumps(find_algorithm("ppo"))
    settings = {"env": "CartPole-v1", "max_steps": 10, "quiet": True}
    job = functools.partial(train_trial, supervisor, ppo, settings, 1, (), (), start)
    assert "no licence on this node" in outcome_of(job, supervisor).failure
    assert [each.env_steps for each in reports] == [0] and reports[0].memory
