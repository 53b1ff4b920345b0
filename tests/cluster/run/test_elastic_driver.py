"""A driver whose env actors join and leave between rounds; Ray is a fake."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_ray import NEVER, FakeActor, FakeRay, Takes

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.cluster.ray.calls import RayCalls
from xagents_ray.cluster.run import driver as drivers
from xagents_ray.cluster.run import supervision as supervisions
from xagents_ray.core.env_shares import EnvShares
from xagents_ray.core.errors import Stopped
from xagents_ray.core.reports import Collected
from xagents_ray.core.signals import Signals
from xagents_ray.core.trajectory import Fill, RolloutReport
from xagents_ray.run.prepare import prepare_run
from xagents_ray.settings.config import Config

N_ENVS = 8
ROLLOUT_SECONDS = 10.0


class _EnvActor:
    def __init__(self, n_envs: int) -> None:
        self.n_envs, self.sessions = n_envs, list[int]()
        self.state_seconds = 0.0

    def state(self) -> Takes:
        return Takes(self.state_seconds, {})

    def ready(self) -> None: ...

    def restart(self, session: int) -> None:
        self.sessions.append(session)

    def rollout(self, weights: int, length: int, env_steps: int) -> Takes:
        steps = np.full(self.n_envs, length, np.int64)
        report = RolloutReport(steps, (), 1.0, weights_version=weights)
        return Takes(ROLLOUT_SECONDS, (self, report))

    def close(self) -> None: ...


class _Learner:
    def start(self) -> tuple[int, list[str]]:
        return 1, []

    def ping(self) -> None: ...

    def weights(self, version: int) -> int:
        return version

    def update(self, version: int, *data: Any) -> Takes:
        return Takes(2.0, ({"updates": 1, "seconds": 2.0}, version, None))

    def restore(self, arrays: dict[str, Any]) -> None: ...

    def state(self) -> Takes:
        return Takes(2.0, {"number": np.array(0)})


class _Shard:
    seconds = 1.0  # of an insertion

    def start(self) -> int:
        return 1

    def insert(self, *trajectories: Any) -> Takes:
        return Takes(self.seconds, (Fill(len(trajectories), False), self.seconds))


class _Run:
    """A run whose next change of shares is set by the test."""

    def __init__(self, ray: FakeRay, starts: float = 5.0, **settings: Any) -> None:
        given = {"env": "CartPole-v1", "max_steps": 9_999, "n_envs": N_ENVS}
        row = find_algorithm(settings.pop("agent", "ppo"))
        given |= {"n_actors": "auto", **settings}
        run = prepare_run(row, Config.of(row.config, given))
        signals, self.made, self.next = Signals(), list[FakeActor](), 0
        self.learners = list[FakeActor]()
        signals.on_first = None
        self._ray, self._starts, self.shard = ray, starts, _Shard()
        self.parts: Any = SimpleNamespace(
            shares=EnvShares.of(N_ENVS, 2, 2),
            notes=(),
            env_actor=self.make,
            env_actor_elsewhere=None,
            learns_on_gpu=False,
            lost_claims=tuple,
            learner=self.make_learner,
            shard=lambda number: FakeActor(ray, self.shard),
            evaluator=None,
            follow_nodes=self.follow_nodes,
        )
        self.calls = RayCalls(ray, signals)
        self.driver = drivers.RayDriver(run, self.calls, self.parts)
        self.env_steps = 0

    def make(self, number: int) -> FakeActor:
        actor = _EnvActor(self.parts.shares.envs[number])
        self.made.append(FakeActor(self._ray, actor, self._starts))
        return self.made[-1]

    def make_learner(self) -> FakeActor:
        self.learners.append(FakeActor(self._ray, _Learner()))
        return self.learners[-1]

    def follow_nodes(self) -> bool:
        count, self.next = self.next, 0
        if count:
            self.parts.shares = EnvShares.of(N_ENVS, count, count)
        return bool(count)

    def phase(self) -> Collected:
        collected = self.driver.collect(self.env_steps)
        self.env_steps += sum(int(each.steps.sum()) for each in collected.reports)
        self.driver.learn(1, self.env_steps, {})
        return collected


@pytest.fixture(autouse=True)
def _without_ray(monkeypatch: pytest.MonkeyPatch, ray: FakeRay) -> None:
    monkeypatch.setattr(drivers, "time", ray)
    monkeypatch.setattr(drivers.connection, "ray_notes", list)


def _sizes(collected: Collected) -> list[int]:
    return [len(each.steps) for each in collected.reports]


@pytest.mark.parametrize("lag", [0, 1])
def test_rounds_have_all_environments_before_and_after_a_change(
    ray: FakeRay, lag: int
) -> None:
    """With a lag, rollouts are in progress when the nodes join."""
    run = _Run(ray, policy_lag=lag)
    assert _sizes(run.phase()) == [4, 4]
    old, run.next = [*run.made], 4
    assert _sizes(run.phase()) == [2, 2, 2, 2]
    assert all(actor.is_dead for actor in old)
    run.next = 1
    assert _sizes(run.phase()) == [8]
    assert _sizes(run.phase()) == [8]
    assert run.driver.n_actors == 1
    assert run.driver.supervision.fleet.versions[0] > 0
    assert run.env_steps == 4 * N_ENVS * run.driver._config.batch_steps


def test_no_session_of_an_environment_is_repeated(ray: FakeRay) -> None:
    run, sessions = _Run(ray), []
    for count in (4, 2, 4):
        run.next = count
        run.phase()
        sessions.append({s for a in run.made[-count:] for s in a.instance.sessions})
    assert sessions == [{number << 32} for number in (1, 2, 3)]


PONG = {"env": "PongNoFrameskip-v4", "preprocess": True}


@pytest.mark.parametrize(
    ("settings", "seconds", "count"),
    [
        ({}, (2.5, 2.8), 2),
        ({}, (2.5, 4.0), 0),
        (PONG, (2.5, 8.5), 2),  # learning takes longer with images
        (PONG, (2.5, 10.0), 0),
    ],
)
def test_after_a_signal_the_states_have_one_limit_together(
    ray: FakeRay,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    seconds: tuple[float, float],
    count: int,
) -> None:
    """The learner's takes two of them. Those of some env actors alone are useless."""
    monkeypatch.setattr("xagents_ray.core.signals.GRACE_SECONDS", 0.0)
    run = _Run(ray, **settings)
    run.phase()
    for actor, each in zip(run.made, seconds, strict=True):
        actor.instance.state_seconds = each
    run.calls._signals.press(15)
    state = run.driver.state()
    assert (len(state.actors), state.learner) == (count, {"number": 0})


def test_metrics_are_published_every_two_seconds(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisions, "time", ray)
    run, names = _Run(ray), set[str]()

    def gauge(name: str, **_: Any) -> Any:
        names.add(name)
        return SimpleNamespace(set=lambda number, tags: None)

    run.driver.supervision._gauge = gauge
    ray.sleep(0.12345)
    age = run.driver.supervision._snapshot.age
    assert run.driver.supervision.summary() == {"snapshot_age": round(age, 3)}
    assert age != round(age, 3)
    for pause, count in [(0, 2), (1.9, 2), (0.1, 3), (1, 3), (1, 4)]:
        ray.sleep(pause)
        run.driver.supervision.publish({f"number {ray.now}": 1.0})
        assert len(names) == count  # with the versions of the env actors


def test_dropped_rollouts_are_counted(ray: FakeRay) -> None:
    run = _Run(ray, policy_lag=1)
    run.phase()
    run.next = 4
    run.phase()
    assert run.driver.supervision.failures["rollouts"] == 4


def test_free_running_actors_change_too(ray: FakeRay) -> None:
    run = _Run(ray, policy_lag=4, asynchronous=True)
    run.phase()
    run.next = 4
    assert sum(_sizes(run.phase())) >= N_ENVS
    assert {*_sizes(run.phase())} == {2}


def test_an_actor_that_does_not_start_is_not_waited_for(ray: FakeRay) -> None:
    run = _Run(ray)
    run.phase()
    run.next, run._starts = 2, 60.0
    made, run.parts.env_actor = run.make, run.parts.env_actor

    def late(number: int) -> FakeActor:
        run._starts = 1.0 if number else 10_000.0
        return made(number)

    run.parts.env_actor = late
    began = ray.now
    assert _sizes(run.phase()) == [4]
    assert 120 < ray.now - began < 200


DQN = {"agent": "dqn", "n_actors": 2, "buffer_initial_size": 8, "buffer_batch_size": 8}


def test_env_actors_are_not_saved_ahead_of_the_counts(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal ends the wait for an insertion, whose rollouts nobody has counted."""
    monkeypatch.setattr("xagents_ray.core.signals.GRACE_SECONDS", 0.0)
    run = _Run(ray, **DQN)
    run.driver.collect(0)
    assert len(run.driver.state().actors) == 2
    run.shard.seconds, end = NEVER, ray.now + ROLLOUT_SECONDS + 1.0

    def press() -> None:
        if ray.now > end:
            run.calls._signals.press(15)

    run.calls.meanwhile = press
    with pytest.raises(Stopped):
        run.driver.collect(0)
    assert run.driver.state().actors == []


def test_updates_lost_with_a_learner_after_a_signal_are_counted(ray: FakeRay) -> None:
    """It dies while env actors step, and nobody waits for it."""
    run = _Run(ray)
    run.phase()
    before = run.driver.supervision.failures
    run.calls._signals.press(15)
    run.learners[0].die()
    assert run.driver.state().learner == {"number": 0}
    assert run.driver.supervision.failures == {**before, "learners": 1, "updates": 1}
    (warning,) = run.calls.log.take_warnings()
    assert "The learner died; it is not replaced, 1 updates are lost" in warning
    assert run.driver.state().learner == {"number": 0}
    assert run.driver.supervision.failures["learners"] == 1


def test_a_learner_that_hangs_with_the_weights_of_a_round_is_replaced(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a replaced env actor waits for them."""
    run, end = _Run(ray, policy_lag=1), ray.now + 1_000
    monkeypatch.setattr(run.calls, "shutdown_requested", lambda *_: ray.now > end)
    run.phase()
    run.made[0].die()
    run.phase()
    run.learners[0].is_suspended, before = True, ray.now
    run.phase()
    assert run.driver.supervision.failures["learners"] == 1
    assert ray.now - before < 300
