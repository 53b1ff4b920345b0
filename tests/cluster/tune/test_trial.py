"""What is reported of a training that has ended, or that can't report for a while."""

import multiprocessing
import signal
import sys
import time
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle
import pytest

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.cluster.tune import trial
from xagents_ray.core.signals import Signals
from xagents_ray.tuning.trainee import Training, TrialReport

FACTS = {"mean_reward": 20.0, "began": 1.0, "ended": 2.0, "memory": 1}


def _ends_at_once(link: Connection) -> None:
    """Report a point and the end of a training, as a short trial's last round does."""
    link.send({**FACTS, "env_steps": 475, "point": 475})
    link.send({**FACTS, "env_steps": 512, "value": 21.0})


def _traces(link: Connection) -> None:
    """Report a point, and then hear no signal for long."""
    link.send({**FACTS, "env_steps": 475, "point": 475})
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)


@pytest.fixture
def training(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> trial.Forked:
    """A child process that runs the function of the parameter."""

    def start(target: Any, *arguments: Any) -> tuple[Any, Connection]:
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        process = context.Process(target=request.param, args=(theirs,))
        process.start()
        theirs.close()
        return process, ours

    monkeypatch.setattr(trial.forked, "start", start)
    return trial.Forked([475])


@pytest.mark.parametrize("training", [_ends_at_once], indirect=True)
def test_the_last_report_is_read_of_a_training_that_has_ended(
    training: trial.Forked,
) -> None:
    assert training.report()["point"] == 475
    training._process.join()  # Tune was busy with other trials meanwhile
    assert training.report()["value"] == 21
    training.end(10)


@pytest.mark.parametrize("training", [_traces], indirect=True)
def test_tracing_does_not_hold_up_a_sweep(training: trial.Forked) -> None:
    assert training.report()["point"] == 475
    began = time.monotonic()
    again = training.report()
    assert again == {**FACTS, "env_steps": 475}  # its point was compared already
    training.end(0.5)
    assert training._process.exitcode == -signal.SIGKILL
    assert time.monotonic() - began < 5


def test_a_training_that_exits_has_a_last_report() -> None:
    def start(*arguments: Any) -> Any:
        sys.exit("no licence on this node")

    reports: list[TrialReport] = []
    training = Training(reports.append, [])
    ppo = cloudpickle.dumps(find_algorithm("ppo"))
    settings = {"env": "CartPole-v1", "max_steps": 10, "quiet": True}
    training.run(ppo, settings, 1, (), start, Signals())
    assert "no licence on this node" in reports[-1]["failure"]
