"""What `doctor` says of the cores: how busy a run keeps them, and who else does."""

from types import SimpleNamespace
from typing import Any

import pytest

from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.cluster.run.preflight import ClusterFacts
from xagents_ray.commands.doctor import cores, examination, machine
from xagents_ray.commands.doctor.checks import Check
from xagents_ray.settings.config import Config
from xagents_ray.settings.resources import PlacementConfig


def config(**settings: Any) -> Config:
    given = {"env": "CartPole-v1", "max_steps": 10, "n_envs": 16, **settings}
    return Config.of(ALGORITHMS["ppo"].config, given)


def cluster(cpus: int, free_cpus: int, free_gpus: int = 0) -> ClusterFacts:
    gpus = {"gpus": free_gpus, "free_gpus": free_gpus}
    sizes = {"nodes": 1, "memory": 2**30, "store": 2**30, "cpus": cpus}
    texts = dict.fromkeys(("ray", "python", "exposed_token", "exposed_folder"), "")
    return ClusterFacts(
        **sizes, **gpus, **texts, free_cpus=free_cpus, requires_token=True
    )


class Run:
    spared_cores = 1


def row_of(has_gpu: bool = False, free: int = 16, **settings: Any) -> Check:
    given, run = config(address="head:6379", **settings), Run()
    shares = cores.divide_envs(given, run, cluster(16, free), has_gpu)  # type: ignore[arg-type]
    return cores.check_cores(given, 0.0, shares)


@pytest.mark.parametrize(
    ("settings", "found", "remedy"),
    [
        (
            {"n_actors": 15, "has_gpu": True},
            "15 env actors, 14 × 1, 1 × 2 environments, keep 50% of 16 cores busy",
            "Leave out --n-actors: 16 env actors keep 100% of the cores busy",
        ),
        (
            {"n_actors": 15},  # the learner has a core of its own
            "keep 53% of 15 cores busy",
            "Leave out --n-actors: 16 env actors keep 100%",
        ),
        (
            {"n_envs": 8, "has_gpu": True},
            "8 env actors, 8 × 1 environments, keep 50% of 16 cores busy",
            "Raise --n-envs to 16: each core steps",
        ),
    ],
)
def test_less_than_90_percent_busy_is_a_warning(
    settings: dict[str, Any], found: str, remedy: str
) -> None:
    row = row_of(**settings)
    assert row.verdict == "warning"
    assert found in row.found and row.remedy.startswith(remedy)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"has_gpu": True},
        {"free": 12, "n_envs": 32},
        {"n_envs": 15, "has_gpu": True},  # 94 %
        {"n_envs": 8, "vectorization": "async"},  # its processes aren't counted
    ],
)
def test_90_percent_or_more_is_none(settings: dict[str, Any]) -> None:
    assert row_of(**settings).verdict == "ok"


def test_a_process_of_ones_own_choice_is_not_warned_of() -> None:
    given = config(local=True, n_envs=1)
    shares = cores.divide_envs(given, None, None, False)
    assert len(shares.envs) == 1
    assert cores.check_cores(given, 0.0, shares).verdict == "ok"


@pytest.mark.parametrize(
    ("is_image", "has_gpu", "settings", "remedy"),
    [
        (True, True, {}, "Raise --n-envs to 128, 8 per env actor: the GPU waits"),
        (True, True, {"n_envs": 64}, "Raise --n-envs to 128"),
        (True, True, {"n_envs": 128}, ""),
        (True, True, {"n_envs": 15, "local": True}, ""),  # all in one env actor
        (True, True, {"learner_gpus": 0}, ""),
        (True, False, {}, ""),
        (False, True, {}, ""),  # a small network leaves it idle anyway
    ],
)
def test_few_environments_for_a_gpu_that_learns_from_images_are_a_warning(
    is_image: bool, has_gpu: bool, settings: dict[str, Any], remedy: str
) -> None:
    run: Any = Run()
    run.config, run.spec = config(**settings), SimpleNamespace(is_image=is_image)
    shares = cores.divide_envs(run.config, run, cluster(16, 16), has_gpu)
    row = cores.check_gpu_feed(run, has_gpu, shares)
    assert (row is None) == (not remedy)
    assert row is None or (row.verdict, row.remedy.startswith(remedy)) == (
        "warning",
        True,
    )
    assert cores.check_gpu_feed(None, has_gpu, shares) is None


@pytest.mark.parametrize(
    ("free", "flags", "remedy"),
    [
        (1, {}, ""),
        (0, {}, "Wait for others: a run claims what is free"),
        (7, {"n_actors": 4, "actor_cpus": 2}, "Wait for others, or lower --n-actors"),
        (8, {"n_actors": 4, "actor_cpus": 2}, ""),
    ],
)
def test_a_cluster_without_room(free: int, flags: dict[str, Any], remedy: str) -> None:
    row = cores.with_room(Check("cluster", "found"), cluster(8, free), config(**flags))
    assert row.verdict == ("warning" if remedy else "ok")
    assert row.remedy.startswith(remedy)


def test_the_cluster_that_the_variable_names_is_examined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    placed, source = examination._placed(config())
    assert (placed.placement.address, source) == ("head:6379", "RAY_ADDRESS")
    assert examination._placed(config(address="local"))[0].placement.address is None
    alone = config(local=True)
    assert examination._placed(alone) == (alone, "")


@pytest.mark.parametrize(
    ("shown", "usable", "flags", "said"),
    [
        ([], [], {}, "none: the learner uses 8 cores"),
        ([], [], {"n_learners": 2}, "none: 2 learners use 4 cores each"),
        (["A", "B"], ["A", "B"], {"n_learners": 2}, "A, B; TensorFlow sees 2"),
        (["A"], ["A"], {"n_learners": 2}, "A; TensorFlow sees 1, for 2 learners"),
        (["A"], ["A"], {"n_learners": 2, "learner_gpus": 0}, "A; TensorFlow sees 1"),
    ],
)
def test_each_learner_wants_a_gpu(
    monkeypatch: pytest.MonkeyPatch,
    shown: list[str],
    usable: list[str],
    flags: dict[str, Any],
    said: str,
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(machine, "available_cores", lambda: 8)
    row = machine.check_gpu(shown, usable, PlacementConfig(**flags))
    assert row.found == said
    assert (row.verdict == "error") == ("for 2 learners" in said)
