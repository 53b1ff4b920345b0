"""Which runs wait, run, have ended or failed: with pipes, and without processes."""

from collections.abc import Mapping
from multiprocessing import Pipe
from signal import SIGKILL
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from results import result

from xagents_ray.core.signals import Signals
from xagents_ray.run.child import Child, Outcome, Report
from xagents_ray.tuning.seed_runs import SeedRun, SeedRuns
from xagents_ray.tuning.seeds_result import SeedsResult
from xagents_ray.watch.result import Result


def child(*messages: Any, runs_on: bool = False, stopped: Any = None) -> Child:
    """Return one that sends messages, and dies unless it runs on until it is stopped.

    Args:
        messages: what it sends at once.
        runs_on: whether it waits for SIGTERM then.
        stopped: value of the outcome that it sends after SIGTERM.
    """
    link, theirs = Pipe()
    for message in messages:
        theirs.send(message)
    if not runs_on:
        theirs.close()
    process: Any = SimpleNamespace(
        join=lambda seconds: None,
        is_alive=lambda: False,
        exitcode=-SIGKILL,
        terminate=lambda: theirs.send(Outcome(stopped)),
    )
    return Child(process, link)


def ended(mean: float | None) -> Child:
    return child(Outcome(result(mean)))


class Fakes:
    """Runs whose processes are scripted, by seed."""

    def __init__(
        self,
        processes: dict[int, Any],
        parallel: int = 2,
        ended: Mapping[int, Result] = MappingProxyType({}),
    ) -> None:
        self._processes = processes
        self.changes: list[tuple[int, str]] = []
        self.most = self._running = 0
        how = parallel, self.start, self.changed, ended
        self.runs = SeedRuns(list(processes), *how)
        self.signals = Signals()
        self.signals.on_first = None

    def start(self, seed: int) -> Any:
        process = self._processes[seed]
        if isinstance(process, OSError):
            raise process
        return process

    def changed(self, run: SeedRun) -> None:
        self.changes.append((run.seed, run.state))
        states = [each.state for each in self.runs.runs]
        self.most = max(self.most, states.count("running"))

    def train(self) -> dict[int, str]:
        """Return the state of each run at the end."""
        self.runs.train(self.signals, lambda: None)
        return {run.seed: run.state for run in self.runs.runs}


def test_every_seed_is_trained_and_so_many_at_a_time() -> None:
    fakes = Fakes({seed: ended(seed) for seed in range(5)})
    assert fakes.train() == dict.fromkeys(range(5), "ended")
    assert fakes.most == 2
    assert fakes.changes[:3] == [(0, "running"), (1, "running"), (0, "ended")]
    found = SeedsResult.of(fakes.runs.runs, "runs/seeds/a", None)
    assert [r.mean_reward for r in found.results.values()] == [0, 1, 2, 3, 4]
    assert found.mean == 2.0 and found.failures == {} and found.unfinished == ()


def test_what_is_over_needs_no_process() -> None:
    processes = {1: OSError("is not started"), 2: ended(4.0)}
    fakes = Fakes(processes, ended={1: result(2.0)})
    assert fakes.train() == {1: "ended", 2: "ended"}
    assert fakes.changes[0] == (1, "ended")
    assert SeedsResult.of(fakes.runs.runs, "runs/seeds/a", None).mean == 3.0


def test_a_run_reports_how_far_it_is() -> None:
    fakes = Fakes({7: child(Report(3, None), Report(5, 1.5))})
    fakes.train()
    assert fakes.runs.runs[0].newest == Report(5, 1.5)


def test_a_failure_ends_only_its_own_run() -> None:
    fakes = Fakes(
        {
            1: child(Outcome(failure="loss is nan", trace="trace")),
            2: ended(4.0),
            3: child(Report(5, 1.5)),  # it dies
            4: OSError("no more processes"),
            5: ended(None),
        }
    )
    states = fakes.train()
    assert states == {1: "failed", 2: "ended", 3: "failed", 4: "failed", 5: "ended"}
    found = SeedsResult.of(fakes.runs.runs, "runs/seeds/a", None)
    assert found.failures == {
        1: "loss is nan",
        3: "the process ended with SIGKILL",
        4: "its process can't be started (no more processes)",
    }
    assert (found.mean, found.standard_error, found.iqm) == (4.0, None, 4.0)
    assert found.iqm_interval == (4.0, 4.0)
    assert found.failure() == (
        "3 of 5 seeds failed; seed 1: loss is nan. runs/seeds/a has what was printed, "
        "and the same command with --name a trains what is left."
    )


@pytest.mark.parametrize("last", [None, result(2.0, signal=15)])
def test_a_signal_stops_what_runs_and_begins_nothing_else(last: Any) -> None:
    fakes = Fakes({n: child(runs_on=True, stopped=last) for n in range(3)})
    began, shown = fakes.changed, []

    def show() -> None:
        shown.append(True)
        fakes.signals.received = 2

    fakes.runs.train(fakes.signals, show)
    states = [run.state for run in fakes.runs.runs]
    assert states == ["stopped", "stopped", "waiting"] and began and shown
    found = SeedsResult.of(fakes.runs.runs, "runs/seeds/a", 2)
    assert (found.unfinished, found.results, found.signal) == ((0, 1, 2), {}, 2)
    assert found.mean is found.iqm is found.iqm_interval is None
    assert found.sentence(2) == "There is no mean reward: no run ended"


def test_the_scores_in_a_sentence() -> None:
    fakes = Fakes({seed: ended(seed) for seed in (1, 2, 3, 10)})
    fakes.train()
    found = SeedsResult.of(fakes.runs.runs, "runs/seeds/a", None)
    assert found.sentence(2).startswith(
        "Mean reward of 4 seeds: 4.00 ± 2.04 (standard error), interquartile mean 2.50 "
        "[1."
    )
    assert found.summary()["results"][10]["last_reward"] == 10
