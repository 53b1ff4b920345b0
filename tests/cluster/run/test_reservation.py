"""Runs claim only what is free, and say who holds the rest, on a fake cluster."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_cluster import FakeCluster, Group
from ray.exceptions import ActorDiedError

from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.cluster.ray.calls import RayCalls
from xagents_ray.cluster.run import nodes, placement, reservation
from xagents_ray.cluster.run.placement import RunParts
from xagents_ray.cluster.run.reservation import Reservation
from xagents_ray.core.env_shares import EnvShares
from xagents_ray.core.errors import Stopped, UserError
from xagents_ray.core.signals import Signals
from xagents_ray.settings.config import Config


def run_of(**settings: Any) -> Any:
    spared = settings.pop("spared", 0)
    given = {"env": "CartPole-v1", "max_steps": 10, "n_envs": 16, **settings}
    algorithm = ALGORITHMS["ppo"]
    config = Config.of(algorithm.config, given)
    return SimpleNamespace(
        algorithm=algorithm,
        config=config,
        spared_cores=spared,
        serves=lambda on_gpu, shares_process: False,
    )


@pytest.fixture
def reserve(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that reserves on a fake cluster."""

    def call(ray: FakeCluster, has_claim: bool = False, **settings: Any) -> Reservation:
        monkeypatch.setattr(reservation, "time", ray)
        monkeypatch.setattr(nodes, "_can_learn", {"0": True, "1": True})
        calls: Any = SimpleNamespace(ray=ray, shutdown_requested=lambda: False)
        return reservation.reserve(calls, run_of(**settings), has_claim)

    return call


def divided(reserved: Reservation, n_envs: int = 16) -> str:
    actors = len(reserved.claims) - 1
    return str(EnvShares.of(n_envs, actors, reserved.cores))


def begin_another_run(ray: FakeCluster, cpus: float) -> None:
    name = "xagents-ray sac on Ant-v5 (process 7 on big, claim 1)"
    assert Group(ray, [{"CPU": 1}] * int(cpus), name).place()


@pytest.mark.parametrize(
    ("n_envs", "cpus", "gpus", "spared", "shares", "busy"),
    [
        (16, 16, 0, 0, "16 × 1", 1),
        (16, 16, 1, 1, "16 × 1", 1),  # a learner on a GPU spares no core
        (16, 16, 0, 1, "16 × 1", 1),  # of 15
        (64, 16, 1, 1, "16 × 4", 1),
        (32, 12, 1, 0, "16 × 2", 1),
        (32, 13, 0, 1, "16 × 2", 1),
        (4, 8, 1, 1, "4 × 1", 0.5),
        (16, 1, 0, 1, "1 × 16", 1),
    ],
)
def test_a_table_of_shares(
    reserve: Any,
    n_envs: int,
    cpus: int,
    gpus: int,
    spared: int,
    shares: str,
    busy: float,
) -> None:
    """`spared` is 1 with --policy-lag 1 and a learner of several threads."""
    ray = FakeCluster({"CPU": cpus, "GPU": gpus})
    reserved = reserve(ray, n_envs=n_envs, spared=spared)
    assert divided(reserved, n_envs) == shares
    found = EnvShares.of(n_envs, len(reserved.claims) - 1, reserved.cores)
    assert found.busy_share == pytest.approx(busy)
    assert (reserved.notes, ray.now) == ((), 1_000)


def test_one_core_of_others_is_left_to_them(reserve: Any) -> None:
    ray = FakeCluster({"CPU": 16})
    ray.classes = ["Holder"]
    ray.hold(CPU=1)
    reserved = reserve(ray)
    assert reserved.cores == 15
    assert divided(reserved) == "16 × 1"
    assert sum(claim["CPU"] for claim in reserved.claims) <= 15 + 1e-6
    assert reserved.notes == (
        "Training on 15 of 16 cores: tasks and actors (actors here: Holder) hold 1.",
    )
    assert ray.now - 1_000 == pytest.approx(1.5, abs=0.5)


def test_nodes_have_different_amounts_free(reserve: Any) -> None:
    ray = FakeCluster({"CPU": 8}, {"CPU": 8})
    ray.hold(0, CPU=8)
    ray.hold(1, CPU=5)
    reserved = reserve(ray, n_envs=6)
    assert (reserved.cores, divided(reserved, 6)) == (3, "3 × 2")
    assert set(reserved.group.nodes) == {"1"}


def test_a_full_cluster_is_refused_at_once_with_the_names_of_holders(
    reserve: Any,
) -> None:
    ray = FakeCluster({"CPU": 8})
    begin_another_run(ray, 6)
    ray.classes = ["Holder", "my.module.Other"]
    ray.hold(CPU=2)
    with pytest.raises(UserError) as error:
        reserve(ray)
    assert str(error.value) == (
        "No core is free for an env actor, as xagents-ray sac on Ant-v5 (process 7 on "
        "big, claim 1) holds 6, tasks and actors (actors here: Holder, Other) hold 2: "
        "wait, or add nodes."
    )
    assert ray.now - 1_000 == pytest.approx(1.5, abs=0.5)
    assert len(ray.groups) == 1  # nothing of this run is left


def test_explicit_claims_beyond_what_is_free_are_refused_at_once(reserve: Any) -> None:
    ray = FakeCluster({"CPU": 8, "GPU": 1})
    begin_another_run(ray, 4)
    with pytest.raises(UserError, match=r"needs 5 CPUs, and 4 of 8 are free.* holds 4"):
        reserve(ray, actor_cpus=2, n_actors=2)
    assert divided(reserve(ray, actor_cpus=1)) == "2 × 5, 1 × 6"
    ray = FakeCluster({"CPU": 8, "GPU": 1})
    ray.hold(GPU=1)
    with pytest.raises(UserError, match=r"1 GPUs, and 0 of 1 .*lower --learner-gpus"):
        reserve(ray, learner_gpus=1)
    assert ray.now - 1_000 == pytest.approx(1.5, abs=0.5)


def test_a_gpu_of_others_leaves_the_learner_on_cores(reserve: Any) -> None:
    ray = FakeCluster({"CPU": 8, "GPU": 1})
    ray.hold(GPU=1)
    reserved = reserve(ray, spared=1)
    assert "GPU" not in reserved.claims[0]
    assert reserved.cores == 7
    assert reserved.notes == (
        "No GPU is free, so the learner uses cores: tasks and actors hold 1.",
    )


def test_a_gpu_of_others_is_not_named_where_another_is_free(reserve: Any) -> None:
    ray = FakeCluster({"CPU": 8, "GPU": 2})
    ray.hold(GPU=1)
    reserved = reserve(ray)
    assert reserved.claims[0]["GPU"] == 1
    assert reserved.notes == ()


def test_what_a_run_held_that_has_just_ended_is_free(reserve: Any) -> None:
    """Ray shows it half a second late; seeded runs must have the same actors."""
    ray = FakeCluster({"CPU": 4})
    begin_another_run(ray, 4)
    ray.later.append((ray.now + 0.5, ray.groups[0].remove))
    reserved = reserve(ray)
    assert (reserved.cores, reserved.notes) == (4, ())


@pytest.mark.parametrize(
    ("held", "limit", "waits"),
    [
        (0.09375, None, False),  # of 0.1
        (0.11, None, True),
        (0.09375, 0.125, False),
        (0.125, 0.125, True),
    ],
)
def test_little_that_others_hold_is_not_waited_for(
    reserve: Any,
    monkeypatch: pytest.MonkeyPatch,
    held: float,
    limit: float | None,
    waits: bool,
) -> None:
    """An amount of exactly the limit is waited for."""
    if limit is not None:
        monkeypatch.setattr(reservation, "_CONSIDERABLE", limit)
    ray = FakeCluster({"CPU": 4})
    ray.hold(CPU=held)
    reserved = reserve(ray)
    assert ((ray.now > 1_000), reserved.notes != ()) == (waits, waits)


@pytest.mark.parametrize(("taken", "cores"), [(2, 2), (4, 0)])
def test_of_two_runs_in_one_second_the_second_takes_the_rest_or_says_why_not(
    reserve: Any, monkeypatch: pytest.MonkeyPatch, taken: int, cores: int
) -> None:
    """The other's claim is granted after this run has looked up what is free."""
    ray = FakeCluster({"CPU": 4})
    made = ray.util.placement_group

    def beaten(*bundles: Any, **options: Any) -> Group:
        if not ray.groups:
            begin_another_run(ray, taken)
        group: Group = made(*bundles, **options)
        return group

    ray.util.placement_group = beaten
    if cores:
        reserved = reserve(ray)
        assert (reserved.cores, reserved.group.state) == (cores, "CREATED")
    else:
        with pytest.raises(UserError, match=r"sac on Ant-v5 .* holds 4"):
            reserve(ray)
    assert ray.now - 1_000 < 10
    states = [group.state for group in ray.groups]
    assert states == ["CREATED", "REMOVED", *["CREATED"] * (cores > 0)]


def test_without_room_on_the_nodes_a_claim_ends_after_a_minute(reserve: Any) -> None:
    ray, claims = FakeCluster({"CPU": 4}), list[float]()

    def claim(*_: Any, **options: Any) -> SimpleNamespace:
        claims.append(ray.now - 1_000)
        return SimpleNamespace(wait=ray.sleep)

    ray.util.placement_group = claim
    ray.util.remove_placement_group = lambda group: None
    with pytest.raises(
        UserError, match=r"no room on its nodes .* after 60 s: wait for"
    ):
        reserve(ray)
    assert 60 <= ray.now - 1_000 < 70
    assert np.diff(claims) == pytest.approx([2, 4, 8, 16], abs=0.1)


def test_the_current_placement_group_is_used(reserve: Any) -> None:
    """Of a trial of Ray Tune, whose process holds the first bundle."""
    ray = FakeCluster({"CPU": 32})
    ray.current = Group(ray, [{"CPU": 1}, {"CPU": 4}, {"CPU": 2}], "trial")
    assert ray.current.place()
    ray.assigned = {"CPU": 1.0}
    ray.in_groups = {"CPU_group_1_group0": 4.0, "CPU_group_2_group0": 2.0}
    ray.in_groups["CPU_group_group0"] = 6.0
    reserved = reserve(ray, n_envs=12)
    assert (reserved.cores, divided(reserved, 12)) == (6, "6 × 2")
    assert reserved.group is ray.current
    assert reserved.bundles[0] == 1 and set(reserved.bundles) == {1, 2}
    for bundle, has in ((1, 4), (2, 2)):
        claims = zip(reserved.claims, reserved.bundles, strict=True)
        assert sum(claim["CPU"] for claim, index in claims if index == bundle) <= has
    assert reserved.strategy(0) == (
        ray.current,
        {"placement_group_bundle_index": 1},
    )
    reserved.release()
    assert ray.current.state == "CREATED"


def test_a_trial_has_the_cores_of_all_its_bundles(reserve: Any) -> None:
    """The learner's may have a GPU alone."""
    ray = FakeCluster({"CPU": 4, "GPU": 1})
    ray.current = Group(ray, [{"GPU": 1}, {"CPU": 1.5}, {"CPU": 1.5}], "trial")
    assert ray.current.place()
    reserved = reserve(ray, has_claim=True)
    assert (reserved.cores, [*reserved.bundles]) == (3.0, [0, 1, 2])


@pytest.mark.parametrize("in_group", [True, False])
@pytest.mark.parametrize(("cpus", "shares"), [(4.0, "4 × 4"), (0.5, "1 × 16")])
def test_a_process_that_holds_all_cores_gives_its_own_to_the_run(
    reserve: Any,
    monkeypatch: pytest.MonkeyPatch,
    in_group: bool,
    cpus: float,
    shares: str,
) -> None:
    """By default, a trial of Ray Tune holds its only core, and so may a task."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    ray = FakeCluster({"CPU": cpus, "GPU": 1})
    ray.assigned = {"CPU": cpus, "GPU": 1.0}
    ray.hold(CPU=cpus, GPU=1)
    if in_group:
        ray.current = Group(ray, [{"CPU": cpus, "GPU": 1}], "trial")
    reserved = reserve(ray, spared=1)
    assert (reserved.cores, divided(reserved)) == (cpus, shares)
    assert {claim["CPU"] for claim in reserved.claims} == {0}
    assert reserved.visible_gpus == "3"
    assert reserved.strategy(2) == ("0", False)
    held = f"on what this Ray task or actor holds, {cpus:g} cores: give"
    assert held in reserved.notes[0]


def test_a_full_placement_group_names_its_own_holders(reserve: Any) -> None:
    """An actor without cores holds the group; the cluster's holders are others."""
    ray = FakeCluster({"CPU": 16})
    begin_another_run(ray, 6)
    ray.current = Group(ray, [{"CPU": 2}, {"CPU": 2}], "mine")
    assert ray.current.place()
    ray.assigned = {}
    with pytest.raises(UserError) as error:
        reserve(ray)
    assert str(error.value) == (
        "No core is free for an env actor, as tasks and actors in this process's "
        "placement group hold 4: wait, or enlarge the group."
    )


def test_a_signal_withdraws_a_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Ray may be that of the user's program, and outlive the run."""
    ray = FakeCluster({"CPU": 4})
    monkeypatch.setattr(reservation, "time", ray)
    monkeypatch.setattr(Group, "place", lambda group: False)
    calls: Any = SimpleNamespace(ray=ray, shutdown_requested=lambda: ray.now > 1_000)
    with pytest.raises(Stopped):
        reservation.reserve(calls, run_of(), False)
    assert [group.state for group in ray.groups] == ["REMOVED"]
    assert ray.now == 1_001  # Ray is asked for a second at a time


def test_a_claim_is_withdrawn_where_the_parts_of_a_run_cannot_be_prepared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ray = FakeCluster({"CPU": 4})
    monkeypatch.setattr(reservation, "time", ray)

    def fail(ray: Any) -> Any:
        raise ActorDiedError

    monkeypatch.setattr(placement, "live_nodes", fail)
    calls: Any = RayCalls(ray, Signals())
    with pytest.raises(ActorDiedError):
        RunParts(calls, run_of(n_envs=4), ())
    assert [group.state for group in ray.groups] == ["REMOVED"]


@pytest.mark.parametrize("has_claim", [False, True])
def test_only_a_sweeps_trial_has_exactly_its_claims(
    monkeypatch: pytest.MonkeyPatch, has_claim: bool
) -> None:
    ray = FakeCluster({"CPU": 3})
    monkeypatch.setattr(reservation, "time", ray)
    if has_claim:
        ray.current = Group(ray, [{"CPU": 1.0}, {"CPU": 0.5}, {"CPU": 0.5}], "")
        assert ray.current.place()
    calls: Any = RayCalls(ray, Signals())
    parts = RunParts(calls, run_of(n_envs=4), (), has_claim)
    assert parts.shares.envs == ((2, 2) if has_claim else (1, 1, 1, 1))
    parts.release()
    assert ray.groups[0].state == ("CREATED" if has_claim else "REMOVED")
