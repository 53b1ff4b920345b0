"""Numbers that are none end a run, and the last good checkpoint stays."""

from pathlib import Path

import forked
import numpy as np
import pytest

from xagents_ray.storage.checkpoints import load_checkpoint, newest_valid

OWN = """
import gymnasium, numpy

class Bad(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,))
    action_space = gymnasium.spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return numpy.zeros(3, numpy.float32), {}

    def step(self, action):
        self.steps += 1
        reward = float("nan") if self.steps == 700 else 1.0
        return numpy.ones(3, numpy.float32), reward, self.steps % 10 == 0, False, {}
"""


def end_of(*words: str) -> str:
    """Return what a run that diverges says."""
    done = forked.run(["-m", "xagents_ray", "train", *words, "--name", "bad"], 120)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    return done.stderr


def good_checkpoint(run: Path) -> bool:
    path = newest_valid(run / "checkpoints")
    assert path is not None
    return all(np.isfinite(a).all() for a in load_checkpoint(path).arrays.values())


def test_a_loss() -> None:
    flags = "ppo --env CartPole-v1 --local --n-envs 4 --max-steps 100000".split()
    error = end_of(*flags, "--lr", "1e30", "--checkpoint-every", "1")
    assert "xagents-ray: policy_loss is nan after" in error
    assert "lower --lr" in error
    # Nothing finite was left after the first learning phase.
    run = Path("runs/ppo/CartPole-v1/bad")
    assert newest_valid(run / "checkpoints") is None
    assert (run / "history.parquet").is_file()


@pytest.mark.parametrize(
    "where", ["local", pytest.param("ray", marks=pytest.mark.slow)]
)
def test_a_reward(where: str, cluster: str) -> None:
    Path("own_bad.py").write_text(OWN)
    flags = "ppo --env own_bad:Bad --n-envs 1 --max-steps 100000".split()
    place = ["--local"] if where == "local" else ["--address", cluster]
    error = end_of(*flags, *place, "--checkpoint-every", "100")
    assert "The environment gave a reward of nan" in error
    assert good_checkpoint(Path("runs/ppo/own_bad-Bad/bad"))
