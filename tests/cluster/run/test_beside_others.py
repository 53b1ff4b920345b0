"""Runs on a real Ray whose cores others hold, too: the cluster of the session."""

import json

import pytest
from processes import python

_BESIDE = """
import json, time
import ray
import xagents_ray

@ray.remote(num_cpus=1)
class Holder:
    def ready(self):
        return True

ray.init("ADDRESS", log_to_driver=False, logging_level="ERROR")
holders = [Holder.remote()]
ray.get(holders[0].ready.remote())
run = dict(env="CartPole-v1", n_envs=6, n_steps=5, max_steps=60, jit="off", quiet=True)
free = ray.available_resources
before, during = free()["memory"], []

class Look(xagents_ray.Callback):
    def on_rollout(self, ctx):
        during.append(before - free()["memory"])

run_of_dqn = {**run, "buffer_initial_size": 20, "buffer_batch_size": 4}
del run_of_dqn["n_steps"]
result = xagents_ray.train("dqn", **run_of_dqn, callbacks=[Look()])
shares = result.completed, result.profile["actors_by_envs"], max(during)
while free().get("CPU") != 3 or free()["memory"] != before:  # the run has just ended
    time.sleep(0.1)
holders += [Holder.remote() for _ in range(3)]
ray.get([holder.ready.remote() for holder in holders])
began = time.monotonic()
try:
    xagents_ray.train("a2c", **run)
except xagents_ray.UserError as error:
    print(json.dumps([shares, str(error), time.monotonic() - began]))
"""


@pytest.mark.slow
def test_beside_another_holder_of_cores(cluster: str) -> None:
    """It waited a minute for the core that the holder has, and then was refused."""
    done = python("-c", _BESIDE.replace("ADDRESS", cluster), timeout=120)
    assert done.returncode == 0, done.stderr
    shares, refusal, seconds = json.loads(done.stdout)
    assert shares[:2] == [True, {"2": 3}]  # on three of four cores
    assert shares[2] > 384 << 20  # the learner's process and the shard's
    assert refusal == (
        "No core is free for an env actor, as tasks and actors (actors here: Holder) "
        "hold 4: wait, or add nodes."
    )
    assert seconds < 30  # most of it is making an environment in another process
