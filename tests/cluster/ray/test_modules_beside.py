"""Modules beside a script, on a cluster with other machines."""

from pathlib import Path

from processes import python

MODULE = """
import gymnasium, numpy as np

class Corridor(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 9, (1,))
    action_space = gymnasium.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}
    def step(self, action):
        is_sent = "working_dir_files" in __file__
        return np.zeros(1, np.float32), float(is_sent), True, False, {}
"""
SCRIPT = """
import sys, xagents_ray
from beside import Corridor
from xagents_ray.cluster.ray import connection

connection.has_other_machines = lambda ray: True  # here is only one
run = {"env": Corridor, "max_steps": 40, "quiet": True, "n_actors": 1}
result = xagents_ray.train("a2c", address=sys.argv[1], **run)
print(result.mean_reward)
"""


def test_a_copy_is_imported_there(cluster: str) -> None:
    folder = Path("project")
    folder.mkdir()
    (folder / "beside.py").write_text(MODULE)
    (folder / "script.py").write_text(SCRIPT)
    done = python("project/script.py", cluster, timeout=200)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "1.0\n"
