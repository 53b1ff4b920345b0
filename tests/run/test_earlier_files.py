"""Runs and weights that the commit before the rooms wrote: they load and continue."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from xagents_ray import train
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.commands.episodes import evaluate_with

EARLIER = Path(__file__).parents[1] / "data" / "earlier"
RUNS = sorted(EARLIER.glob("trained/*/*/*"))


def test_there_is_a_run_of_each_algorithm() -> None:
    agents = [run.parts[-3] for run in RUNS]
    assert agents == ["a2c", "acer", "ddpg", "dqn", "ppo", "td3", "trpo"]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.parts[-3])
def test_an_earlier_run_is_resumed(run: Path, tmp_path: Path) -> None:
    mine = tmp_path / "run"
    shutil.copytree(run, mine)
    (saved,) = (mine / "checkpoints").iterdir()
    steps = int(saved.name.rpartition("-")[2])
    agent = run.parts[-3]
    result = train(agent, resume=str(mine), max_steps=steps + 100, quiet=True)
    assert result.env_steps >= steps + 100
    newest = max((mine / "checkpoints").iterdir())
    assert newest != saved
    with np.load(saved / "arrays.npz") as old, np.load(newest / "arrays.npz") as new:
        shapes = {name: (array.shape, array.dtype) for name, array in old.items()}
        assert shapes == {
            name: (array.shape, array.dtype) for name, array in new.items()
        }
        # Counters continued from where they stood.
        kernels = [name for name in old.files if "kernel" in name]
        assert kernels and any((old[name] != new[name]).any() for name in kernels)


@pytest.mark.parametrize(
    ("agent", "files", "models"),
    [
        ("dqn", ["dqn.tf"], ["model"]),
        (
            "trpo",
            ["trpo-actor.npz", "trpo-critic.npz"],
            ["actor_model", "critic_model"],
        ),
    ],
)
def test_earlier_weights_are_evaluated(
    agent: str, files: list[str], models: list[str]
) -> None:
    (run,) = (EARLIER / "trained" / agent).glob("*/*")
    given = {
        "env": run.parts[-2],
        "weights": tuple(str(EARLIER / name) for name in files),
        "episodes": 1,
        "seed": 1,
        "json": True,
        **{name: str(run / f"{name}.cfg") for name in models},
    }
    said: list[str] = []
    evaluate_with(find_algorithm(agent), given, said.append)
    assert len(json.loads(said[-1])["returns"]) == 1
