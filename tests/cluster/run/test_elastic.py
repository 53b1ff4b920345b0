"""With --n-actors auto, env actors follow the nodes of a cluster, here a fake one."""

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_cluster import FakeCluster, Group

from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.cluster.ray.calls import RayCalls
from xagents_ray.cluster.run import elastic, nodes, placement, reservation
from xagents_ray.cluster.run.placement import RunParts
from xagents_ray.core.errors import Broken, UserError
from xagents_ray.core.signals import Signals
from xagents_ray.settings.config import Config

NODE = {"CPU": 2.0}


class _Cluster(FakeCluster):
    """A cluster that nodes join and leave; lost bundles go to nodes with room."""

    def __init__(self, *has: dict[str, float]) -> None:
        super().__init__(*has)
        self.lost: set[str] = set()
        self.util.placement_group = self._group

    def _group(self, bundles: Any, name: str, **_: Any) -> Group:
        """Return a new group; Ray refuses a name that is in use."""
        assert name not in [each.name for each in self.groups]
        return Group(self, bundles, name)

    def add(self, name: str, cpus: float = 2.0) -> None:
        self._has[name] = {"CPU": cpus}
        self.free[name] = {"CPU": cpus}
        self.lost.discard(name)

    def lose(self, name: str) -> None:
        self.lost.add(name)
        self.free.pop(name)

    def schedule(self) -> None:
        """Place what waits for room, as Ray does in the background."""
        for group in self.groups:
            if group.state == "PENDING":
                group.place()
            for number, node in enumerate(group.nodes):
                cpus = group.bundle_specs[number]["CPU"]
                for name, free in self.free.items():
                    if node in self.lost and free["CPU"] >= cpus:
                        free["CPU"] -= cpus
                        group.nodes[number] = node = name

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {**each, "Alive": each["NodeID"] not in self.lost}
            for each in super().nodes()
        ]


class _Parts:
    """The parts of a run on a fake cluster, which are looked at once a second."""

    def __init__(self, ray: _Cluster, **settings: Any) -> None:
        given = {"env": "CartPole-v1", "max_steps": 10, "n_envs": 8, "n_actors": "auto"}
        self.ray, algorithm = ray, ALGORITHMS["ppo"]
        run: Any = SimpleNamespace(
            algorithm=algorithm,
            config=Config.of(algorithm.config, {**given, **settings}),
            spared_cores=0,
            serves=lambda on_gpu, shares_process: False,
        )
        self.calls = RayCalls(ray, Signals())
        self.parts = RunParts(self.calls, run, ())

    def after(self, seconds: float) -> int:
        """Return how often the shares change within some seconds."""
        changes = 0
        for _ in range(int(seconds)):
            self.ray.sleep(1)
            self.ray.schedule()
            changes += self.parts.follow_nodes()
        return changes

    @property
    def shares(self) -> str:
        return str(self.parts.shares)


@pytest.fixture
def requested(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return what the autoscaler is told."""
    told: list[Any] = []
    monkeypatch.setattr(placement, "request_cores", told.append)
    return told


@pytest.fixture
def changing(monkeypatch: pytest.MonkeyPatch, requested: list[Any]) -> _Cluster:
    ray = _Cluster(NODE)
    monkeypatch.setattr(nodes, "_can_learn", dict.fromkeys("012345678", True))
    for module in (reservation, elastic):
        monkeypatch.setattr(module, "time", ray)
    return ray


def test_env_actors_join_with_nodes_and_leave_with_them(changing: _Cluster) -> None:
    run = _Parts(changing)
    assert run.shares == "2 × 4"
    assert run.after(60) == 0
    changing.add("1")
    changing.add("2")
    assert run.after(60) == 1
    assert run.shares == "4 × 1, 2 × 2"
    assert run.calls.log.take_warnings() == [
        "4 env actors joined: 6 env actors, 1 or 2 environments each, all of which "
        "begin new episodes; the run isn't reproducible"
    ]
    assert {run.parts._claims[n].group for n in range(6)} == {*changing.groups}
    assert len(changing.groups) == 2
    changing.lose("1")
    assert len(run.parts.lost_claims()) == 2
    assert run.after(60) == 1
    assert run.shares == "4 × 2"
    assert run.calls.log.take_warnings() == [
        "2 env actors left with lost nodes: 4 env actors, 2 environments each, all of "
        "which begin new episodes; the run isn't reproducible"
    ]
    assert not run.parts.lost_claims()
    changing.add("3")  # Ray moves the lost claims there
    assert run.after(60) == 1
    assert run.shares == "4 × 1, 2 × 2"
    assert "2 env actors joined: 6" in run.calls.log.take_warnings()[0]


def test_a_lost_ray_ends_the_run_while_its_nodes_are_looked_at(
    changing: _Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray itself would wait for its control process, and then end this process."""
    run, ended = _Parts(changing), threading.Event()
    monkeypatch.setattr(changing, "nodes", lambda: ended.wait(60) and [])
    monkeypatch.setattr(run.calls, "_is_lost", lambda: True)
    with pytest.raises(Broken):
        run.after(10)
    ended.set()


def test_there_are_no_more_env_actors_than_environments(changing: _Cluster) -> None:
    run = _Parts(changing, n_envs=3)
    changing.add("1", cpus=16.0)
    assert run.after(60) == 1
    assert run.shares == "3 × 1"
    assert changing.free["1"]["CPU"] == 15


def test_the_last_env_actor_is_claimed_too(changing: _Cluster) -> None:
    run = _Parts(changing, n_envs=2, actor_cpus=1)
    assert run.shares == "1 × 2"
    changing.add("1", cpus=16.0)
    assert (run.after(60), run.shares) == (1, "2 × 1")


def test_nodes_are_looked_at_every_five_seconds(
    changing: _Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, looks = _Parts(changing), list[float]()
    free = elastic.free_by_node

    def looked(ray: Any) -> Any:
        looks.append(ray.now)
        return free(ray)

    monkeypatch.setattr(elastic, "free_by_node", looked)
    assert run.after(60) == 0
    assert np.diff(looks).tolist() == [5.0] * 11


def test_changes_are_half_a_minute_apart(changing: _Cluster) -> None:
    run, waited = _Parts(changing), list[float]()
    for number in ("1", "2"):
        changing.add(number)
        began = changing.now
        while not run.after(1):
            assert changing.now - began < 60
        waited.append(changing.now - began)
    assert waited == [30, 30]


@pytest.mark.usefixtures("changing")
@pytest.mark.parametrize("gpus", [0.0, 0.5, 1.0])
def test_a_learner_learns_on_what_is_free_of_a_gpu(gpus: float) -> None:
    run = _Parts(_Cluster({"CPU": 2.0, "GPU": gpus}))
    assert run.parts.learns_on_gpu == (gpus > 0)
    assert run.parts._anywhere["num_cpus"] == 0


@pytest.mark.usefixtures("changing")
def test_half_a_core_is_for_one_env_actor() -> None:
    run = _Parts(_Cluster({"CPU": 0.5}))
    assert (run.shares, run.parts._threads) == ("1 × 8", 1)


def test_flapping_nodes_change_the_shares_twice_a_minute_at_most(
    changing: _Cluster,
) -> None:
    run, changes = _Parts(changing), 0
    for _ in range(8):
        changing.add("1")
        changes += run.after(15)
        changing.lose("1")
        changes += run.after(15)
    assert 1 <= changes <= 240 / 30
    assert run.after(60) <= 1
    assert run.shares == "2 × 4"


def test_without_room_on_any_node_the_env_actors_stay(changing: _Cluster) -> None:
    """Their replacements act elsewhere, until Ray has moved the claims."""
    run = _Parts(changing)
    changing.lose("0")
    assert run.after(120) == 0
    assert len(run.parts.lost_claims()) == 2


def test_a_claim_that_others_were_faster_to_make_is_withdrawn(
    changing: _Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _Parts(changing)
    with monkeypatch.context() as patch:
        patch.setattr(Group, "place", lambda group: False)
        changing.add("1")
        assert run.after(38) == 0  # asked after 5 s, last looked at after 35
        assert [group.state for group in changing.groups] == ["CREATED", "PENDING"]
        changing.hold(1, CPU=2)
        assert run.after(20) == 0
        assert [group.state for group in changing.groups] == ["CREATED", "REMOVED"]
    changing.hold(1, CPU=-2)
    assert run.after(20) == 1
    assert run.shares == "4 × 2"


def test_a_node_without_a_free_core_is_left_alone(changing: _Cluster) -> None:
    """Ray does not name what is used up."""
    run = _Parts(changing)
    changing.add("1")
    changing.free["1"].clear()
    assert run.after(60) == 0
    assert len(changing.groups) == 1


def test_the_autoscaler_is_told_what_the_run_could_use(
    changing: _Cluster, requested: list[Any]
) -> None:
    run = _Parts(changing, n_envs=5)
    assert requested == [[{"CPU": 1.0}] * 6]
    changing.add("1")
    assert run.after(60) == 1
    run.parts.release()
    assert requested[1:] == [[]]
    assert {group.state for group in changing.groups} == {"REMOVED"}


@pytest.mark.parametrize("n_actors", [None, 2])
def test_other_runs_keep_their_env_actors(
    changing: _Cluster, requested: list[Any], n_actors: int | None
) -> None:
    run = _Parts(changing, n_actors=n_actors)
    before = run.shares
    changing.add("1")
    assert run.after(60) == 0
    assert run.shares == before
    run.parts.release()
    assert requested == []


def test_in_a_placement_group_or_a_task_there_is_nothing_to_follow(
    changing: _Cluster,
) -> None:
    changing.assigned = {"CPU": 2.0}
    changing.hold(CPU=2)
    with pytest.raises(UserError, match="give --n-actors a number"):
        _Parts(changing)
    changing.current = Group(changing, [NODE], "trial")
    with pytest.raises(UserError, match="give --n-actors a number"):
        _Parts(changing)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"local": True}, "--n-actors applies only to runs on Ray: drop it or --local"),
        ({"inference": "learner"}, "give --n-actors a number, or take another"),
        ({"n_actors": "many"}, "--n-actors takes a whole number or auto, got 'many'"),
    ],
)
def test_mistakes_are_refused_in_one_sentence(
    settings: dict[str, Any], message: str
) -> None:
    given = {"env": "CartPole-v1", "max_steps": 10, "n_actors": "auto", **settings}
    with pytest.raises(UserError, match=message):
        Config.of(ALGORITHMS["ppo"].config, given)


def test_nodes_join_one_after_the_other(changing: _Cluster) -> None:
    run = _Parts(changing)
    for number in ("1", "2"):
        changing.add(number)
        assert run.after(60) == 1
    assert run.shares == "4 × 1, 2 × 2"
