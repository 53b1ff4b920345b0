"""What runs claim of clusters that aren't here: only the nodes' sizes are made up."""

from types import SimpleNamespace
from typing import Any

import pytest

from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.cluster.run.placement import as_one, check, demand
from xagents_ray.core.errors import UserError
from xagents_ray.settings.config import Config


def cluster(*cpus: float, gpus: float = 0) -> Any:
    """Return a stand-in for the module `ray` with a node of each size, and a dead one.

    Args:
        cpus: of each node.
        gpus: of the first node.
    """
    nodes = [{"Alive": True, "Resources": {"CPU": count}} for count in cpus]
    nodes[0]["Resources"]["GPU"] = gpus  # type: ignore[index]
    dead = {"Alive": False, "Resources": {"CPU": 1000.0, "GPU": 1000.0}}
    return SimpleNamespace(nodes=lambda: [*nodes, dead])


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
        ((4, 4, 4), 1, 1.0, [0.8] * 12),
        ((4, 4, 4), 1 / 3, 1.0, [0.6666] * 4),
        ((4, 4, 4), 1 / 12, 0.5, [0.3333]),
    ],
)
def test_a_run_claims_its_share(
    cpus: tuple[int, ...], share: float, learner: float, actors: list[float]
) -> None:
    ray = cluster(*cpus)
    first, *rest = demand(ray, config(), share)
    assert first == {"CPU": pytest.approx(learner)}
    assert [part["CPU"] for part in rest] == pytest.approx(actors, abs=1e-4)
    check(ray, [first, *rest])
    jobs = round(1 / share)
    assert jobs * sum(part["CPU"] for part in [first, *rest]) <= sum(cpus) + 1e-2


@pytest.mark.parametrize(
    ("flags", "share", "gpu"),
    [({}, 1, 1.0), ({}, 1 / 4, 0.5), ({"learner_gpus": 2}, 1 / 4, 2.0)],
)
def test_gpus_are_shared_out_too(
    flags: dict[str, Any], share: float, gpu: float
) -> None:
    assert demand(cluster(8, gpus=2), config(**flags), share)[0]["GPU"] == gpu
    none = demand(cluster(8, gpus=2), config(learner_gpus=0), share)
    assert "GPU" not in none[0]


@pytest.mark.parametrize(("share", "cores"), [(1, 4.0), (1 / 2, 4.0), (1 / 4, 3.0)])
def test_one_process_fits_on_one_node(share: float, cores: float) -> None:
    ray = cluster(4, 4, 4, gpus=1)
    whole = as_one(ray, config(local=True), share)
    assert whole["CPU"] == pytest.approx(cores, abs=1e-2)
    assert whole["GPU"] == min(1.0, share)
    check(ray, [whole])


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"learner_gpus": 2}, "needs 2 GPUs and the cluster has 1: lower --learner-gp"),
        ({"actor_cpus": 3, "n_actors": 9}, "needs 28 CPUs and the cluster has 12"),
        ({"actor_cpus": 5, "n_actors": 1}, "needs 5 CPUs and the largest node has 4"),
    ],
)
def test_what_is_not_there_is_refused(flags: dict[str, Any], said: str) -> None:
    ray = cluster(4, 4, 4, gpus=1)
    with pytest.raises(UserError) as error:
        check(ray, demand(ray, config(**flags)))
    assert said in str(error.value)
