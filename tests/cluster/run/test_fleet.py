"""Env actors that fail, don't start or are slow; Ray is a fake with its own clock."""

import traceback
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from fake_ray import (
    NEVER,
    FakeActor,
    FakeRay,
    RayActorError,
    Reference,
    crash,
    report,
)

from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.cluster.ray import calls as calls_module
from xagents_ray.cluster.ray.calls import Calls, place_of, traceback_of
from xagents_ray.cluster.ray.failures import FailureLog
from xagents_ray.cluster.run import env_actors as env_actors_module
from xagents_ray.cluster.run import fleet as fleet_module
from xagents_ray.cluster.run.env_actors import EnvActors
from xagents_ray.cluster.run.fleet import Fleet
from xagents_ray.core.errors import Broken, UserError
from xagents_ray.core.signals import Signals
from xagents_ray.settings.config import Config

Make = Callable[[int, int], FakeActor]
"""Makes an actor of a slot: (slot, how many it had before)."""


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    fake = FakeRay()
    for module in (calls_module, env_actors_module, fleet_module):
        monkeypatch.setattr(module, "time", fake)
    return fake


class Started:
    """A fleet whose first actors are ready."""

    def __init__(self, ray: FakeRay, make: Make, actors: int, **settings: Any) -> None:
        given = {"env": "CartPole-v1", "max_steps": 10, "n_envs": 8, **settings}
        self.ray, self.made = ray, [0] * actors
        self.actors: list[FakeActor] = [None] * actors  # type: ignore[list-item]

        def made(number: int) -> FakeActor:
            self.actors[number] = make(number, self.made[number])
            self.made[number] += 1
            return self.actors[number]

        config = Config.of(ALGORITHMS["ppo"].config, given)
        self.weights = ray.put("weights")
        self.log, calls = FailureLog(), Calls(ray, Signals())
        restarts = config.placement.max_actor_restarts
        self.pool = EnvActors(calls, self.log, [4] * actors, made, restarts)
        self.fleet = Fleet(calls, self.log, config, self.pool, lambda: self.weights)
        self.pool.wait_until_ready()

    def round(self) -> tuple[int, float]:
        """Return how many rollouts a round has, and its seconds."""
        before = self.ray.now
        self.fleet.launch(self.weights, 0)
        return len(self.fleet.round()), self.ray.now - before


def _never_again(ray: FakeRay) -> Make:
    """Return actors that start, and replacements that don't."""
    return lambda _, before: FakeActor(ray, NEVER if before else 1.0)


def test_rounds_do_not_wait_for_a_replacement_that_cannot_be_placed(
    ray: FakeRay,
) -> None:
    started = Started(ray, _never_again(ray), 2)
    started.actors[1].die()
    rounds = [started.round() for _ in range(1_000)]
    assert all(count == 1 for count, _ in rounds)
    assert max(seconds for _, seconds in rounds) < 2
    (overdue,) = [s for s in started.log.warnings if "did not start within 130 s" in s]
    assert "`ray status`" in overdue
    assert "continues without its 4 environments" in overdue
    assert started.made == [1, 2]
    assert not started.pool.is_complete


def test_a_replacement_that_is_late_comes_back(ray: FakeRay) -> None:
    started = Started(ray, lambda _, before: FakeActor(ray, 200 if before else 1.0), 2)
    started.actors[1].die()
    began = ray.now
    while ray.now < began + 210:
        count, _ = started.round()
    assert count == 2
    assert (
        "Env actor 1 has started; its 4 environments are back" in started.log.warnings
    )
    assert started.pool.is_complete
    assert started.log.counts["env actors"] == 1


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_run_ends_once_when_no_replacement_can_be_placed(
    ray: FakeRay, asynchronous: bool
) -> None:
    settings = {"asynchronous": True, "policy_lag": 1} if asynchronous else {}
    started = Started(ray, _never_again(ray), 2, **settings)
    for actor in started.actors:
        actor.die()
    began = ray.now
    started.fleet.launch(started.weights, 0)
    fleet = started.fleet
    with pytest.raises(Broken, match="did not start within 130 s"):
        fleet.newest(2, 0) if asynchronous else fleet.round()
    assert ray.now - began < 135


def test_the_only_actor_is_waited_for(ray: FakeRay) -> None:
    started = Started(ray, lambda _, before: FakeActor(ray, 20.0 if before else 1.0), 1)
    started.actors[0].die()
    count, seconds = started.round()
    assert count == 1
    assert 20 <= seconds < 23


def test_one_that_is_given_up_leaves_nobody_but_who_cannot_be_placed(
    ray: FakeRay,
) -> None:
    """Who fails last is not replaced, and nobody waits for ever for the other."""

    def make(number: int, before: int) -> FakeActor:
        if number == 1:
            return _never_again(ray)(number, before)
        return FakeActor(
            ray, 1.0, lambda _: (1.0, report() if ray.now < 1_200 else crash())
        )

    started = Started(ray, make, 2)
    started.actors[1].die()
    with pytest.raises(Broken, match="No env actor is left"):
        for _ in range(1_000):
            started.round()
    assert ray.now < 1_230


def test_all_actors_are_restored_at_once(ray: FakeRay) -> None:
    started = Started(ray, lambda *_: FakeActor(ray, restores=30.0), 8)
    before = ray.now
    assert started.pool.restore([{}] * 8, 1) == 0
    assert ray.now - before < 31


def test_those_that_cannot_be_restored_share_one_limit(ray: FakeRay) -> None:
    started = Started(ray, lambda *_: FakeActor(ray, restores=NEVER), 4)
    before = ray.now
    assert started.pool.restore([{}] * 4, 1) == 16
    assert ray.now - before < 145
    assert started.log.counts["env actors"] == 4


def test_what_a_slow_network_takes_is_not_a_hang(ray: FakeRay) -> None:
    """The actor is busy for a second of the 20 that a rollout takes to come."""
    seconds = iter([20.0] * 10 + [120.0] + [20.0] * 10)
    started = Started(
        ray, lambda *_: FakeActor(ray, 1.0, lambda _: (next(seconds), report())), 1
    )
    assert [started.round()[0] for _ in range(20)] == [1] * 20
    assert not started.log.counts


def test_what_hangs_is_replaced(ray: FakeRay) -> None:
    def make(_: int, before: int) -> FakeActor:
        def roll(number: int) -> tuple[float, Any]:
            return 1.0 if before or number < 5 else NEVER, report()

        return FakeActor(ray, 1.0, roll)

    started = Started(ray, make, 1)
    seconds = [started.round()[1] for _ in range(10)]
    assert 60 < max(seconds) < 65
    assert started.log.counts["env actors"] == 1


def test_an_actor_that_refuses_its_settings_ends_the_start_with_its_sentence(
    ray: FakeRay,
) -> None:
    """Its constructor raises, which Ray tells as the death of the actor."""
    refusal = UserError("The module mine can't be imported.")
    (line,) = traceback.format_exception_only(refusal)
    text = (
        "The actor died because of an error raised in its creation task, "
        "\x1b[36mray::EnvActor.__init__()\x1b[39m (pid=7, ip=10.0.0.1)\n"
        f'  File "/x/actors/env_actor.py", line 60, in __init__\n{line}'
    )

    def make(*_: int) -> FakeActor:
        actor = FakeActor(ray)
        failed = Reference(ray.now + 1, RayActorError(text))
        actor.ready = SimpleNamespace(remote=lambda: failed)
        return actor

    with pytest.raises(UserError) as raised:
        Started(ray, make, 2)
    assert str(raised.value) == str(refusal)


def _crashing(ray: FakeRay, episodes: int, lines: Sequence[int]) -> Make:
    """Return actors that act four times, and fail the fifth, at one line each."""

    def make(_: int, before: int) -> FakeActor:
        def roll(number: int) -> tuple[float, Any]:
            if number < 5:
                return 1.0, report(episodes)
            return 1.0, crash(lines[before % len(lines)])

        return FakeActor(ray, 1.0, roll)

    return make


def test_the_same_error_without_a_finished_episode_ends_the_run(ray: FakeRay) -> None:
    started = Started(ray, _crashing(ray, 0, [7]), 2)
    with pytest.raises(Broken) as raised:
        for _ in range(200):
            started.round()
    assert started.made == [4, 4]
    message = str(raised.value)
    assert "failed at mine.py, line 7 (RuntimeError), 4 times" in message
    assert "without a finished episode" in message
    assert raised.value.trace.startswith("Traceback (most recent call last):")
    assert raised.value.trace.endswith("RuntimeError: no licence at line 7")
    shown = "".join(traceback.format_exception(raised.value))
    assert shown.index("mine.py") < shown.index("No env actor is left")
    (given_up,) = [s for s in started.log.warnings if "given up" in s]
    assert "4 times without a finished episode in between" in given_up


def test_failures_in_a_row_end_the_run(ray: FakeRay) -> None:
    def make(*_: int) -> FakeActor:
        return FakeActor(ray, 1.0, lambda _: (1.0, crash(int(ray.now))))

    started = Started(ray, make, 1, max_actor_restarts=1)
    with pytest.raises(Broken, match="2 times in a row"):
        started.round()


@pytest.mark.parametrize(
    ("episodes", "lines"), [(1, [7]), (0, [7, 8, 9, 10, 11, 12, 13, 14])]
)
def test_other_errors_and_finished_episodes_do_not(
    ray: FakeRay, episodes: int, lines: Sequence[int]
) -> None:
    started = Started(ray, _crashing(ray, episodes, lines), 1)
    for _ in range(30):
        started.round()
    assert started.made[0] >= 6
    assert not started.log.counts["environments"]


def test_an_error_is_known_by_its_kind_and_the_line_that_raised_it() -> None:
    traces = [traceback_of(crash(*each)) for each in ((7,), (8,), (7, "ValueError"))]
    assert [place_of(trace) for trace in traces] == [
        "mine.py, line 7 (RuntimeError)",
        "mine.py, line 8 (RuntimeError)",
        "mine.py, line 7 (ValueError)",
    ]
