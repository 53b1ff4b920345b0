"""Acting ahead of learning: the bound on policy lag holds, and is reported."""

import json
import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import forked
import pytest

from xagents_ray.algorithms.table import find

Train = Callable[..., dict[str, Any]]
TrainAll = Callable[..., list[dict[str, Any]]]
StartCluster = Callable[[str], AbstractContextManager[str]]
ENV = {"env": "CartPole-v1", "n_envs": 4, "seed": 3}
AGENTS: dict[str, dict[str, Any]] = {
    "ppo": {"max_steps": 6_000},
    "a2c": {"max_steps": 2_000},
    "acer": {"max_steps": 2_000, "buffer_initial_size": 10},
    "dqn": {"max_steps": 3_000, "buffer_initial_size": 500, "train_frequency": 8},
}


@pytest.mark.parametrize(("agent", "lag"), [("ppo", 1), ("dqn", 1), ("a2c", 2)])
def test_local_and_one_actor_agree_with_a_lag(
    train_all: TrainAll, cluster: str, agent: str, lag: int
) -> None:
    settings = {**ENV, **AGENTS[agent], "policy_lag": lag}
    runs = [{"local": True}, {"address": cluster, "n_actors": 1}]
    local, remote = train_all(agent, [{**settings, **run} for run in runs])
    assert len(local["episodes"]) > 10
    assert local["episodes"] == remote["episodes"]
    assert local["policy_lag"] == remote["policy_lag"]
    assert local["policy_lag"]["max"] == lag


def test_a_lagged_run_repeats_itself_and_differs(
    train_all: TrainAll, cluster: str
) -> None:
    settings = {**ENV, **AGENTS["ppo"], "address": cluster, "n_actors": 2}
    lags = [{"policy_lag": lag} for lag in (1, 1, 0)]
    first, second, other = train_all("ppo", [{**settings, **lag} for lag in lags])
    assert first["episodes"] == second["episodes"] != other["episodes"]
    assert other["policy_lag"] == {"min": 0, "mean": 0, "max": 0}


@pytest.mark.parametrize("agent", AGENTS)
def test_free_actors_stay_within_the_bound(
    train: Train, cluster: str, agent: str
) -> None:
    settings = {**ENV, **AGENTS[agent], "address": cluster, "n_actors": 4}
    run = train(agent, **settings, policy_lag=2, asynchronous=True)
    assert run["env_steps"] >= settings["max_steps"]
    assert run["updates"] > 0
    assert 0 <= run["policy_lag"]["min"] <= run["policy_lag"]["max"]
    if find(agent).replay is None:
        assert run["policy_lag"]["max"] <= 2
        assert set(run["losses"]) <= {"rollouts older than --policy-lag"}
    else:  # a replay takes rollouts of any age, and they are learnt from
        assert run["losses"] == {}


def test_shards_hold_the_whole_replay(train: Train, cluster: str) -> None:
    for agent in ("dqn", "acer"):
        settings = {**ENV, **AGENTS[agent], "address": cluster, "n_actors": 3}
        run = train(agent, **settings, replay_shards=2, checkpoint_replay=True)
        assert run["updates"] > 0
        more = settings["max_steps"] + 1_000
        gone_on = train(agent, resume=run["directory"], max_steps=more, address=cluster)
        # What was held need not be collected again before learning goes on.
        assert gone_on["updates"] > run["updates"]
        assert gone_on["losses"] == {}


@pytest.mark.alone
@pytest.mark.slow
def test_free_actors_fill_a_replay_as_fast_as_rounds_do(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixteen actors with four environments each, which take 10 ms a step."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "support"))
    work = {"n_envs": 64, "n_actors": 16, "max_steps": 64 * 16 * 30, "seed": 1}
    settings = {**AGENTS["dqn"], **work, "env": "failing_envs:slow"}
    settings |= {"train_frequency": 32, "vectorization": "sync"}
    speeds: dict[bool, list[float]] = {False: [], True: []}
    for free in (False, True) * 3:
        lag = {"policy_lag": 2, "asynchronous": True} if free else {"policy_lag": 1}
        run = train("dqn", **settings, **lag)
        assert run["losses"] == {}
        assert "--n-actors" in run["profile"]["advice"]
        speeds[free].append(run["steps_per_second"])
    rounds, apart = (statistics.median(speeds[free]) for free in (False, True))
    assert apart >= 0.95 * rounds, speeds


_SOON_STALE = """
import json, os, sys
os.environ["RAY_AUTH_MODE"] = "disabled"
import xagents_ray
from xagents_ray.cluster.run import (fleet)
fleet._STALE_SECONDS = 1.0
run = xagents_ray.train(sys.argv[1], quiet=True, **json.loads(sys.argv[2]))
print(run.steps_per_second)
"""


def _soon_stale(agent: str, **settings: Any) -> list[str]:
    """Train with an alarm after a second; return the warnings, and the speed."""
    done = forked.run(["-c", _SOON_STALE, agent, json.dumps(settings)], 120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_slow_actors_hold_nobody_up(
    train: Train, start_cluster: StartCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One environment of four is a thousand times as slow as the others."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "support"))
    settings = {**ENV, "env": "failing_envs:uneven", "n_actors": 4}
    free = {"policy_lag": 3, "asynchronous": True, "rollout_length": 16}
    common = {**AGENTS["dqn"], "max_steps": 4_000}
    cut = {"max_steps": 4_000, "n_steps": 16, "round_deadline": 0.05}
    with start_cluster("") as address:
        settings["address"] = address
        together = train("dqn", **{**settings, **common, "max_steps": 320})
        *warnings, apart = _soon_stale("dqn", **{**settings, **common, **free})
        late = train("ppo", **{**settings, **cut})
        end = late["env_steps"] + 1
        more = _soon_stale(
            "ppo", resume=late["directory"], max_steps=end, address=address
        )
    assert "Env actor 1 stands still at weights version" in "".join(warnings)
    # One that is yet to act in a resumed run, which is at version 80, is behind nobody.
    assert len(more) == 1
    assert float(apart) > 3 * together["steps_per_second"]
    assert late["steps_per_second"] > 3 * together["steps_per_second"]
