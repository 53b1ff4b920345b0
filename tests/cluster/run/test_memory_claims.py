"""What a run claims of Ray's memory; only the nodes' sizes are made up."""

from typing import Any

import pytest
from fake_cluster import FakeCluster, Group

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.cluster.ray.calls import RayCalls
from xagents_ray.cluster.run import reservation
from xagents_ray.cluster.run.claims import memory_claims
from xagents_ray.cluster.run.feed import bytes_in_flight
from xagents_ray.cluster.run.nodes import ClusterNode
from xagents_ray.cluster.run.placement import RunParts
from xagents_ray.cluster.run.preflight import learner_bytes, shard_bytes
from xagents_ray.core.signals import Signals
from xagents_ray.core.spec import EnvSpec
from xagents_ray.run.prepare import replay_bytes
from xagents_ray.settings.config import Config

GIB = 2**30
FRAMES = EnvSpec((84, 84, 1), "uint8", 4, 2)


def run_of(agent: str = "dqn", spec: EnvSpec = FRAMES, **settings: Any) -> RunSpec:
    algorithm = find_algorithm(agent)
    given = {"env": "ALE/Pong-v5", "n_envs": 5, "n_actors": 2, "max_steps": 1}
    config = Config.of(algorithm.config, {**given, **settings})
    layouts = algorithm.layouts(config.algorithm, spec)
    return RunSpec(algorithm, config, spec, layouts, seed=1)


@pytest.fixture
def parts_on(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that claims a run's parts on a fake cluster."""

    def make(ray: FakeCluster, run: RunSpec) -> RunParts:
        monkeypatch.setattr(reservation, "time", ray)
        return RunParts(RayCalls(ray, Signals()), run, ())

    return make


def test_shards_divide_the_bytes_of_the_ring() -> None:
    run = run_of(buffer_max_size=5_000, replay_shards=2)
    first, second = shard_bytes(run)
    base = 2 * (64 << 20)
    assert first + second - base == pytest.approx(replay_bytes(run, 5_000), rel=0.01)
    assert (second - base // 2) / (first - base // 2) == pytest.approx(3 / 2, rel=0.01)
    assert shard_bytes(run_of("ppo", n_envs=4)) == []


@pytest.mark.parametrize(
    ("agent", "more", "rows", "factor"),
    [
        ("dqn", {}, 0, 1),
        ("dqn", {"policy_lag": 1}, 0, 2),  # a phase is ahead
        ("ppo", {"n_steps": 16}, 5 * (16 + 4), 1),
        ("acer", {"n_steps": 16, "policy_lag": 1}, 5 * (16 + 4), 2),
    ],
)
def test_a_learner_needs_its_networks_and_batches(
    agent: str, more: dict[str, int], rows: int, factor: int
) -> None:
    run = run_of(agent, **more)
    weights = 4 * sum(layout.n_weights for layout in run.layouts)
    data = run.sampled_bytes + rows * run.step_bytes
    assert learner_bytes(run) - 5 * weights - factor * data == 320 << 20


@pytest.mark.parametrize(
    ("batch_size", "n_envs", "megabytes"),
    [
        (32, 5, 23.5),  # all of a phase
        (32, 8, 3 * 8 * 1.048576),
        (32, 1_000, 3 * 8 * 1.048576),
        (1_024, 1_000, 3 * 4 * 36.1),  # a chunk has four batches at least
    ],
)
def test_batches_in_flight(batch_size: int, n_envs: int, megabytes: float) -> None:
    run = run_of(n_envs=n_envs, buffer_batch_size=batch_size)
    assert bytes_in_flight(run) / 1e6 == pytest.approx(megabytes, rel=0.05)


@pytest.mark.parametrize(
    ("free", "needs", "claims"),
    [
        ([10], [4, 4], [4, 4]),
        ([10, 12], [8, 8], [8, 8]),  # the second on the other node
        ([10], [8, 8], [8, 2]),  # as they did without claims
        ([5], [8, 8], [5, 0]),
    ],
)
def test_a_claim_never_exceeds_what_is_free(
    free: list[int], needs: list[int], claims: list[int]
) -> None:
    nodes = [ClusterNode(str(n), {}, {"memory": each}) for n, each in enumerate(free)]
    assert memory_claims(nodes, needs) == claims


def test_a_run_holds_memory_until_it_ends(parts_on: Any) -> None:
    ray, run = FakeCluster({"CPU": 4, "memory": 8 * GIB}), run_of(replay_shards=2)
    parts = parts_on(ray, run)
    held = learner_bytes(run) + sum(shard_bytes(run))
    assert ray.free["0"]["memory"] == 8 * GIB - held
    assert parts.notes == ()
    parts.release()
    assert ray.free["0"] == {"CPU": pytest.approx(4), "memory": 8 * GIB}


def test_a_run_claims_what_others_left_and_says_so(parts_on: Any) -> None:
    ray, run = FakeCluster({"CPU": 4, "memory": 8 * GIB}), run_of(buffer_max_size=10**6)
    ray.hold(memory=7 * GIB)
    parts = parts_on(ray, run)
    assert ray.free["0"]["memory"] == 0
    left = (GIB - learner_bytes(run)) / GIB
    need = shard_bytes(run)[0] / GIB
    assert parts.notes == (
        f"The replay needs about {need:.3g} GiB of memory, and Ray had {left:.3g} GiB "
        "free for it: lower --buffer-max-size, or end other jobs.",
    )


def test_a_full_node_starts_the_run_without_claims(parts_on: Any) -> None:
    ray = FakeCluster({"CPU": 4, "memory": GIB})
    ray.hold(memory=GIB)
    parts = parts_on(ray, run_of())
    learner, replay = parts.notes
    assert learner.startswith("The learner needs about 0.3")
    assert learner.endswith("Ray had 0 GiB free for it: add nodes, or end other jobs.")
    assert "The replay needs" in replay
    assert ray.free["0"]["memory"] == 0
    assert len(ray.groups) == 1


@pytest.mark.parametrize(
    ("beaten_at", "notes", "states"),
    [
        # Memory that only the learner found taken, then that of the shards.
        ("", 2, ["REMOVED", "CREATED"]),
        (": memory", 1, ["CREATED", "REMOVED"]),
    ],
)
def test_a_run_does_not_wait_for_memory_that_another_took_first(
    parts_on: Any, beaten_at: str, notes: int, states: list[str]
) -> None:
    """The other's claim is granted after this run has looked up what is free."""
    ray, run = FakeCluster({"CPU": 4, "memory": 2 * GIB}), run_of()
    made = ray.util.placement_group

    def beaten(bundles: Any, name: str, **options: Any) -> Group:
        if name.endswith(beaten_at):
            ray.hold(memory=ray.free["0"]["memory"])
        group: Group = made(bundles, name=name, **options)
        return group

    ray.util.placement_group = beaten
    parts = parts_on(ray, run)
    assert len(parts.notes) == notes
    assert "The replay needs" in parts.notes[-1] and "had 0 GiB" in parts.notes[-1]
    assert ray.now - 1_000 == 2
    assert [group.state for group in ray.groups] == states


def test_a_shard_is_placed_on_its_claim_while_the_node_lives(parts_on: Any) -> None:
    ray, run = FakeCluster({"CPU": 4, "memory": 8 * GIB}), run_of(replay_shards=2)
    memory = parts_on(ray, run)._memory
    options = memory.options(1)
    assert options["num_cpus"] == 0
    group, bundle = options["scheduling_strategy"]
    assert bundle == {"placement_group_bundle_index": 1}
    assert [b["memory"] for b in group.bundle_specs] == shard_bytes(run)
    group.nodes[1] = ""  # Ray looks for room, the node is lost
    assert memory.options(1) is None  # anywhere, as its memory may be nowhere
    assert memory.options(0) is not None
