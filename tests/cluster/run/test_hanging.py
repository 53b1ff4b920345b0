"""A shard of the replay is stopped during a learning phase; the run continues."""

import json
import re

import forked
import pytest

# The shard is stopped by the driver's own process: only there it is known when.
_HANGING = """
import json, sys
import psutil, ray, xagents_ray
from xagents_ray.cluster.run import replay_shards, supervised_learner as learning
from xagents_ray.cluster.run.replay_shards import ReplayShards

settings, is_pulled = json.loads(sys.argv[1])
learning._PING_SECONDS, learning._ARGUMENT_SECONDS = 1.0, 3.0
sample, calls = ReplayShards.sample, 0
if is_pulled:
    replay_shards.chunk_size = lambda batches, size: 4
    replay_shards._LIMIT_SECONDS = replay_shards._PING_SECONDS = 5.0

def stopping(self, *arguments):
    global calls
    calls += 1
    if calls != 20:
        return sample(self, *arguments)
    drawn = sample(self, *arguments) if is_pulled else {}
    ray.get([*drawn])
    for child in psutil.Process().children(recursive=True):
        if child.name().startswith("ray::ReplayServ"):
            child.suspend()
            break
    return drawn or sample(self, *arguments)

ReplayShards.sample = stopping
run = xagents_ray.train("dqn", quiet=True, **settings)
print(json.dumps([run.reason, run.updates, run.failures]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("is_pulled", [False, True], ids=["sent", "pulled"])
def test_a_shard_that_hangs_in_a_phase_is_replaced(is_pulled: bool) -> None:
    """It stops before it draws the phase, or before the learner pulls what it drew.

    The learner answers pings all the time.
    """
    settings = {"env": "CartPole-v1", "n_envs": 4, "n_actors": 2, "seed": 3}
    sizes = {"buffer_initial_size": 100, "replay_shards": 2, "max_steps": 6_000}
    pipeline = {"policy_lag": 1, "asynchronous": True}
    given = json.dumps([{**settings, **sizes, **pipeline}, is_pulled])
    done = forked.run(["-c", _HANGING, given], 300)
    assert done.returncode == 0, done.stderr
    warning, last = done.stdout.splitlines()
    assert re.match(r"Warning: Replay shard \d hangs with \d+ transitions;", warning)
    reason, updates, failures = json.loads(last)
    assert reason == "Reached --max-steps"
    # No phase is learned twice, and few env steps answer none.
    assert 6_000 / 4 * 0.8 < updates <= 6_000 / 4 + 64
    assert failures["replay shards"] == 1
    assert failures["batches with lost parts"] >= 1
    assert "learners" not in failures
