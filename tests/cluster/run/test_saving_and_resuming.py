"""What a distributed run learns from, saves and resumes; Ray is a fake."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_ray import NEVER, FakeActor, FakeRay, Takes

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.cluster.ray.calls import RayCalls
from xagents_ray.cluster.run import driver as drivers
from xagents_ray.core.env_shares import EnvShares
from xagents_ray.core.errors import EnvironmentFault, UserError
from xagents_ray.core.signals import Signals
from xagents_ray.core.trajectory import VERSION, Array, RolloutReport
from xagents_ray.run.prepare import prepare_run
from xagents_ray.settings.config import Config
from xagents_ray.storage.checkpoints import Checkpoint


class _EnvActor:
    """An env actor that notes the weights' versions it acted with.

    Args:
        seconds: of each rollout, or what it raises.
        state_seconds: until its state is there.
    """

    def __init__(self, seconds: Any = 1.0, state_seconds: float = 0.0) -> None:
        self._seconds, self._state_seconds = seconds, state_seconds
        self.versions: list[int] = []

    def ready(self) -> None: ...

    def restart(self, session: int) -> None: ...

    def rollout(self, weights: int, length: int, env_steps: int) -> Takes:
        self.versions.append(weights)
        if isinstance(self._seconds, Exception):
            raise self._seconds
        steps = np.ones(2, np.int64)
        report = RolloutReport(steps, (), 1.0, weights_version=weights)
        return Takes(self._seconds, (self, report))

    def state(self) -> Takes:
        return Takes(self._state_seconds, {"noise": np.zeros(2)})


class _Learner:
    """A learner with one number; phases, restoring and its state take two seconds."""

    def __init__(self) -> None:
        self.number, self.error = 0, UserError("")

    def start(self) -> tuple[int, list[str]]:
        return 1, []

    def ping(self) -> None: ...

    def weights(self, version: int) -> int:
        return version

    def update(self, version: int, *facts: Any) -> Takes:
        if self.error.args != ("",):
            raise self.error
        self.number += 1
        return Takes(2.0, ({"updates": 1, "seconds": 2.0}, version, None))

    def state(self) -> Takes:
        return Takes(2.0, {"number": np.array(self.number)})

    def restore(self, arrays: dict[str, Array]) -> Takes:
        self.number = int(arrays["number"])
        return Takes(2.0)


class _Shard:
    def start(self) -> int:
        return 99


class _Started:
    """A driver whose env actors, learner and replay are ready.

    Args:
        ray: Ray's module.
        actors: what the env actors do.
        agent: name of the agent.
        starts: seconds until env actors and shards of the replay can make calls.
        settings: further settings of the run.
    """

    def __init__(
        self,
        ray: FakeRay,
        *actors: _EnvActor,
        agent: str = "ppo",
        starts: float = 0.0,
        **settings: Any,
    ) -> None:
        given = {"env": "CartPole-v1", "max_steps": 1_000, "n_envs": 2 * len(actors)}
        row = find_algorithm(agent)
        run = prepare_run(row, Config.of(row.config, {**given, **settings}))
        self.learner, signals = _Learner(), Signals()
        signals.on_first = None
        parts: Any = SimpleNamespace(
            shares=EnvShares((2,) * len(actors), len(actors)),
            notes=(),
            env_actor=lambda number: FakeActor(ray, actors[number], starts),
            env_actor_elsewhere=None,
            learns_on_gpu=False,
            lost_claims=tuple,
            learner=lambda: FakeActor(ray, self.learner),
            shard=lambda number: FakeActor(ray, _Shard(), starts),
            evaluator=None,
        )
        self.driver = drivers.RayDriver(run, RayCalls(ray, signals), parts)

    def learn(self, env_steps: int = 0) -> list[dict[str, float]]:
        self.driver.collect(env_steps)
        return self.driver.learn(1, env_steps, {})


@pytest.fixture(autouse=True)
def _without_ray(monkeypatch: pytest.MonkeyPatch, ray: FakeRay) -> None:
    monkeypatch.setattr(drivers, "time", ray)
    monkeypatch.setattr(drivers.connection, "ray_notes", list)


def test_an_asynchronous_run_that_an_environment_ends_is_saved(ray: FakeRay) -> None:
    """Waiting for the state must not raise the fault again."""
    fault = EnvironmentFault("The environment's step gave 3 values.")
    started = _Started(ray, _EnvActor(fault), asynchronous=True, policy_lag=1)
    with pytest.raises(EnvironmentFault, match="3 values"):
        started.driver.collect(0)
    started.learner.number = 7
    assert started.driver.state().learner == {"number": 7}


def test_the_replay_starts_before_env_actors_and_with_them(ray: FakeRay) -> None:
    """Behind 128 env actors on two cores, it would start too late."""
    actors, began = [_EnvActor() for _ in range(3)], ray.now
    started = _Started(ray, *actors, agent="dqn", starts=100.0)
    order = [type(each.instance) for each in ray.actors]
    assert order == [_Learner, _Shard, _EnvActor, _EnvActor, _EnvActor]
    assert ray.now - began < 110
    assert started.driver.replay_nbytes == 99


def test_env_actors_wait_until_the_learner_is_restored(ray: FakeRay) -> None:
    actor = _EnvActor()
    started = _Started(ray, actor, asynchronous=True, policy_lag=1)
    arrays = {"number": np.array(7), VERSION: np.array(40)}
    started.driver.restore(Checkpoint(Path(), arrays, {"actors": []}), session=1)
    started.driver.collect(0)
    assert min(actor.versions) > 40


def test_the_states_of_idle_env_actors_are_saved(ray: FakeRay) -> None:
    started = _Started(ray, _EnvActor(), _EnvActor(state_seconds=50.0))
    started.learn()
    assert len(started.driver.state().actors) == 2


def test_no_state_is_saved_while_a_rollout_is_in_progress(ray: FakeRay) -> None:
    """It would be that after steps which nobody learns from."""
    began = ray.now
    started = _Started(ray, _EnvActor(), _EnvActor(50.0), round_deadline=3.0)
    started.learn()
    saved = started.driver.state()
    assert saved.learner == {"number": 1}
    assert saved.actors == []
    assert ray.now - began < 20


def test_states_are_saved_of_all_env_actors_or_of_none(ray: FakeRay) -> None:
    started = _Started(ray, _EnvActor(), _EnvActor(state_seconds=NEVER))
    started.learn()
    assert started.driver.state().actors == []


@pytest.mark.parametrize(("seconds", "count"), [(59.0, 2), (61.0, 0)])
def test_states_are_waited_for_a_minute_from_the_request(
    seconds: float, count: int, ray: FakeRay
) -> None:
    """The learner's state takes two seconds of it."""
    started = _Started(ray, _EnvActor(), _EnvActor(state_seconds=seconds))
    started.learn()
    assert len(started.driver.state().actors) == count


@pytest.mark.parametrize("lag", [0, 1, 2])
def test_rollouts_are_as_old_as_the_lag(lag: int, ray: FakeRay) -> None:
    """From the third round on, and none of them costs time in the replay."""
    actor = _EnvActor()
    driver = _Started(ray, actor, policy_lag=lag).driver
    found = []
    for step in range(5):
        collected = driver.collect(step)
        found.append(collected.lags)
        assert collected.replay_seconds == 0.0 and collected.replay is None
        driver.learn(1, step, {})
    assert found[-1] == [lag] and driver.replay_nbytes == 0
    assert found == [[min(lag, step)] for step in range(5)]


def test_a_run_that_learning_ends_is_saved(ray: FakeRay) -> None:
    """As where the user's `compute_reward` raises in the replay."""
    started = _Started(ray, _EnvActor())
    started.learn()
    started.learner.error = UserError("compute_reward of the environment raised.")
    with pytest.raises(UserError, match="compute_reward"):
        started.learn()
    assert started.driver.drain() == []
    assert started.driver.state().learner == {"number": 1}


def test_the_newest_round_is_one_of_the_batches(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, sampled = _Started(ray, _EnvActor()), list[int]()
    sample = lambda batches, _: sampled.append(batches) or {}  # noqa: E731
    monkeypatch.setattr(started.driver, "_sample", sample)
    started.driver.collect(0)
    started.driver.learn(3, 0, {})
    assert sampled == [2]


@pytest.mark.parametrize(("agent", "rollouts"), [("a3c", 1), ("ppo", 2)])
def test_an_agent_that_learns_from_single_rollouts_waits_for_one(
    ray: FakeRay, agent: str, rollouts: int
) -> None:
    """Others wait for as many as there are env actors, whichever those are from."""
    actors = _EnvActor(10.0), _EnvActor(500.0)
    flags = {"asynchronous": True, "policy_lag": 8}
    started, began = _Started(ray, *actors, agent=agent, **flags), ray.now
    started.driver.collect(0)
    assert ray.now - began == pytest.approx(10 * rollouts, abs=3)


@pytest.mark.parametrize(
    ("agent", "inference", "at_once"),
    [("dqn", "auto", 2), ("dqn", "learner", 1), ("ppo", "auto", 1), ("a3c", "auto", 1)],
)
def test_only_env_actors_of_a_replay_have_their_next_request_early(
    ray: FakeRay, agent: str, inference: str, at_once: int
) -> None:
    """On-policy, the rollout would be older; the learner drops older weights."""
    flags = {"asynchronous": True, "policy_lag": 8, "inference": inference}
    started = _Started(ray, _EnvActor(500.0), agent=agent, **flags)
    started.driver._fleet.tend(0)
    asked = [name for name, _ in ray.actors[-1].asked]
    assert asked.count("rollout") == at_once
