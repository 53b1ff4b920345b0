"""What runs claim of clusters that aren't here: only the nodes' sizes are made up."""

from collections.abc import Callable
from threading import Lock
from types import SimpleNamespace
from typing import Any, cast

import cloudpickle
import pytest

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.cluster.run import claims, learner_service, placement
from xagents_ray.cluster.run import nodes as nodes_module
from xagents_ray.cluster.run.claims import (
    NoRoomError,
    acting_cores,
    check_claims,
    count_fitting,
    label_selectors,
    learners_node,
    run_claims,
    single_claim,
)
from xagents_ray.cluster.run.nodes import ClusterNode, nodes_of, nodes_of_group
from xagents_ray.core import objects
from xagents_ray.core.errors import UserError
from xagents_ray.run.learner_access import load_tensorflow
from xagents_ray.settings.config import Config


def cluster(
    *cpus: float, gpus: float = 0, learns: int | None = None
) -> list[ClusterNode]:
    """Return a node of each size.

    Args:
        cpus: of each node.
        gpus: of the first node.
        learns: index of the only node with TensorFlow; None if all have it.
    """
    nodes = [
        ClusterNode(str(n), {"CPU": count}, {"CPU": count}, learns in (None, n))
        for n, count in enumerate(cpus)
    ]
    nodes[0].has["GPU"] = nodes[0].free["GPU"] = gpus
    return nodes


def config(**settings: Any) -> Config:
    given = {"env": "CartPole-v1", "max_steps": 10, "n_envs": 64, **settings}
    return Config.of(ALGORITHMS["ppo"].config, given)


@pytest.mark.parametrize(
    ("cpus", "share", "learner", "actors"),
    [
        ((2,), 1, 1.0, [0.5] * 2),
        ((16,), 1, 1.0, [0.9375] * 16),
        ((1,), 1, 0.5, [0.5]),
        ((2,), 1 / 2, 0.5, [0.5]),
        ((2,), 1 / 4, 0.25, [0.25]),
        ((4, 4, 4), 1, 1.0, [0.8] * 13),
        ((4, 4, 4), 1 / 3, 1.0, [0.6666] * 4),
        ((4, 4, 4), 1 / 12, 0.5, [0.3333]),
    ],
)
def test_a_run_claims_its_share(
    cpus: tuple[int, ...], share: float, learner: float, actors: list[float]
) -> None:
    nodes = cluster(*cpus)
    first, *rest = run_claims(nodes, config(), share)
    assert first == {"CPU": pytest.approx(learner)}
    assert [part["CPU"] for part in rest] == pytest.approx(actors, abs=1e-4)
    check_claims(nodes, [first, *rest])
    jobs = round(1 / share)
    assert jobs * sum(part["CPU"] for part in [first, *rest]) <= sum(cpus) + 1e-2


@pytest.mark.parametrize(
    ("cpus", "flags", "spared", "actors"),
    [(2, {}, 1, 1), (1, {}, 1, 1), (8, {}, 1, 8), (8, {"n_actors": 7}, 1, 7)],
)
def test_a_core_can_be_spared_for_the_learner(
    cpus: int, flags: dict[str, Any], spared: int, actors: int
) -> None:
    learner, *rest = run_claims(cluster(cpus), config(**flags), spared=spared)
    assert len(rest) == actors
    check_claims(cluster(cpus), [learner, *rest])


@pytest.mark.parametrize(
    ("flags", "share", "gpu"),
    [({}, 1, 1.0), ({}, 1 / 4, 0.5), ({"learner_gpus": 2}, 1 / 4, 2.0)],
)
def test_gpus_are_shared_out_too(
    flags: dict[str, Any], share: float, gpu: float
) -> None:
    assert run_claims(cluster(8, gpus=2), config(**flags), share)[0]["GPU"] == gpu
    none = run_claims(cluster(8, gpus=2), config(learner_gpus=0), share)
    assert "GPU" not in none[0]


@pytest.mark.parametrize(
    ("gpus", "flags", "claim"),
    [
        (2, {}, {"CPU": 2.0, "GPU": 2.0}),
        (3, {}, {"CPU": 2.0, "GPU": 2.0}),
        (2, {"learner_gpus": 0}, {"CPU": 2.0}),
        (4, {"learner_gpus": 2}, {"CPU": 2.0, "GPU": 4.0}),
        (0, {}, {"CPU": 2.0}),
    ],
)
def test_each_of_several_learners_has_a_gpu_and_a_core(
    gpus: int, flags: dict[str, Any], claim: dict[str, float]
) -> None:
    nodes = cluster(8, 8, gpus=gpus)
    assert run_claims(nodes, config(n_learners=2, **flags))[0] == claim


@pytest.mark.parametrize(("gpus", "share"), [(1, 1.0), (2, 1 / 4), (1e-4, 1.0)])
def test_learners_without_enough_gpus_are_refused(gpus: float, share: float) -> None:
    """Two on parts of one GPU could not sum."""
    with pytest.raises(NoRoomError) as error:
        run_claims(cluster(8, gpus=gpus), config(n_learners=2), share)
    assert error.value.kind == "GPU"
    assert str(error.value) == (
        "--n-learners 2 takes a GPU for each, and no node has as many free: lower it, "
        "or add --learner-gpus 0 to learn on cores."
    )


@pytest.mark.parametrize(("share", "cores"), [(1, 4.0), (1 / 2, 4.0), (1 / 4, 3.0)])
def test_one_process_fits_on_one_node(share: float, cores: float) -> None:
    nodes = cluster(4, 4, 4, gpus=1)
    whole = single_claim(nodes, config(local=True), share)
    assert whole["CPU"] == pytest.approx(cores, abs=1e-2)
    assert whole["GPU"] == min(1.0, share)
    check_claims(nodes, [whole])


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"learner_gpus": 2}, "needs 2 GPUs and the cluster has 1: lower --learner-gp"),
        ({"actor_cpus": 3, "n_actors": 9}, "needs 28 CPUs and the cluster has 12"),
        ({"actor_cpus": 5, "n_actors": 1}, "needs 5 CPUs and the largest node has 4"),
    ],
)
def test_what_is_not_there_is_refused(flags: dict[str, Any], said: str) -> None:
    nodes = cluster(4, 4, 4, gpus=1)
    with pytest.raises(UserError) as error:
        check_claims(nodes, run_claims(nodes, config(**flags)))
    assert said in str(error.value)


def test_a_tenth_of_a_core_is_enough() -> None:
    assert len(run_claims(cluster(0.1), config())) > 1
    assert len(run_claims(cluster(0.1), config(), 1 / 2)) > 1
    # The least that Ray can count, for the learner and for an env actor.
    assert run_claims(cluster(0.1), config(), 1 / 500) == [{"CPU": 0.0001}] * 2
    with pytest.raises(NoRoomError, match="No core is free for an env actor"):
        run_claims(cluster(0.0999), config())


@pytest.mark.parametrize("actors", [[], [{"CPU": 1.0}]])
def test_the_learner_may_exceed_its_node_by_what_ray_counts(
    actors: list[dict[str, float]],
) -> None:
    """Claims are rounded, and so is what is free."""
    nodes = cluster(1, 1, learns=0)
    nodes[0].free["CPU"] = 0.0
    check_claims(nodes, [{"CPU": 0.0001}, *actors])
    with pytest.raises(NoRoomError):
        check_claims(nodes, [{"CPU": 0.0002}, *actors])


def test_an_env_actor_gets_a_core_at_most() -> None:
    """Unless it is asked for; one that no node can have is refused afterwards."""
    assert run_claims(cluster(8), config(n_actors=2))[1:] == [{"CPU": 1.0}] * 2
    assert run_claims(cluster(2), config(actor_cpus=3))[1:] == [{"CPU": 3}]
    assert acting_cores(cluster(8), {"CPU": 1.0}) == 8


def test_parts_may_fill_nodes_to_the_end() -> None:
    check_claims(cluster(1, 1), [{"CPU": 1.0}, {"CPU": 1.0}])
    assert run_claims(cluster(8), config(learner_gpus=1e-4))[0]["GPU"] == 1e-4


@pytest.mark.parametrize(
    ("cores", "cpus", "count"),
    [(0.3, 0.1, 3), (2.9995, 1.0, 2), (0.0, 0.5, 0), (-0.5, 0.5, 0)],
)
def test_how_many_claims_fit(cores: float, cpus: float, count: int) -> None:
    """Divisions are rounded, but not up to what isn't there."""
    assert count_fitting([cores, cores], cpus) == 2 * count


@pytest.mark.parametrize(
    ("amount", "claimed"), [(0.3, 0.3), (0.99999995, 0.9999), (1e-4, 1e-4), (9e-5, 0)]
)
def test_amounts_are_rounded_down_to_what_ray_counts(
    amount: float, claimed: float
) -> None:
    assert claims._rounded(amount) == pytest.approx(claimed, abs=1e-9)


def test_learners_with_a_gpu_are_where_it_is() -> None:
    nodes = cluster(2, 8, gpus=1)
    assert learners_node(nodes, {"GPU": 1.0}).id == "0"
    assert learners_node(nodes, {"CPU": 1.0}).id == "1"
    nodes[0].free["GPU"] = 0.0
    with pytest.raises(NoRoomError, match="needs 1 GPUs, and 0 of 1 are free on nodes"):
        check_claims(nodes, [{"CPU": 1.0, "GPU": 1.0}, {"CPU": 1.0}])


def test_a_dead_node_has_nothing() -> None:
    alive = {"NodeID": "1", "Alive": True, "Resources": {"CPU": 2.0}}
    dead = {"NodeID": "2", "Alive": False, "Resources": {"CPU": 1000.0}}
    free = {"1": {"CPU": 0.5}, "2": {"CPU": 1000.0}}
    state = SimpleNamespace(available_resources_per_node=lambda: free)
    private = SimpleNamespace(state=state)
    ray = SimpleNamespace(nodes=lambda: [alive, dead], _private=private)
    assert nodes_of(ray) == [ClusterNode("1", {"CPU": 2.0}, {"CPU": 0.5})]


def test_claims_without_a_bundle_are_taken_from_the_first_bundles() -> None:
    """Ray subtracts them from the whole placement group alone."""
    specs = [{"CPU": 2.0}, {"CPU": 4.0}, {"CPU": 4.0, "GPU": 1.0}]
    free = {"CPU_group_0_ab": 1.5, "CPU_group_1_ab": 4.0, "CPU_group_2_ab": 4.0}
    whole = {"CPU_group_ab": 6.5, "GPU_group_2_ab": 1.0, "GPU_group_ab": 1.0}
    group = _group(specs)
    found = nodes_of_group(_grouped(free | whole), group)
    assert [node.free_cpus for node in found] == [0.0, 2.5, 4.0]
    assert [node.free["GPU"] for node in found] == [0.0, 0.0, 1.0]
    del whole["GPU_group_ab"]  # Ray leaves out what is used up
    assert nodes_of_group(_grouped(free | whole), group)[2].free["GPU"] == 0.0
    assert ClusterNode("1", {}, {}).free_cpus == 0.0


def _group(specs: list[dict[str, float]]) -> Any:
    """Return a placement group with the id `ab`."""
    return SimpleNamespace(id=SimpleNamespace(hex=lambda: "ab"), bundle_specs=specs)


def _grouped(free: dict[str, float]) -> Any:
    """Return Ray with a node that has this free in its placement groups."""
    alive = {"NodeID": "1", "Alive": True, "Resources": {"CPU": 16.0}}
    state = SimpleNamespace(available_resources_per_node=lambda: {"1": {}})
    table = {"bundles_to_node_id": {0: "1", 1: "1", 2: "1"}}
    return SimpleNamespace(
        nodes=lambda: [alive],
        _private=SimpleNamespace(state=state),
        util=SimpleNamespace(placement_group_table=lambda _: table),
        available_resources=lambda: free,
    )


def test_claims_without_a_bundle_may_take_several() -> None:
    specs = [{"CPU": 2.0}, {"CPU": 4.0}, {"CPU": 1.0}]
    free = {"CPU_group_0_ab": 2.0, "CPU_group_1_ab": 4.0, "CPU_group_2_ab": 1.0}
    ray = _grouped(free | {"CPU_group_ab": 4.0})
    found = nodes_of_group(ray, _group(specs))
    assert [node.free_cpus for node in found] == [0.0, 3.0, 1.0]


@pytest.mark.parametrize("names", ["ab", "abc"])
def test_nodes_have_a_minute_to_say_whether_they_can_learn(
    monkeypatch: pytest.MonkeyPatch, names: str
) -> None:
    """The question needs no core: all may be taken."""
    monkeypatch.setattr(nodes_module, "_can_learn", {})
    rows = [{"NodeID": n, "Alive": True, "Resources": {"CPU": 2.0}} for n in names]
    asked, limits = list[Any](), list[float]()

    def remote(num_cpus: float) -> Any:
        def options(scheduling_strategy: Any) -> Any:
            asked.append((num_cpus, scheduling_strategy))
            return SimpleNamespace(remote=lambda: scheduling_strategy)

        return lambda task: SimpleNamespace(options=options)

    def wait(calls: list[str], num_returns: int, timeout: float) -> Any:
        limits.append(timeout)
        assert num_returns == len(calls)
        return calls[:2], calls[2:]

    strategies = SimpleNamespace(NodeAffinitySchedulingStrategy=lambda node, soft: node)
    state = SimpleNamespace(available_resources_per_node=dict)
    ray = SimpleNamespace(
        nodes=lambda: rows,
        _private=SimpleNamespace(state=state),
        util=SimpleNamespace(scheduling_strategies=strategies),
        exceptions=SimpleNamespace(RayError=OSError),
        remote=remote,
        wait=wait,
        get=lambda node: node == "b",
    )
    for _ in range(2):
        assert [node.id for node in nodes_of(ray) if node.can_learn] == ["b"]
    assert asked == [(0, name) for name in names] and limits == [60.0]


def test_learners_are_where_tensorflow_is() -> None:
    nodes = cluster(4, 2, gpus=1, learns=1)
    learner, *actors = run_claims(nodes, config())
    assert learner == {"CPU": 1.0}  # the GPU is elsewhere
    assert [part["CPU"] for part in actors] == pytest.approx([2 / 3] * 7, abs=1e-2)
    assert label_selectors(nodes, 3) == [{"ray.io/node-id": "in(1)"}, {}, {}]
    assert single_claim(nodes, config(), 1)["CPU"] == 2
    check_claims(nodes, [learner, *actors])
    with pytest.raises(UserError, match="learner needs 1 GPUs, and the largest node w"):
        check_claims(nodes, run_claims(nodes, config(learner_gpus=1)))
    assert label_selectors(cluster(4, 2), 3) is None


def test_initializers_that_a_learner_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of its run alone, as others may need what its node lacks."""
    kept = {("initializer", "odd"): Lock().acquire, ("initializer", "own"): print}
    monkeypatch.setattr(objects, "_kept", kept)
    layers = [SimpleNamespace(initializer="own"), SimpleNamespace()]
    layout, nothing = cast("Any", SimpleNamespace(layers=layers)), cast("Any", None)
    run = RunSpec(nothing, nothing, nothing, (layout,), 0)
    first, sent = placement.export_parts(run)
    assert cloudpickle.loads(first) is load_tensorflow
    kept.clear()
    objects.install_objects(sent)
    assert kept == {("initializer", "own"): print}
    kept["initializer", "odd"] = Lock().acquire
    layers[0].initializer = "odd"
    with pytest.raises(UserError, match="The initializer 'odd' can't be sent to other"):
        placement.export_parts(run)


def test_a_learner_has_tensorflow_before_initializers_import_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are imported with the working directory on the path; TensorFlow isn't."""
    steps: list[str] = []

    def step(name: str) -> Callable[[Any], None]:
        return lambda _: steps.append(name)

    monkeypatch.setattr(
        learner_service, "load_tensorflow", lambda: steps.append("first")
    )
    monkeypatch.setattr(learner_service, "install_definitions", step("second"))
    monkeypatch.setattr(learner_service, "make_learner", lambda *_: (None, []))
    config = SimpleNamespace(placement=SimpleNamespace(n_learners=1))
    run: Any = SimpleNamespace(learner_cores=1, config=config)
    assert learner_service.LearnerService(run, (b"",)).start() == (1, [])
    assert steps == ["first", "second"]
