"""Games of atari-py, which compiles for two minutes: in a folder of its own.

`pip install --target FOLDER --no-deps atari-py==0.2.9 six` once, and PYTHONPATH=FOLDER,
make the quick tests run; the first test does that itself.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import python

from xagents_ray import train
from xagents_ray.actors.envs.make import make_envs, make_one
from xagents_ray.core.errors import UserError
from xagents_ray.settings.training import EnvConfig

HAS_IT = importlib.util.find_spec("atari_py") is not None
CAN_COMPILE = all(map(shutil.which, ("cmake", "c++"))) and os.path.isfile(
    "/usr/include/zlib.h"
)
needs_it = pytest.mark.skipif(not HAS_IT, reason="needs atari-py")
PACKAGES = ("atari-py==0.2.9", "six")


@pytest.mark.slow
@pytest.mark.skipif(HAS_IT, reason="the tests below run here")
@pytest.mark.skipif(not CAN_COMPILE, reason="needs cmake, a C++ compiler, zlib")
def test_in_a_folder_of_its_own() -> None:
    """Needs a network, cmake, a C++ compiler and zlib."""
    uv = shutil.which("uv")
    pip = [uv, "pip"] if uv else [sys.executable, "-m", "pip"]
    words = [*pip, "install", "--quiet", "--no-deps", "--target", "old", *PACKAGES]
    words += ["--python", sys.executable] if uv else []
    built = subprocess.run(words, capture_output=True, text=True)
    if built.returncode:
        pytest.skip(f"atari-py can't be built here: {built.stderr[-500:]}")
    words = ["-m", "pytest", __file__, "-q", "-p", "no:cacheprovider"]
    words += ["-k", "not folder_of_its_own"]
    done = python(*words, env={**os.environ, "PYTHONPATH": str(Path("old").resolve())})
    assert done.returncode == 0, done.stdout
    assert "skipped" not in done.stdout


@needs_it
@pytest.mark.parametrize("vectorization", ["auto", "async"])
def test_games_are_preprocessed_and_vectorized(vectorization: str) -> None:
    settings = {"preprocess": True, "vectorization": vectorization}
    envs = make_envs(EnvConfig(env="atari-py:breakout", **settings), 2, 1)  # type: ignore[arg-type]
    assert (envs.spec.observation_shape, envs.spec.n_actions) == ((84, 84), 4)
    first, rng = envs.reset(3), np.random.default_rng(0)
    assert first.shape == (2, 84, 84)
    steps = [envs.step(rng.integers(4, size=2, dtype=np.int32)) for _ in range(400)]
    assert sum(step.raw_rewards.sum() for step in steps) > 0
    lost = [(step.terminated & ~step.ended).any() for step in steps]
    assert any(lost) and any(step.ended.any() for step in steps)
    np.testing.assert_array_equal(envs.reset(3), first)
    envs.close()


@needs_it
def test_a_game_is_that_of_ale_py() -> None:
    """Frame by frame, without no-ops: actions that are the same, and pictures."""
    frames = []
    for env in ("atari-py:pong", "PongNoFrameskip-v4"):
        envs = make_envs(EnvConfig(env=env, vectorization="sync"), 1, 1)
        assert envs.spec.n_actions == 6
        envs.reset(1)
        frames.append([envs.step(np.full(1, 2)).observations[0] for _ in range(200)])
        envs.close()
    differing = np.not_equal(*frames).any(axis=-1).mean()
    assert differing < 0.02


@needs_it
def test_pictures_and_arguments() -> None:
    settings: dict[str, Any] = {"env_kwargs": {"full_action_space": True}}
    envs = make_one(EnvConfig(env="atari-py:tetris", **settings), "rgb_array")
    envs.reset(0)
    assert (envs.picture().shape, envs.fps) == ((210, 160, 3), 60)
    assert envs.spec.n_actions == 18


@needs_it
@pytest.mark.parametrize(
    ("env", "given", "words"),
    [
        ("atari-py:pnog", None, "no game pnog; did you mean pong"),
        ("atari-py:xyzzy", None, "pong and space_invaders"),
        ("atari-py:pong", {"frameskip": 4}, "keyword argument 'frameskip'"),
    ],
)
def test_what_is_wrong(env: str, given: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        make_envs(EnvConfig(env=env, env_kwargs=given), 1, 1)


@needs_it
def test_it_trains() -> None:
    run = {"local": True, "quiet": True, "tensorboard": False, "max_steps": 100}
    result = train("a2c", env="atari-py:pong", preprocess=True, n_envs=2, **run)  # type: ignore[call-overload]
    assert result.env_steps >= 100
