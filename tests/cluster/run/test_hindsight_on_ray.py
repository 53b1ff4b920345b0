"""Goals are relabeled in a shard of the replay as they are with --local."""

import os
from pathlib import Path

from processes import python

OWN = Path(__file__).parents[2] / "support" / "goal_envs.py"

_TRAIN = """
import xagents_ray

settings = dict(
    env=PointReach, her="future", n_envs=2, max_steps=640, buffer_initial_size=100,
    buffer_batch_size=64, normalize_observations=True, seed=3, quiet=True,
)
more = dict(prioritized=True, critics=3, train_frequency=4)
for agent, own in ("ddpg", {}), ("sac", more):
    one = xagents_ray.train(agent, local=True, run_dir="local", **settings, **own)
    same = xagents_ray.train(
        agent, address="ADDRESS", n_actors=1, run_dir="remote", **settings, **own
    )
    print(one.updates > 100, one.episodes == same.episodes)
    print(one.success_rate is not None, one.success_rate == same.success_rate)
"""


def test_local_and_a_remote_shard_agree(cluster: str) -> None:
    """The environment is one of `__main__`, which the shard has to be sent."""
    source = OWN.read_text() + _TRAIN.replace("ADDRESS", cluster)
    environment = {**os.environ, "PYTHONPATH": str(OWN.parent)}
    done = python("-", input=source, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["True True"] * 4
