"""Evaluations beside training; Ray is a fake with its own clock."""

from types import SimpleNamespace
from typing import Any

import pytest
from fake_ray import NEVER, FakeActor, FakeRay, Takes, crash
from ray.exceptions import RayTaskError

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.cluster.ray.calls import FailureLog, RayCalls
from xagents_ray.cluster.run import evaluator as evaluations_module
from xagents_ray.cluster.run.evaluator import Evaluations
from xagents_ray.core.errors import EndlessEpisode
from xagents_ray.core.printed import Printed
from xagents_ray.core.reports import Evaluated, FailedEvaluation
from xagents_ray.core.signals import Signals
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Episode
from xagents_ray.run.prepare import build_run
from xagents_ray.settings.config import Config


@pytest.fixture
def run() -> RunSpec:
    given = {"env": "CartPole-v1", "max_steps": 10, "eval_episodes": 2}
    config = Config.of(ALGORITHMS["ppo"].config, given)
    return build_run(ALGORITHMS["ppo"], config, EnvSpec((4,), "float32", 1, 2))


def evaluations(
    ray: FakeRay, log: FailureLog, run: RunSpec, *turns: Any
) -> Evaluations:
    """Return those of evaluators that take so long for one each, or fail."""
    rest = iter(turns)

    def evaluate(weights: Any, count: int, seed: int, *bounds: Any) -> Takes:
        turn = next(rest)
        if isinstance(turn, Exception):
            return Takes(1.0, turn)
        episodes = [Episode(0, 0, 10.0, 5), Episode(1, 0, 20.0, 5)]
        return Takes(turn, (episodes, Printed((f"Evaluator: {turn}",))))

    def make(n_envs: int) -> FakeActor:
        return FakeActor(ray, SimpleNamespace(evaluate=evaluate), 5.0)

    calls = RayCalls(ray, Signals())
    calls.log = log
    return Evaluations(calls, make, run)


def ended_at(step: int) -> Evaluated:
    """Return the result of two episodes as above."""
    return Evaluated(step, 15.0, mean_length=5.0)


def run_bytes(run: RunSpec) -> int:
    """Return the bytes of a run's weights and state, with Adam's two moments."""
    (layout,) = run.layouts
    return 5 * 4 * layout.n_weights


def _all(ray: FakeRay, beside: Evaluations) -> list[Any]:
    """Return the evaluations that end during training, for some hours."""
    ended = list[Any]()
    for _ in range(1_500):
        ended += beside.ended(is_last=False)
        ray.sleep(10)
    return ended


def test_training_never_waits_for_an_evaluation(
    ray: FakeRay, log: FailureLog, run: RunSpec
) -> None:
    beside = evaluations(ray, log, run, *[600.0] * 50)
    before = ray.now
    for step in range(50):
        beside.begin(step, "weights", 0)
        assert beside.ended(is_last=False) == []
    assert ray.now == before


def test_the_end_of_a_run_waits_for_the_newest_evaluation_alone(
    ray: FakeRay, log: FailureLog, run: RunSpec
) -> None:
    beside, before = evaluations(ray, log, run, *[600.0] * 50), ray.now
    for step in range(50):
        beside.begin(step, "weights", 0)
    ended = beside.ended(is_last=True)
    assert ray.now - before < 1_210  # the one in progress, and the newest
    assert [each for each in ended if isinstance(each, Evaluated)] == [
        ended_at(0),
        ended_at(49),
    ]
    skipped = [each.step for each in ended if isinstance(each, FailedEvaluation)]
    assert skipped == [*range(1, 49)]  # so that their states are dropped
    assert log.counts == {"evaluations skipped": 48}
    (sentence,) = log.warnings
    assert sentence.startswith("The evaluation at 1 steps is skipped for a newer one")
    assert "--eval-every" in sentence


def test_an_episode_without_end_costs_no_evaluator(
    ray: FakeRay, log: FailureLog, run: RunSpec
) -> None:
    endless = RayTaskError("evaluate", "Traceback", EndlessEpisode("It doesn't end."))
    beside = evaluations(ray, log, run, endless, 1.0)
    beside.begin(0, "weights", 700)
    first = beside.actor
    beside.begin(1, "weights", 800)
    expected = [FailedEvaluation(0), ended_at(1)]
    assert beside.ended(is_last=True) == expected
    assert beside.actor is first
    assert [arguments[3:] for _, arguments in first.asked] == [(None, 700), (None, 800)]
    assert log.warnings == ["The evaluation at 0 steps failed: It doesn't end"]


def test_weights_that_wait_fit_into_the_object_store(
    ray: FakeRay, log: FailureLog, run: RunSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluations_module, "_WAITING_BYTES", 3 * run_bytes(run))
    beside = evaluations(ray, log, run, *[600.0] * 50)
    for step in range(10):
        beside.begin(step, "weights", 0)
    skipped = [FailedEvaluation(step) for step in range(1, 7)]
    assert beside.ended(is_last=False) == skipped
    assert log.counts == {"evaluations skipped": 6}
    (sentence,) = log.warnings
    assert sentence.startswith("The evaluation at 1 steps is skipped for a newer one")
    ray.sleep(5_000)
    assert [each.step for each in _all(ray, beside)] == [0, 7, 8, 9]


def test_64_mib_of_weights_and_states_wait(
    ray: FakeRay, log: FailureLog, run: RunSpec
) -> None:
    beside, most = evaluations(ray, log, run, NEVER), (64 << 20) // run_bytes(run)
    for step in range(most + 3):
        beside.begin(step, "weights", 0)
    skipped = [each.step for each in beside.ended(is_last=False)]
    assert skipped == [1, 2] and most > 500


def test_one_that_fails_costs_no_other(
    ray: FakeRay, log: FailureLog, run: RunSpec
) -> None:
    beside = evaluations(ray, log, run, 1.0, crash(), NEVER, 1.0, 1.0)
    for step in range(5):
        beside.begin(step, "weights", 0)
    assert _all(ray, beside) == [
        ended_at(0),
        FailedEvaluation(1),
        FailedEvaluation(2),
        ended_at(3),
        ended_at(4),
    ]
    assert log.counts == {"evaluations": 2}
    assert log.printed.take() == ["Evaluator: 1.0"] * 3
    assert log.warnings == [
        "The evaluation at 1 steps failed: RuntimeError: no licence at line 7",
        "The evaluation at 2 steps failed: it takes too long",
    ]


@pytest.mark.parametrize(("seconds", "late"), [(6_000.0, 0), (12_000.0, 1)])
def test_a_slow_one_is_given_ten_times_the_longest(
    ray: FakeRay, log: FailureLog, run: RunSpec, seconds: float, late: int
) -> None:
    beside = evaluations(ray, log, run, 1_000.0, seconds, 1.0)
    for step in range(3):
        beside.begin(step, "weights", 0)
    assert [each.step for each in _all(ray, beside)] == [0, 1, 2]
    assert log.counts["evaluations"] == late


def test_the_end_of_a_run_gives_up_one_that_hangs(
    ray: FakeRay, log: FailureLog, run: RunSpec
) -> None:
    beside, before = evaluations(ray, log, run, NEVER), ray.now
    beside.begin(0, "weights", 0)
    ray.sleep(600)
    assert beside.ended(is_last=True) == [FailedEvaluation(0)]
    assert ray.now - before == pytest.approx(1_800, abs=0.5)


def test_one_has_half_an_hour(ray: FakeRay, log: FailureLog, run: RunSpec) -> None:
    beside = evaluations(ray, log, run, NEVER)
    beside.begin(0, "weights", 0)
    ray.sleep(1_800)
    assert beside.ended(is_last=False) == []
    ray.sleep(0.1)
    late = ray.now
    assert beside.ended(is_last=False) == [FailedEvaluation(0)]
    assert ray.now - late < 0.5


def test_one_that_hangs_is_noticed_beside_training(
    ray: FakeRay, log: FailureLog, run: RunSpec
) -> None:
    beside = evaluations(ray, log, run, NEVER, 1.0)
    for step in range(2):
        beside.begin(step, "weights", 0)
    ended, began = list[Any](), ray.now
    while ended_at(1) not in ended:
        ray.sleep(10)
        ended += beside.ended(is_last=False)
    assert ended == [FailedEvaluation(0), ended_at(1)]
    assert ray.now - began < 2_000


def test_one_whose_process_dies_has_a_successor(
    ray: FakeRay, log: FailureLog, run: RunSpec
) -> None:
    beside = evaluations(ray, log, run, 600.0, 1.0)
    beside.begin(0, "weights", 0)
    first = beside.actor
    first.die()
    beside.begin(1, "weights", 0)
    expected = [FailedEvaluation(0), ended_at(1)]
    assert beside.ended(is_last=True) == expected
    assert beside.actor is not first
    assert log.warnings == ["The evaluation at 0 steps failed: its process died"]
