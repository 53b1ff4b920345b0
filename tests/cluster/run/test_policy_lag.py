"""Acting ahead of learning: the bound on policy lag holds, and is reported."""

import shutil
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from xagents_ray.algorithms.table import find_algorithm

Train = Callable[..., dict[str, Any]]
TrainAll = Callable[..., list[dict[str, Any]]]
SUPPORT = Path(__file__).parents[2] / "support"
ENV = {"env": "CartPole-v1", "n_envs": 4, "seed": 3}
AGENTS: dict[str, dict[str, Any]] = {
    "ppo": {"max_steps": 6_000},
    "a2c": {"max_steps": 2_000},
    "a3c": {"max_steps": 2_000},
    "impala": {"max_steps": 3_000},
    "acer": {"max_steps": 2_000, "buffer_initial_size": 10},
    "dqn": {"max_steps": 3_000, "buffer_initial_size": 500, "train_frequency": 8},
}


@pytest.mark.parametrize(
    ("agent", "lag", "more"),
    [
        ("dqn", 1, {"prioritized": True}),
        pytest.param("a2c", 2, {}, marks=pytest.mark.slow),  # as IMPALA's
        ("ppo", 1, {"inference": "learner"}),
        pytest.param(
            "impala",
            2,
            {"replay_ratio": 1, "buffer_initial_size": 20},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_local_and_one_actor_agree_with_a_lag(
    train_all: TrainAll, cluster: str, agent: str, lag: int, more: dict[str, Any]
) -> None:
    settings = {**ENV, **AGENTS[agent], **more, "policy_lag": lag}
    runs = [{"local": True}, {"address": cluster, "n_actors": 1}]
    local, remote = train_all(agent, [{**settings, **run} for run in runs])
    assert len(local["episodes"]) > 10
    assert local["episodes"] == remote["episodes"]
    assert local["policy_lag"] == remote["policy_lag"]
    assert local["policy_lag"]["max"] == lag


@pytest.mark.slow
def test_a_lagged_run_repeats_itself(train_all: TrainAll, cluster: str) -> None:
    settings = {**ENV, **AGENTS["ppo"], "address": cluster, "n_actors": 2}
    first, second = train_all("ppo", [{**settings, "policy_lag": 1}] * 2)
    assert first["episodes"] == second["episodes"]
    assert first["policy_lag"]["max"] == 1


@pytest.mark.parametrize("agent", ["ppo", pytest.param("acer", marks=pytest.mark.slow)])
def test_free_actors_stay_within_the_bound(
    train: Train, cluster: str, agent: str
) -> None:
    settings = {**ENV, **AGENTS[agent], "address": cluster, "n_actors": 3}
    run = train(agent, **settings, policy_lag=2, asynchronous=True)
    assert run["env_steps"] >= settings["max_steps"]
    assert run["updates"] > 0
    assert 0 <= run["policy_lag"]["min"] <= run["policy_lag"]["max"]
    if find_algorithm(agent).config().replay is None:
        assert run["policy_lag"]["max"] <= 2
        assert set(run["failures"]) <= {"rollouts older than --policy-lag"}
    else:
        assert run["failures"] == {}


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["a3c", "impala"])
def test_agents_whose_actors_run_free_by_default(
    train: Train, cluster: str, agent: str
) -> None:
    """A3C learns from each rollout of 5 steps of one environment; nothing is lost."""
    settings = {**ENV, **AGENTS[agent], "address": cluster, "n_actors": 4}
    run = train(agent, **settings)
    rollout = 5 if agent == "a3c" else 4 * 20
    rollouts = run["env_steps"] / rollout
    assert run["failures"] == {}
    assert 0.5 * rollouts < run["updates"] < 1.2 * rollouts
    assert run["policy_lag"]["max"] > 0


@pytest.mark.slow
def test_shards_hold_the_whole_replay(train: Train, cluster: str) -> None:
    settings = {**ENV, **AGENTS["acer"], "address": cluster, "n_actors": 3}
    run = train("acer", **settings, replay_shards=2, checkpoint_replay=True)
    assert run["updates"] > 0
    more = settings["max_steps"] + 1_000
    resumed = train("acer", resume=run["directory"], max_steps=more, address=cluster)
    # What was held need not be collected again before learning continues.
    assert resumed["updates"] > run["updates"]
    assert resumed["failures"] == {}


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.usefixtures("workers_import_support")
def test_free_actors_fill_a_replay_as_fast_as_rounds_do(train: Train) -> None:
    """Sixteen actors with four environments each, which take 10 ms a step."""
    work = {"n_envs": 64, "n_actors": 16, "max_steps": 64 * 16 * 30, "seed": 1}
    settings = {**AGENTS["dqn"], **work, "env": "failing_envs:slow"}
    settings |= {"train_frequency": 32, "vectorization": "sync"}
    speeds: dict[bool, list[float]] = {False: [], True: []}
    for free in (False, True) * 3:
        lag = {"policy_lag": 2, "asynchronous": True} if free else {"policy_lag": 1}
        run = train("dqn", **settings, **lag)
        assert run["failures"] == {}
        assert "--n-actors" in run["profile"]["advice"]
        speeds[free].append(run["steps_per_second"])
    rounds, apart = (statistics.median(speeds[free]) for free in (False, True))
    assert apart >= 0.95 * rounds, speeds


@pytest.mark.slow
def test_slow_actors_hold_nobody_up(train: Train, cluster: str) -> None:
    """One environment of four takes 0.1 s a step, and the others almost nothing."""
    in_rounds = 4 / 0.1  # env steps per second, where all wait for it
    shutil.copy(SUPPORT / "failing_envs.py", ".")  # Ray's workers import from here too
    settings = {**ENV, "env": "failing_envs:uneven", "n_actors": 4, "address": cluster}
    settings |= {"max_steps": 4_000}
    free = {"policy_lag": 3, "asynchronous": True, "rollout_length": 16}
    apart = train("dqn", **{**AGENTS["dqn"], **settings, **free})
    late = train("ppo", **settings, n_steps=16, round_deadline=0.05)
    for run in (apart, late):
        assert run["updates"] > 0
        assert run["steps_per_second"] > 3 * in_rounds
    assert apart["failures"] == {}  # a replay takes rollouts of any age
