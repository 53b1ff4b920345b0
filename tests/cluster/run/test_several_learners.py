"""Learners that share each update, as processes on Ray and in one process."""

from collections.abc import Callable
from typing import Any

import pytest
from fake_ray import FakeActor, FakeRay

from xagents_ray.cluster.ray import tls
from xagents_ray.cluster.ray.actor_group import ActorGroup, actors_of
from xagents_ray.core.errors import UserError

TrainAll = Callable[..., list[dict[str, Any]]]
ENV = {"env": "CartPole-v1", "n_envs": 4, "seed": 3, "jit": "off"}


class _Learner:
    """Names its calls."""

    def __init__(self, rank: int) -> None:
        self.rank, self.called = rank, list[str]()

    def state(self) -> int:
        self.called.append("state")
        return self.rank

    def update(self, version: int) -> tuple[int, int]:
        self.called.append(f"update {version}")
        return version, self.rank

    def follow(self, version: int) -> None:
        self.called.append(f"follow {version}")

    def stop(self) -> None:
        self.called.append("stop")


def test_the_first_of_a_group_answers_for_all() -> None:
    ray = FakeRay()
    learners = [_Learner(rank) for rank in range(3)]
    actors = [FakeActor(ray, each) for each in learners]
    group = ActorGroup(actors, {"update": "follow", "stop": "stop"})
    version, rank = group.update.options(num_returns=2).remote(7)
    state = group.state.remote()
    group.stop.options(concurrency_group="control").remote()
    ray.wait([state], num_returns=1, timeout=9)
    assert (version.value, rank.value, state.value) == (7, 0, 0)
    first, *others = [sorted(each.called) for each in learners]
    assert first == ["state", "stop", "update 7"]
    assert others == [["follow 7", "stop"]] * 2
    assert (actors_of(group), actors_of(actors[0])) == (tuple(actors), (actors[0],))


@pytest.mark.parametrize(("is_on", "count"), [("1", 1), ("0", 2)])
def test_a_single_learner_or_no_tls_is_fine(
    monkeypatch: pytest.MonkeyPatch, is_on: str, count: int
) -> None:
    monkeypatch.setenv("RAY_USE_TLS", is_on)
    tls.check_learners(count)


def test_several_on_a_cluster_with_tls_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAY_USE_TLS", "1")
    with pytest.raises(UserError, match="have no TLS, and this cluster wants it"):
        tls.check_learners(2)


def test_two_on_ray_learn_what_one_does(train_all: TrainAll, cluster: str) -> None:
    settings = {**ENV, "max_steps": 4_000, "address": cluster, "n_actors": 1}
    runs = [{**settings, "n_learners": count} for count in (1, 2)]
    one, two = train_all("ppo", runs)
    assert len(one["episodes"]) > 10
    assert one["episodes"] == two["episodes"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "more"),
    [
        ("dqn", {"prioritized": True, "buffer_initial_size": 200, "max_steps": 1_500}),
        ("acer", {"max_steps": 1_500, "buffer_initial_size": 10}),
        ("ppo", {"memory": "lstm:8", "max_steps": 2_000}),
        ("trpo", {"max_steps": 1_500}),
    ],
)
def test_every_way_of_learning_is_shared(
    train_all: TrainAll, cluster: str, agent: str, more: dict[str, Any]
) -> None:
    settings = {**ENV, **more, "address": cluster, "n_actors": 1}
    runs = [{**settings, "n_learners": count} for count in (1, 2)]
    one, two = train_all(agent, runs)
    assert one["episodes"] == two["episodes"]
