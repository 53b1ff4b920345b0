"""Learners that share each update, as processes on Ray and in one process."""

import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from fake_ray import FakeActor, FakeRay

from xagents_ray.cluster.ray import tls
from xagents_ray.cluster.ray.actor_group import ActorGroup, actors_of
from xagents_ray.cluster.run import learner_service
from xagents_ray.cluster.run.learner_service import LearnerService, learner_group
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


class _Member(_Learner):
    """A member of the group that a run makes."""

    def address(self) -> str:
        return f"node:{self.rank}"

    def meet(self, rank: int, *addresses: str) -> None:
        assert rank == self.rank
        self.called.append(f"meet {addresses}")

    def start(self) -> None:
        self.called.append("start")

    def restore(self, arrays: str) -> None:
        self.called.append(f"restore {arrays}")

    def scale_lr(self, factor: float) -> None:
        self.called.append(f"scale_lr {factor}")

    def weights(self, version: int) -> None:
        self.called.append(f"publish {version}")

    publish = weights


def test_what_changes_a_learner_is_for_all() -> None:
    """Also the version of the weights, by which some algorithms tell old rollouts."""
    ray = FakeRay()
    learners = [_Member(rank) for rank in range(2)]
    group = learner_group([FakeActor(ray, each) for each in learners])
    calls = {"start": (), "restore": ("a",), "scale_lr": (0.5,), "weights": (3,)}
    for name, arguments in calls.items():
        last = getattr(group, name).remote(*arguments)
    ray.wait([last], num_returns=1, timeout=9)
    both = "meet ('node:0', 'node:1')", "start", "restore a", "scale_lr 0.5"
    assert [each.called for each in learners] == [[*both, "publish 3"]] * 2


def test_every_method_is_for_all_or_changes_nothing() -> None:
    """A new one that changes a learner has to be one of those for all."""
    joint = learner_group([])._joint
    reads = {"acts", "encode", "ping", "state"}
    alone = {"address", "meet"}  # of each learner, before they are a group
    public = {name for name in vars(LearnerService) if not name.startswith("_")}
    assert public == {*joint, *joint.values()} | reads | alone


def test_one_whose_peer_died_before_they_met_does_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ray makes no call that lacks an argument, such as the address of the dead one."""

    def end(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(learner_service, "os", SimpleNamespace(_exit=end))
    placement = SimpleNamespace(n_learners=2)
    run: Any = SimpleNamespace(config=SimpleNamespace(placement=placement))
    with pytest.raises(SystemExit):
        LearnerService(run).start()


def test_no_other_process_takes_the_port_before_tensorflow_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ray.util.get_node_ip_address", lambda: "127.0.0.1")
    run: Any = None
    service = LearnerService(run)
    host, _, port = service.address().rpartition(":")
    with socket.socket() as other, pytest.raises(OSError, match="already in use"):
        other.bind((host, int(port)))
    with socket.socket() as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as gRPC does
        own.bind(("0.0.0.0", int(port)))
        own.listen()
    service._reserved.close()


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
        ("a2c", {"max_steps": 1_500, "policy_lag": 1}),
        ("ppo", {"inference": "learner", "max_steps": 1_500}),
    ],
)
def test_every_way_of_learning_is_shared(
    train_all: TrainAll, cluster: str, agent: str, more: dict[str, Any]
) -> None:
    settings = {**ENV, **more, "address": cluster, "n_actors": 1}
    runs = [{**settings, "n_learners": count} for count in (1, 2)]
    one, two = train_all(agent, runs)
    assert one["episodes"] == two["episodes"]
