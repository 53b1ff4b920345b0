"""Env actors that fail, don't start or are slow; Ray is a fake with its own clock."""

import math
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from fake_ray import NEVER, FakeActor, FakeRay, Ref, Takes, crash, full
from ray.exceptions import (
    ActorDiedError,
    ObjectLostError,
    OutOfDiskError,
    OutOfMemoryError,
    RayTaskError,
)

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.cluster.ray.calls import RayCalls, remote_traceback
from xagents_ray.cluster.run.actor_errors import error_line
from xagents_ray.cluster.run.actor_pool import ActorPool
from xagents_ray.cluster.run.actor_slot import ActorSlot, RolloutCall
from xagents_ray.cluster.run.rollout_limits import RolloutLimits
from xagents_ray.cluster.run.rollout_scheduler import RolloutScheduler
from xagents_ray.cluster.run.supervised_learner import SupervisedLearner
from xagents_ray.core.errors import Broken, Diverged, Stopped, UserError
from xagents_ray.core.inference import InferenceLost
from xagents_ray.core.printed import NOTHING, Printed
from xagents_ray.core.signals import Signals
from xagents_ray.core.trajectory import Episode, RolloutReport
from xagents_ray.settings.config import Config

Make = Callable[[int, int], FakeActor]
"""Makes an actor of a slot: (slot, how many it had before)."""
Outcome = tuple[float, Any]
"""The seconds of a rollout, and how many episodes ended in it or what it raised."""


class _EnvActor:
    """An env actor whose weights are their version.

    Args:
        roll: returns the outcome of the n-th rollout, from 1.
        restores: seconds until it has taken a state.
    """

    def __init__(
        self,
        roll: Callable[[int], Outcome] = lambda number: (1.0, 0),
        restores: float = 1.0,
    ) -> None:
        self._roll, self._restores = roll, restores
        self.rollouts, self.printed = 0, NOTHING

    def ready(self) -> None: ...

    def restart(self, session: int) -> None: ...

    def restore(self, state: Any) -> Takes:
        return Takes(self._restores, 0)

    def rollout(self, weights: int, length: int, env_steps: int) -> Takes:
        self.rollouts += 1
        seconds, outcome = self._roll(self.rollouts)
        if isinstance(outcome, Exception):
            return Takes(seconds, outcome)
        ended = tuple(Episode(0, 0, 1.0, 1) for _ in range(outcome))
        steps = np.ones(2, np.int64)
        report = RolloutReport(
            steps, ended, 1.0, weights_version=weights, printed=self.printed
        )
        return Takes(seconds, (self, report))

    def close(self) -> Printed:
        return Printed(("Env actor 0: bye",))


class _Started:
    """A fleet whose first actors are ready.

    Attributes:
        weights: references to give when weights are asked for, the last one forever.
        made: how many actors each slot has had.
        actors: the newest one of each slot.
    """

    def __init__(
        self,
        ray: FakeRay,
        make: Make,
        count: int,
        agent: str = "ppo",
        at_once: int = 1,
        **settings: Any,
    ) -> None:
        given = {"env": "CartPole-v1", "max_steps": 10, "n_envs": 8, **settings}
        config = Config.of(find_algorithm(agent).config, given)
        self.ray, self.made = ray, [0] * count
        self.actors: dict[int, FakeActor] = {}
        self.weights, self.signals = [Ref(1)], Signals()
        self.signals.on_first = None

        def made(number: int) -> FakeActor:
            self.actors[number] = make(number, self.made[number])
            self.made[number] += 1
            return self.actors[number]

        calls, restarts = (
            RayCalls(ray, self.signals),
            config.placement.max_actor_restarts,
        )
        self.calls, self.log = calls, calls.log
        self.pool = ActorPool(calls, [4] * count, made, restarts)
        self.asked_to_act = 0  # how often the learner was checked
        weights = self.next_weights, self.acting_weights, lambda: None
        self.fleet = RolloutScheduler(calls, config, self.pool, *weights, at_once)
        self.pool.wait_until_ready()

    def next_weights(self, lost: Ref | None = None) -> Ref:
        return self.weights.pop(0) if len(self.weights) > 1 else self.weights[0]

    def acting_weights(self) -> Ref:
        self.asked_to_act += 1
        return self.next_weights()

    def round(self, version: int = 1) -> tuple[int, float]:
        """Return how many rollouts a round has, and its seconds."""
        before = self.ray.now
        self.fleet.launch(Ref(version), 0)
        return len(self.fleet.round()), self.ray.now - before

    @property
    def asked(self) -> int:
        """How many rollouts were requested of the newest actors."""
        calls = [call for actor in self.actors.values() for call in actor.asked]
        return sum(name == "rollout" for name, _ in calls)


def _actor(ray: FakeRay, starts: float = 1.0, **settings: Any) -> FakeActor:
    return FakeActor(ray, _EnvActor(**settings), starts)


def _never_again(ray: FakeRay) -> Make:
    """Return actors that start, and replacements that don't."""
    return lambda _, before: _actor(ray, NEVER if before else 1.0)


def test_rounds_do_not_wait_for_a_replacement_that_cannot_be_placed(
    ray: FakeRay,
) -> None:
    started = _Started(ray, _never_again(ray), 2)
    started.actors[1].die()
    rounds = [started.round() for _ in range(1_000)]
    assert all(count == 1 for count, _ in rounds)
    assert max(seconds for _, seconds in rounds) < 2
    (overdue,) = [s for s in started.log.warnings if "did not start within 120 s" in s]
    assert "`ray status`" in overdue
    assert "continues without its 4 environments" in overdue
    assert started.made == [1, 2]
    assert not started.pool.is_complete


def test_a_replacement_that_is_late_comes_back(ray: FakeRay) -> None:
    started = _Started(ray, lambda _, before: _actor(ray, 200 if before else 1.0), 2)
    started.actors[1].die()
    began = ray.now
    while ray.now < began + 210:
        count, _ = started.round()
    assert count == 2
    back = "Env actor 1 has started; its 4 environments are back"
    assert back in started.log.warnings
    assert started.pool.is_complete
    assert started.log.counts["env actors"] == 1


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_run_ends_once_when_no_replacement_can_be_placed(
    ray: FakeRay, asynchronous: bool
) -> None:
    settings = {"asynchronous": True, "policy_lag": 1} if asynchronous else {}
    started = _Started(ray, _never_again(ray), 2, **settings)
    for actor in started.actors.values():
        actor.die()
    began = ray.now
    started.fleet.launch(Ref(1), 0)
    fleet = started.fleet
    with pytest.raises(Broken, match="did not start within 120 s"):
        fleet.newest(2, 0) if asynchronous else fleet.round()
    assert ray.now - began < 135


def test_the_only_actor_is_waited_for(ray: FakeRay) -> None:
    started = _Started(ray, lambda _, before: _actor(ray, 20.0 if before else 1.0), 1)
    started.actors[0].die()
    count, seconds = started.round()
    assert count == 1
    assert 20 <= seconds < 23


def test_when_the_last_one_is_given_up_nobody_waits_for_what_cannot_be_placed(
    ray: FakeRay,
) -> None:
    def make(number: int, before: int) -> FakeActor:
        if number == 1:
            return _never_again(ray)(number, before)
        return _actor(ray, roll=lambda _: (1.0, 0 if ray.now < 1_200 else crash()))

    started = _Started(ray, make, 2)
    started.actors[1].die()
    with pytest.raises(Broken, match="No env actor is left"):
        for _ in range(1_000):
            started.round()
    assert ray.now < 1_230


@pytest.mark.parametrize("starts", [NEVER, 500.0])
def test_a_start_that_takes_too_long_is_refused(ray: FakeRay, starts: float) -> None:
    with pytest.raises(Broken, match="No env actor started within 120 s"):
        _Started(ray, lambda *_: _actor(ray, starts), 1)


def test_actors_that_start_one_after_another_are_waited_for(ray: FakeRay) -> None:
    delays, began = iter([300.0, 100.0, 200.0, 300.0]), ray.now
    _Started(ray, lambda *_: _actor(ray, next(delays)), 4)
    with pytest.raises(Broken, match="No env actor started within 120 s"):
        _Started(ray, lambda number, _: _actor(ray, NEVER if number else 1.0), 100)
    assert ray.now - began < 300 + 125


@pytest.mark.parametrize(("count", "tries"), [(1, [2]), (3, [1, 1, 1])])
def test_a_constructor_that_always_raises_ends_the_start(
    ray: FakeRay, count: int, tries: list[int]
) -> None:
    try:
        raise FileNotFoundError("data/level.txt")
    except FileNotFoundError as error:
        cause, trace = error, traceback.format_exc()
    made = [0] * count

    def make(number: int, _: int) -> FakeActor:
        made[number] += 1
        actor = _actor(ray, NEVER)
        title = "ray::EnvActor.__init__"
        error = RayTaskError("__init__", trace, cause, proctitle=title, actor_id="1")
        actor.die(ActorDiedError(error))
        return actor

    with pytest.raises(Broken, match=r"FileNotFoundError: data/level\.txt") as raised:
        _Started(ray, make, count)
    assert made == tries
    assert "data/level.txt" in raised.value.trace


def test_an_actor_that_refuses_its_settings_ends_the_start_with_its_sentence(
    ray: FakeRay,
) -> None:
    """Its constructor raises, which Ray reports as the death of the actor."""
    said, title = "The module mine can't be imported.", "ray::EnvActor.__init__"
    try:
        raise UserError(said)
    except UserError as error:
        refusal, trace = error, traceback.format_exc()

    def make(*_: int) -> FakeActor:
        actor = _actor(ray, NEVER)
        error = RayTaskError("__init__", trace, refusal, proctitle=title, actor_id="1")
        actor.die(ActorDiedError(error))
        return actor

    with pytest.raises(UserError) as raised:
        _Started(ray, make, 2)
    assert str(raised.value) == said


@pytest.mark.parametrize(
    ("restores", "dropped", "seconds"), [(30.0, 0, 31), (NEVER, 32, 165)]
)
def test_actors_are_restored_at_once_within_one_limit(
    ray: FakeRay, restores: float, dropped: int, seconds: float
) -> None:
    started = _Started(ray, lambda *_: _actor(ray, restores=restores), 8)
    before = ray.now
    assert started.pool.restore([{}] * 8, 1) == dropped
    assert ray.now - before < seconds
    assert started.log.counts["env actors"] == dropped / 4


def test_what_a_slow_network_takes_is_not_a_hang(ray: FakeRay) -> None:
    """The actor is busy for a second of the 20 that a rollout takes to arrive."""
    seconds = iter([20.0] * 10 + [120.0] + [20.0] * 10)
    started = _Started(
        ray, lambda *_: _actor(ray, roll=lambda _: (next(seconds), 0)), 1
    )
    assert [started.round()[0] for _ in range(20)] == [1] * 20
    assert not started.log.counts


def _hanging(ray: FakeRay) -> Make:
    """Return actors whose fifth rollout never ends, and replacements that work."""

    def make(_: int, before: int) -> FakeActor:
        return _actor(ray, roll=lambda n: (1.0 if before or n < 5 else NEVER, 0))

    return make


def test_what_hangs_is_replaced(ray: FakeRay) -> None:
    started = _Started(ray, _hanging(ray), 1)
    seconds = [started.round()[1] for _ in range(10)]
    assert 60 < max(seconds) < 65
    assert started.log.counts == {"env actors": 1, "rollouts": 1}


def test_a_reset_that_is_as_slow_as_an_earlier_one_is_no_hang(ray: FakeRay) -> None:
    """Every tenth rollout has one; the median rollout takes a second."""
    slow = lambda n: (75.0 if n % 10 == 1 else 1.0, 0)  # noqa: E731
    started = _Started(ray, lambda *_: _actor(ray, roll=slow), 2)
    for _ in range(40):
        assert started.round()[0] == 2
    assert not started.log.counts


def test_the_limit_is_three_times_the_longest_rollout(ray: FakeRay) -> None:
    roll = lambda n: (NEVER if n == 9 else 75.0 if n == 1 else 1.0, 0)  # noqa: E731
    started = _Started(
        ray, lambda _, before: _actor(ray, **({} if before else {"roll": roll})), 1
    )
    longest = max(started.round()[1] for _ in range(12))
    assert longest == pytest.approx(225 + 2, abs=3)
    (warning,) = started.log.warnings
    assert "took longer than 225 s for a rollout (see --actor-timeout)" in warning


def test_a_replacement_has_the_limit_of_the_start_for_its_first_rollout(
    ray: FakeRay,
) -> None:
    """It has to reset all of its environments, which the others did at the start."""

    def make(_: int, before: int) -> FakeActor:
        return _actor(ray, roll=lambda n: (500.0 if before and n == 1 else 1.0, 0))

    started = _Started(ray, make, 2)
    started.round()
    started.actors[1].die()
    while started.pool.slots[1].failures or started.made == [1, 1]:
        started.round()
    assert started.made == [1, 2]
    assert started.log.counts["env actors"] == 1


class _Claims:
    """The claims of env actors, which are lost with a node and come back.

    Attributes:
        made: the number, and whether it has its claim, of each actor that was made.
    """

    def __init__(self, started: _Started) -> None:
        self.lost: list[int] = []
        self.made: list[tuple[int, bool]] = []
        pool, make = started.pool, started.pool._make

        def on(has_claim: bool) -> Callable[[int], FakeActor]:
            def made(number: int) -> FakeActor:
                self.made.append((number, has_claim))
                actor: FakeActor = make(number)
                if has_claim and number in self.lost:
                    actor._free_at = NEVER  # it pends
                return actor

            return made

        pool._make, pool._make_elsewhere = on(True), on(False)
        pool._lost_claims = lambda: self.lost


@pytest.mark.parametrize(
    "settings",
    [{}, {"policy_lag": 2}, {"asynchronous": True, "policy_lag": 1}],
    ids=["lag 0", "lag 2", "asynchronous"],
)
def test_env_actors_return_to_their_claim_when_it_is_back(
    ray: FakeRay, settings: dict[str, Any]
) -> None:
    started = _Started(ray, lambda *_: _actor(ray), 2, **settings)
    claims = _Claims(started)

    def rounds(count: int) -> None:
        for _ in range(count):
            if settings.get("asynchronous"):
                started.fleet.newest(2, 0)
            else:
                assert started.round()[0] >= 1

    rounds(3)
    claims.lost = [1]
    started.actors[1].die()
    rounds(30)
    assert claims.made == [(1, False)]
    elsewhere = started.actors[1]
    claims.lost = []
    rounds(30)
    assert claims.made == [(1, False), (1, True)]
    assert elsewhere.is_dead
    assert started.pool.slots[1].actor is started.actors[1]
    assert not started.pool.slots[1].is_away
    assert "Env actor 1 is back on the cores of its claim" in started.log.warnings
    assert started.log.counts["env actors"] == 1  # moving it costs no rollout
    assert started.log.counts["rollouts"] <= 3


def test_an_actor_that_crashes_keeps_its_claim(ray: FakeRay) -> None:
    started = _Started(ray, lambda *_: _actor(ray), 2)
    claims = _Claims(started)
    started.round()
    started.actors[1].die()
    for _ in range(10):
        started.round()
    assert claims.made == [(1, True)]


def test_giving_an_actor_up_ends_the_one_that_returns_to_its_claim(
    ray: FakeRay,
) -> None:
    """Else it would hold its cores until the run ends."""
    started = _Started(ray, lambda *_: _actor(ray), 2, max_actor_restarts=1)
    claims = _Claims(started)
    started.round()
    claims.lost = [1]
    started.actors[1].die()
    for _ in range(5):
        started.round()
    elsewhere = started.actors[1]
    started.pool._make = lambda _: returning
    returning, claims.lost = _actor(ray, NEVER), []
    for _ in range(20):
        started.round()
    slot, before = started.pool.slots[1], ray.now
    assert slot.returning is returning
    assert started.pool.takes_requests(slot) and ray.now == before
    slot.failures = 1
    elsewhere.die()
    for _ in range(10):
        started.round()
    assert slot.actor is None
    assert returning.is_dead
    assert slot.returning is slot.returned is None


def test_an_actor_whose_claim_is_lost_while_it_starts_moves(ray: FakeRay) -> None:
    """Ray takes a while to notice that a node is gone."""
    started = _Started(ray, lambda _, before: _actor(ray, 40.0 if before else 1.0), 2)
    claims = _Claims(started)
    started.round()
    started.actors[1].die()
    for _ in range(5):
        started.round()
    claims.lost = [1]
    for _ in range(60):
        count, _ = started.round()
    assert claims.made == [(1, True), (1, False)]
    assert count == 2
    assert started.log.counts["env actors"] == 1


def test_a_late_answer_of_one_that_was_replaced_is_not_taken(ray: FakeRay) -> None:
    """Ray takes its time to end the process."""

    def make(_: int, before: int) -> FakeActor:
        return _actor(ray, roll=lambda n: (1.0 if before or n < 5 else 70.0, 0))

    ray.kill = lambda actor: None  # type: ignore[method-assign, assignment]
    started = _Started(ray, make, 1)
    while started.made == [1]:
        started.round()
    replacement = started.actors[0].instance
    for _ in range(20):
        started.fleet.launch(Ref(1), 0)
        (rollout,) = started.fleet.round()
        assert rollout.trajectory.value is replacement


def test_what_an_actor_prints_comes_with_its_rollouts_and_its_end(
    ray: FakeRay,
) -> None:
    """One that fails is asked to close, and returns what it printed before."""

    def make(_: int, before: int) -> FakeActor:
        fails = crash() if before == 0 else 0
        actor = _actor(ray, roll=lambda number: (1.0, fails if number == 2 else 0))
        actor.instance.printed = Printed((f"Env actor 0: life {before}",))
        return actor

    started = _Started(ray, make, 1)
    started.round()
    assert started.log.printed.take() == ["Env actor 0: life 0"]
    started.round()  # of the replacement
    assert started.log.printed.take() == ["Env actor 0: bye", "Env actor 0: life 1"]


def test_an_actor_on_a_node_without_memory_says_so_in_the_end(ray: FakeRay) -> None:
    """Ray ends the process that has the most."""

    def make(*_: int) -> FakeActor:
        return _actor(ray, roll=lambda number: (1.0, OutOfMemoryError("low on memory")))

    started = _Started(ray, make, 1, max_actor_restarts=1)
    with pytest.raises(Broken, match="was ended by Ray, as its node lacks memory, 2"):
        started.round()


def test_rollouts_ahead_die_with_their_actor(ray: FakeRay) -> None:
    started = _Started(ray, lambda *_: _actor(ray), 2, policy_lag=2)
    started.fleet.launch(Ref(1), 0)
    assert started.asked == 6
    started.actors[1].die()
    taken = [len(started.round()) for _ in range(3)]
    assert taken == [2, 2, 2]
    assert started.log.counts == {"env actors": 1, "rollouts": 3}


def test_weights_that_died_with_the_learner_are_replaced_not_the_actors(
    ray: FakeRay,
) -> None:
    started = _Started(ray, lambda *_: _actor(ray), 2)
    lost = Ref(error=ObjectLostError("1", None, ""))
    started.weights = [lost, Ref(7)]
    started.fleet.launch(lost, 0)
    rollouts = started.fleet.round()
    assert [each.report.weights_version for each in rollouts] == [7, 7]
    assert started.made == [1, 1]
    assert not started.log.counts


def test_rollouts_for_which_the_learner_failed_to_act_are_requested_again(
    ray: FakeRay,
) -> None:
    """The env actors stay, and the learner is checked."""
    lost = RayTaskError("rollout", "", InferenceLost("dead"))

    def roll(number: int) -> Outcome:
        return (1.0, lost) if number == 2 else (1.0, 0)

    started = _Started(ray, lambda *_: _actor(ray, roll=roll), 2)
    started.weights = [Ref(7)]
    assert started.round()[0] == 2 and not started.asked_to_act
    started.fleet.launch(Ref(2), 0)
    rollouts = started.fleet.round()
    assert [each.report.weights_version for each in rollouts] == [7, 7]
    assert started.asked_to_act == 2
    assert started.made == [1, 1]
    assert started.log.counts == {"rollouts": 2}


class _Weights:
    """A learner whose weights are on their way to the driver for 0.3 s."""

    def start(self) -> tuple[int, list[str]]:
        return 1, []

    def state(self) -> dict[str, Any]:
        return {}

    def ping(self) -> None: ...

    def weights(self, version: int) -> Takes:
        return Takes(0.0, version, transit=0.3)


def test_weights_on_their_way_to_the_driver_delay_no_rollout(ray: FakeRay) -> None:
    """The driver doesn't need them: 64 actors made 3.9 rollouts/s."""
    started = _Started(ray, lambda *_: _actor(ray), 64, asynchronous=True, policy_lag=1)
    learner = SupervisedLearner(
        started.calls, lambda: FakeActor(ray, _Weights()), 1.0, 60
    )
    learner.wait_until_ready()
    started.fleet._weights = learner.available_weights
    first = learner.available_weights()
    count, began = 0, ray.now
    while ray.now - began < 20:
        count += len(started.fleet.newest(1, 0))
    assert count / (ray.now - began) == pytest.approx(64, rel=0.1)
    first.error = ObjectLostError("1", None, "")  # the calls themselves say it
    for _ in range(3):
        started.fleet.newest(64, 0)
    assert learner.version == 2
    assert started.fleet.versions == [2] * 64
    assert not started.log.counts


def test_weights_are_waited_for_without_a_limit(ray: FakeRay) -> None:
    """An actor can't begin while its weights are still being learned."""
    started = _Started(ray, lambda *_: _actor(ray), 1, actor_timeout=5)
    weights, began = Ref.pending(), ray.now
    started.fleet.launch(weights, 0)
    for _ in range(100):
        started.fleet.tend()
        ray.sleep(1)
    assert ray.now - began == pytest.approx(100)  # tending blocks nobody
    weights.put(1)
    assert len(started.fleet.round()) == 1
    assert not started.log.counts


def test_waiting_for_new_weights_requests_no_rollout_twice(ray: FakeRay) -> None:
    """Bringing a learner back waits, and every wait tends the fleet."""
    started = _Started(ray, lambda *_: _actor(ray), 2, asynchronous=True, policy_lag=1)
    fleet = started.fleet

    def weights(lost: Ref | None = None) -> Ref:
        fleet.tend(0)
        return Ref(1)

    fleet._weights = weights
    for _ in range(5):
        assert len(fleet.newest(2, 0)) == 2
        assert [len(slot.calls) for slot in started.pool.slots] == [1, 1]


def test_what_ends_a_run_is_raised_by_the_next_round_and_not_by_another_wait(
    ray: FakeRay,
) -> None:
    """Free actors are tended while a checkpoint or an evaluation is waited for."""
    error = RayTaskError("rollout", "nan", Diverged("a reward of nan"))
    make = lambda *_: _actor(ray, roll=lambda n: (1.0, 0 if n < 3 else error))  # noqa: E731
    started = _Started(ray, make, 2, asynchronous=True, policy_lag=1)
    calls, fleet = started.calls, started.fleet
    calls.meanwhile = lambda: fleet.tend_beside(0)
    assert len(fleet.newest(2, 0)) == 2
    assert calls.get(ray.after(30, "written"), 100) == "written"
    with pytest.raises(Diverged, match="a reward of nan"):
        fleet.newest(2, 0)
    assert calls.get(ray.after(30, "the summary"), 100) == "the summary"


@pytest.mark.parametrize("at_once", [1, 2])
@pytest.mark.parametrize(("lag", "count"), [(1, 2), (8, 3)])
def test_free_actors_do_not_run_further_ahead_than_the_lag(
    ray: FakeRay, at_once: int, lag: int, count: int
) -> None:
    settings = {"asynchronous": True, "policy_lag": lag, "at_once": at_once}
    started = _Started(ray, lambda *_: _actor(ray), 1, **settings)
    started.fleet.tend(0)
    assert started.asked == at_once
    for _ in range(20):
        started.fleet.tend(0)
        ray.sleep(1)
    assert started.asked == count


@pytest.mark.parametrize(("at_once", "rollouts"), [(1, 20), (2, 25)])
def test_with_two_requests_an_actor_does_not_wait_for_the_driver(
    ray: FakeRay, at_once: int, rollouts: int
) -> None:
    """The driver is busy for 25% longer than a rollout takes, 20 times."""
    settings = {"asynchronous": True, "policy_lag": 8, "at_once": at_once}
    started, count = _Started(ray, lambda *_: _actor(ray), 1, **settings), 0
    for _ in range(20):
        count += len(started.fleet.newest(1, 0))
        ray.sleep(1.25)
    assert count == pytest.approx(rollouts, abs=1)


def test_both_requests_of_an_actor_that_dies_are_lost_and_made_again(
    ray: FakeRay,
) -> None:
    settings = {"asynchronous": True, "policy_lag": 8, "at_once": 2}
    started = _Started(ray, lambda *_: _actor(ray), 1, **settings)
    started.fleet.newest(1, 0)
    ray.sleep(0.5)
    started.actors[0].die()
    for _ in range(3):
        assert len(started.fleet.newest(1, 0)) == 1
    assert started.log.counts == {"env actors": 1, "rollouts": 2}


def test_an_actor_of_a3c_waits_until_its_rollout_is_learned(ray: FakeRay) -> None:
    started = _Started(ray, lambda *_: _actor(ray), 1, agent="a3c")
    for _ in range(20):
        started.fleet.tend(0)
        ray.sleep(1)
    assert started.asked == 1


def test_a_rollout_is_late_after_its_limit(ray: FakeRay) -> None:
    """The first one of an actor has ten minutes."""
    limits, now = RolloutLimits(RayCalls(ray, Signals()), None), ray.now
    slots = [ActorSlot(n, None, None, 4, now, has_finished=n > 0) for n in range(2)]
    for slot in slots:
        slot.calls.append(RolloutCall(Ref(1), 0, None, None))
        limits.begin(slot)
    limits.add(slots[1].calls[0], 1.0)
    late = []
    for waited in (0.0, 60.0, 60.1, 600.0, 600.1):
        ray.now = now + waited
        late.append([(slot.number, seconds) for slot, seconds in limits.late()])
    assert late == [[], [], [(1, 60.0)], [], [(0, 600.0)]]


def test_limits_follow_the_newest_hundred_rollouts(ray: FakeRay) -> None:
    limits = RolloutLimits(RayCalls(ray, Signals()), None)
    call = RolloutCall(weights=None, env_steps=0, trajectory=None, report=None)
    for seconds in (40.0, 1.0):
        for _ in range(100):
            limits.add(call, seconds)
    assert limits._limit() == 3 * 40.0
    for _ in range(51):
        limits.add(call, 30.0)
    assert limits._limit() == 10 * 30.0


def test_a_busy_driver_does_not_make_rollouts_long(ray: FakeRay) -> None:
    """It restores a learner, say, while the second rollout ends; the fourth hangs."""

    def make(_: int, before: int) -> FakeActor:
        last = math.inf if before else 3
        return _actor(ray, roll=lambda number: (1.0 if number <= last else NEVER, 0))

    started = _Started(ray, make, 1, policy_lag=1)
    started.round()
    ray.sleep(1_000)
    started.round()
    seconds = [started.round()[1] for _ in range(2)]
    assert started.made == [2]
    assert 60 < sum(seconds) < 70


def test_a_round_ends_at_its_deadline_without_slow_actors(ray: FakeRay) -> None:
    def make(number: int, _: int) -> FakeActor:
        return _actor(ray, roll=lambda _: (1.0 + 9 * number, 0))

    started = _Started(ray, make, 2, round_deadline=3)
    counts = [started.round()[0] for _ in range(8)]
    assert counts[0] == 1
    assert 2 in counts
    assert not started.log.counts


def test_a_round_waits_no_longer_than_its_deadline(ray: FakeRay) -> None:
    """Nothing else ends the wait: the slow actor's rollout takes a minute."""

    def make(number: int, _: int) -> FakeActor:
        return _actor(ray, roll=lambda _: (0.01 + 60 * number, 0))

    started = _Started(ray, make, 2, round_deadline=0.05)
    began = ray.now
    for _ in range(8):
        assert started.round()[0] == 1
    assert ray.now - began < 8 * 0.06


@pytest.mark.parametrize(
    ("first", "lag", "behind"), [(0, 1, 6), (1_000, 1, 6), (0, 8, 17)]
)
def test_an_actor_whose_version_stands_still_is_reported_once(
    ray: FakeRay, first: int, lag: int, behind: int
) -> None:
    """Not before its first rollout, whichever version a resumed run is at."""

    def make(number: int, _: int) -> FakeActor:
        slow = {1: 45.0}
        return _actor(
            ray, roll=lambda n: (slow.get(n, NEVER) if number == 1 else 10.0, 0)
        )

    flags = {"asynchronous": True, "policy_lag": lag, "actor_timeout": 10_000}
    started = _Started(ray, make, 2, **flags)
    for version in range(first, first + 30):
        started.weights = [Ref(version)]
        started.fleet.newest(1, 0)
    (warning,) = started.log.warnings
    assert warning.startswith(f"Env actor 1 is stuck at weights version {first}")
    assert f"others are at {first + behind};" in warning


def test_an_actor_that_is_slow_for_less_than_half_a_minute_is_not_reported(
    ray: FakeRay,
) -> None:
    def make(number: int, _: int) -> FakeActor:
        return _actor(ray, roll=lambda _: (25.0 if number else 1.0, 0))

    started = _Started(ray, make, 2, asynchronous=True, policy_lag=1)
    for version in range(100):
        started.weights = [Ref(version)]
        started.fleet.newest(1, 0)
    assert not started.log.warnings


def test_rollouts_that_are_not_taken_yet_count_as_ahead(ray: FakeRay) -> None:
    """One actor has finished three when the other one has finished its first."""

    def make(number: int, _: int) -> FakeActor:
        return _actor(ray, roll=lambda _: (1.0 + 9.0 * number, 0))

    started = _Started(ray, make, 2, policy_lag=2)
    started.fleet.launch(Ref(1), 0)
    taken = started.fleet.round()
    assert {rollout.envs for rollout in taken} == {range(4), range(4, 8)}
    started.fleet.launch(Ref(2), 0)
    assert started.asked == 8
    started.fleet.end()
    assert started.log.counts == {"rollouts": 6}


def test_a_signal_ends_a_round(ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xagents_ray.core.signals.GRACE_SECONDS", 0.0)
    started = _Started(ray, lambda *_: _actor(ray, roll=lambda _: (NEVER, 0)), 1)
    started.signals.press(15)
    with pytest.raises(Stopped):
        started.round()


def _crashing(ray: FakeRay, episodes: int, lines: Sequence[int]) -> Make:
    """Return actors that act four times, and fail the fifth, at one line each."""

    def make(_: int, before: int) -> FakeActor:
        error = crash(lines[before % len(lines)])
        return _actor(ray, roll=lambda n: (1.0, episodes if n < 5 else error))

    return make


def test_the_same_error_without_a_finished_episode_ends_the_run(ray: FakeRay) -> None:
    started = _Started(ray, _crashing(ray, 0, [7]), 2)
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


def test_one_that_always_dies_is_given_up_and_the_others_continue(
    ray: FakeRay,
) -> None:
    def make(number: int, _: int) -> FakeActor:
        return _actor(ray, roll=lambda _: (1.0, ActorDiedError() if number else 0))

    started = _Started(ray, make, 2, max_actor_restarts=1)
    rounds = [started.round()[0] for _ in range(10)]
    assert rounds[-1] == 1
    assert started.made == [1, 2]
    (given_up,) = [s for s in started.log.warnings if "given up" in s]
    assert "2 times in a row, and is given up with its 4 environments" in given_up
    assert started.log.counts["environments"] == 4


def test_failures_in_a_row_end_the_run(ray: FakeRay) -> None:
    def make(*_: int) -> FakeActor:
        return _actor(ray, roll=lambda _: (1.0, crash(int(ray.now))))

    started = _Started(ray, make, 1, max_actor_restarts=1)
    with pytest.raises(Broken, match="2 times in a row"):
        started.round()


@pytest.mark.parametrize(
    ("episodes", "lines"), [(1, [7]), (0, [7, 8, 9, 10, 11, 12, 13, 14])]
)
def test_other_errors_and_finished_episodes_do_not(
    ray: FakeRay, episodes: int, lines: Sequence[int]
) -> None:
    started = _Started(ray, _crashing(ray, episodes, lines), 1)
    for _ in range(30):
        started.round()
    assert started.made[0] >= 6
    assert not started.log.counts["environments"]


def test_an_error_is_known_by_its_kind_and_the_line_that_raised_it() -> None:
    traces = [
        remote_traceback(crash(*each)) for each in ((7,), (8,), (7, "ValueError"))
    ]
    assert [error_line(trace) for trace in traces] == [
        "mine.py, line 7 (RuntimeError)",
        "mine.py, line 8 (RuntimeError)",
        "mine.py, line 7 (ValueError)",
    ]
    # A worker that the kernel ended has no traceback.
    assert (
        error_line("The actor died.\nThe node has no memory.")
        == "The node has no memory."
    )


def test_rollouts_without_room_are_requested_again_after_a_pause(ray: FakeRay) -> None:
    """The actors, whose fault it is not, stay as they are."""
    started = _Started(ray, lambda *_: _actor(ray), 2)
    started.weights = [full(), full(), Ref(1)]
    assert started.fleet.versions == [0, 0]
    started.fleet.launch(full(), 0)
    assert len(started.fleet.round()) == 2
    assert started.asked == 6
    assert started.log.counts == {"calls without room in the object store": 4}
    (warning,) = started.log.warnings
    assert "object store" in warning


def test_a_replacement_gets_no_request_before_it_has_started(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here it dies in its start, after a pause for lack of room."""
    no_room = RayTaskError("rollout", "", OutOfDiskError(""))
    first = iter([(1.0, no_room), (1.0, ActorDiedError())])

    def make(number: int, before: int) -> FakeActor:
        if before == 0:
            return _actor(ray, roll=lambda _: next(first))
        made = _actor(ray, starts=3.0)
        if before == 1:
            made.die()
        return made

    started, end = _Started(ray, make, 1, policy_lag=1), ray.now + 100
    monkeypatch.setattr(started.calls, "shutdown_requested", lambda: ray.now > end)
    started.fleet.launch(Ref(1), 0)
    ray.sleep(5)  # both rollouts have ended
    assert len(started.fleet.round()) == 1
    assert started.made == [3]


def test_a_store_that_stays_full_ends_the_run_with_a_sentence(ray: FakeRay) -> None:
    started = _Started(ray, lambda *_: _actor(ray), 2)
    started.weights, before = [full()], ray.now
    started.fleet.launch(full(), 0)
    with pytest.raises(Broken, match="object store and the disk"):
        started.fleet.round()
    assert ray.now - before < 150
    assert started.asked < 60
