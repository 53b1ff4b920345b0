"""A notebook with an environment of its own: what it shows, here and on Ray."""

from typing import Any

import nbformat
from processes import python

OWN = """
import os, signal
import gymnasium, numpy as np
import xagents_ray

class Corridor(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 9, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.at = np.zeros(1, np.float32)
        return self.at, {}

    def step(self, action):
        self.at = self.at + 1
        return self.at, 1.0, bool(self.at == 5), False, {}

class Interrupt(xagents_ray.Callback):
    def on_rollout(self, ctx):
        if ctx.env_steps >= 100:
            os.kill(os.getpid(), signal.SIGINT)  # as the kernel's interrupt does

run = {"env": Corridor, "n_envs": 2, "max_steps": 2_000, "n_steps": 5}
"""
LOCAL = 'result = xagents_ray.train("a2c", **run, local=True)\nresult'
FIGURE = 'xagents_ray.plot_history(f"{result.directory}/history.parquet")'
ON_RAY = """
seen = []
run_on_ray = {{**run, "address": "{address}", "n_actors": 2}}
result = xagents_ray.train("a2c", **run_on_ray, callbacks=[seen.append])
assert len(seen) == result.updates and seen[-1].env_steps == result.env_steps
result
"""
INTERRUPTED = """
try:
    xagents_ray.train("a2c", **run, local=True, name="b", callbacks=[Interrupt()])
except KeyboardInterrupt:
    print(os.listdir("runs/a2c/Corridor/b/checkpoints"))
"""
_EXECUTE = "from nbclient.cli import main; main()"


def test_a_notebook_shows_a_run_in_place(cluster: str) -> None:
    v4: Any = nbformat.v4
    cells = OWN, LOCAL, FIGURE, ON_RAY.format(address=cluster), INTERRUPTED
    nbformat.write(v4.new_notebook(cells=[*map(v4.new_code_cell, cells)]), "a.ipynb")
    done = python("-c", _EXECUTE, "--inplace", "a.ipynb", timeout=200)
    assert done.returncode == 0, done.stderr
    found = nbformat.read("a.ipynb", 4)
    _, local, figure, on_ray, interrupted = (cell.outputs for cell in found.cells)
    for outputs in (local, on_ray):
        kinds = [output.output_type for output in outputs]
        assert kinds == ["stream", "display_data", "stream", "execute_result"]
        _, table, reason, result = outputs
        assert table.data["text/plain"].endswith("2000/2000 100%\n")
        assert "<td>Maximum steps exceeded</td>" in result.data["text/html"]
        assert len(result.data["text/plain"]) < 1_000  # without 400 episodes
        assert reason.text == "Maximum steps exceeded\n"
    assert "1 env actor," in local[0].text and "2 env actors," in on_ray[0].text
    assert "image/png" in figure[0].data
    assert interrupted[-1].text == "['step-000000000100']\n"
