"""How jobs in child processes end."""

import signal
import time
from collections.abc import Iterator

import psutil
import pytest
from processes import has_ended, wait_for

from xagents_ray.core.errors import Broken, EnvironmentFault, UserError
from xagents_ray.core.signals import Signals
from xagents_ray.run.child import Child, Job, Outcome, Supervisor, outcome_of

ENDS = [
    (EnvironmentFault("fix it", "of step"), Outcome(None, "fix it", True, "of step")),
    (UserError("lower --lr"), Outcome(None, "lower --lr", True)),
    (Broken("no actor", "of own"), Outcome(None, "no actor", False, "of own")),
]


def starts_another() -> Iterator[int]:
    """Start a process, and yield its id."""
    yield psutil.Popen(["sleep", "60"]).pid
    time.sleep(60)


def raised(error: BaseException, received: int | None = None) -> Outcome:
    def call() -> None:
        raise error

    supervisor = Supervisor(print, Signals())
    supervisor.signals.received = received
    return outcome_of(call, supervisor)


@pytest.mark.parametrize(("error", "outcome"), ENDS)
def test_an_expected_error_is_told_as_it_is(error: Exception, outcome: Outcome) -> None:
    assert raised(error) == outcome


def test_an_exit_is_a_failure_unless_a_signal_asked_for_it() -> None:
    failed = raised(SystemExit("no licence"))
    assert failed.failure.startswith("SystemExit: no licence (test_child.py, line ")
    assert failed.trace.startswith("Traceback") and not failed.is_advice
    assert raised(SystemExit(143), signal.SIGTERM) == Outcome()


def test_a_job_that_takes_too_long_is_killed_with_what_it_started() -> None:
    with Child.start(Job("test_child:starts_another")) as child:
        below = psutil.Process(child.receive(time.monotonic() + 60))
        with pytest.raises(TimeoutError):
            child.receive(time.monotonic() + 0.1)
    assert child.process.exitcode == -signal.SIGKILL
    wait_for(lambda: has_ended(below), 10)  # the kernel ends it after kill() returns
