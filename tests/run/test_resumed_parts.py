"""A run whose observations have several arrays."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xagents_ray


@pytest.mark.slow  # traces three learners
def test_it_resumes_exactly(tmp_path: Path) -> None:
    """Stacks within an episode, the replay and the statistics are in checkpoints."""
    known: dict[str, Any] = {
        "env": "dict_envs:compass",
        "n_envs": 2,
        "seed": 1,
        "local": True,
        "jit": "off",
        "run_dir": str(tmp_path),
        "buffer_initial_size": 20,
        "checkpoint_replay": True,
        "normalize_observations": True,
    }
    more: dict[str, Any] = {"quiet": True, "tensorboard": False}
    first = xagents_ray.train("dqn", max_steps=52, **known, **more)
    directory = str(first.directory)
    xagents_ray.train("dqn", resume=directory, max_steps=104, **more)
    whole = xagents_ray.train("dqn", max_steps=104, **known, **more)
    resumed, other = (xagents_ray.load(x) for x in (directory, str(whole.directory)))
    resumed.save(tmp_path / "a.npz")
    other.save(tmp_path / "b.npz")
    with np.load(tmp_path / "a.npz") as a, np.load(tmp_path / "b.npz") as b:
        assert "observation/mean" in a and a["observation/mean"].shape == (8,)
        for name in a:
            np.testing.assert_array_equal(a[name], b[name])
    env = resumed.make_env()
    observation, _ = env.reset(seed=1)
    assert resumed.act(observation) in env.action_space
    assert resumed.evaluate(2, seed=1).returns == [5.0, 5.0]
