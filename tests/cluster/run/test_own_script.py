"""A script with an environment of its own: here, and on Ray with two env actors."""

from pathlib import Path

from processes import python

SCRIPT = """
import sys, gymnasium, numpy as np, xagents_ray

class Corridor(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 9, (1,))
    action_space = gymnasium.spaces.Discrete(2)
    def __init__(self, length, breaks_at=None):
        self.length, self.breaks_at = length, breaks_at
    def reset(self, *, seed=None, options=None):
        self.at = np.zeros(1, np.float32)
        return self.at, {}
    def step(self, action):
        self.at = self.at + 1
        if self.at == self.breaks_at: raise RuntimeError("the corridor is closed")
        return self.at, 1.0, bool(self.at == self.length), False, {}

run = {"env": Corridor, "n_envs": 2, "max_steps": 100, "quiet": True, "seed": 1}
broken = {"length": 5, "breaks_at": 4}
on_ray = {"address": sys.argv[1], "n_actors": 2, "max_actor_restarts": 0}
for place in ({"local": True}, on_ray):
    result = xagents_ray.train("a2c", env_kwargs={"length": 5}, **run, **place)
    print(result.mean_reward, result.n_actors, result.directory.split("/")[2])
for place in ({"local": True}, on_ray):
    try:
        xagents_ray.train("a2c", env_kwargs=broken, **run, **place)
    except (xagents_ray.UserError, xagents_ray.Broken) as error:
        print(error.trace.splitlines(), error)
"""


def test_it_runs_everywhere_and_names_its_own_line(cluster: str) -> None:
    Path("script.py").write_text(SCRIPT)
    done = python("script.py", cluster, timeout=200)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    here, remote, *rest = done.stdout.splitlines()
    assert (here, remote) == ("5.0 1 Corridor", "5.0 2 Corridor")
    line = 1 + next(i for i, x in enumerate(SCRIPT.splitlines()) if "closed" in x)
    failures = [each for each in rest if each.startswith("['Traceback")]
    assert len(failures) == 2
    for failure in failures:
        first = failure.split(", ")[1]
        assert first.endswith('script.py"') and f", line {line}, in step" in failure
        assert "'RuntimeError: the corridor is closed']" in failure
