"""The driver inserts what env actors have reported, whatever becomes of these."""

import json

import forked
import pytest

_TRAIN = """
import json, os, signal
import psutil
import xagents_ray
from xagents_ray.cluster.run.replay_shards import ReplayShards

insert, fills = ReplayShards.insert, []

def killing(shards, trajectories, envs):
    if len(fills) == 20:
        for process in psutil.Process().children(recursive=True):
            if process.cmdline()[:1] == ["ray::EnvActorService"]:
                process.send_signal(signal.SIGKILL)
                process.wait(10)
                break
        else:
            raise AssertionError("no idle env actor")
    fills.append(insert(shards, trajectories, envs))
    return fills[-1]

ReplayShards.insert = killing
result = xagents_ray.train(
    "dqn", env="CartPole-v1", n_envs=4, n_actors=2, max_steps=2_000, seed=1,
    buffer_initial_size=100, quiet=True,
)
facts = {"steps": result.env_steps, "rows": fills[-1].size, "lost": result.failures}
print(json.dumps(facts))
"""


@pytest.mark.slow
def test_one_that_dies_between_its_report_and_the_insertion_loses_nothing() -> None:
    done = forked.run(["-c", _TRAIN], 300)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout.splitlines()[-1])
    assert facts["rows"] == facts["steps"] >= 2_000
    # The rollout that it was asked for next.
    assert facts["lost"] == {"env actors": 1, "rollouts": 1}
