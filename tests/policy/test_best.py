"""Which checkpoint of a run is taken: the newest, the best, or a given one."""

import json
from pathlib import Path
from typing import Any

import pytest
from naive import random_arrays

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.commands.episodes import evaluate_with
from xagents_ray.core.errors import UserError
from xagents_ray.extend import newest_arrays
from xagents_ray.policy.loading import load_policy
from xagents_ray.run.prepare import begin_in, new_directory, prepare_run
from xagents_ray.settings.config import Config
from xagents_ray.storage.checkpoint_writer import CheckpointWriter
from xagents_ray.storage.sealed import MANIFEST

PPO = {"env": "CartPole-v1", "max_steps": 10_000, "run_dir": "runs", "name": "a"}


def run_of(*marks: tuple[int, bool, float | None]) -> tuple[str, dict[int, str]]:
    """Write a run with checkpoints (step, is_best, evaluation); return their paths."""
    config = Config.of(find_algorithm("ppo").config, PPO)
    run = prepare_run(find_algorithm("ppo"), config)
    directory = new_directory(run)
    begin_in(directory, run)
    writer = CheckpointWriter(directory.checkpoints, 9)
    arrays = random_arrays(run.layout, 3)
    paths = {}
    for step, is_best, evaluation in marks:
        named = {f"policy/{name}": array for name, array in arrays.items()}
        path = writer.write(step, named, {}, is_best=is_best, evaluation=evaluation)
        paths[step] = str(path)
    return str(directory.path), paths


MEAN = [(100, False, None), (200, True, None), (300, False, None)]
EVALUATED = [(100, False, None), (200, True, 87.5), (300, False, None)]
BEST = "the best mean reward in training"
NEWEST = "the newest checkpoint"


@pytest.mark.parametrize(
    ("marks", "which", "step", "reason"),
    [
        (MEAN, None, 300, f"{NEWEST}; no evaluation ranked them, see --eval-every"),
        (MEAN, "best", 200, BEST),
        (MEAN, "last", 300, NEWEST),
        (EVALUATED, None, 200, "the best evaluation, mean reward 87.50"),
        (EVALUATED, "best", 200, "the best evaluation, mean reward 87.50"),
        (EVALUATED, "last", 300, NEWEST),
        (EVALUATED, "100", 100, "chosen by --which"),
    ],
)
def test_which_checkpoint_is_taken(
    marks: Any, which: str | None, step: int, reason: str
) -> None:
    run, paths = run_of(*marks)
    given = {"run": run} | ({"which": which} if which else {})
    assert load_policy(find_algorithm("ppo"), given).run.notes == (
        f"Weights of {paths[step]}: {reason}",
    )


def test_a_run_of_an_earlier_version_is_taken() -> None:
    """Its manifests know of no evaluations."""
    run, paths = run_of(*MEAN)
    for path in paths.values():
        file = Path(path, MANIFEST)
        manifest = json.loads(file.read_text())
        del manifest["evaluation"]
        file.write_text(json.dumps(manifest))
    for which, step in ((None, 300), ("best", 200), ("100", 100)):
        given = {"run": run} | ({"which": which} if which else {})
        (note,) = load_policy(find_algorithm("ppo"), given).run.notes
        assert paths[step] in note


def test_the_json_of_evaluate_says_which_was_taken() -> None:
    run, paths = run_of(*EVALUATED)
    said: list[str] = []
    given = {"run": run, "episodes": 1, "json": True}
    assert evaluate_with(find_algorithm("ppo"), given, said.append).signal is None
    (text,) = said
    assert paths[200] in json.loads(text)["notes"][0]


def test_which_that_is_wrong() -> None:
    run, paths = run_of((100, False, None), (200, False, None))
    for given, words in (
        ({"which": "first"}, "--which takes best, last or an env step, got 'first'"),
        ({"which": "150"}, "checkpoints of env steps 100, 200; name one of them"),
        ({"which": "best"}, "has no best checkpoint yet: use --which last"),
        ({"which": "last", "run": paths[100]}, "--run names one already"),
        ({"which": "last", "run": None, "weights": ("a.tf",)}, "of --run: leave it"),
    ):
        with pytest.raises(UserError, match=words):
            load_policy(find_algorithm("ppo"), {"run": run, **given})
    assert load_policy(find_algorithm("ppo"), {"run": paths[100]}).run.notes == (
        f"Weights of {paths[100]}: named by --run",
    )


@pytest.mark.parametrize("which", [None, "last"])
def test_damaged_checkpoints_are_skipped_and_named(which: str | None) -> None:
    run, paths = run_of(*MEAN)
    Path(paths[300], "arrays.npz").write_bytes(b"")
    given = {"run": run} | ({"which": which} if which else {})
    chosen, skipped = load_policy(find_algorithm("ppo"), given).run.notes
    assert chosen.startswith(f"Weights of {paths[200]}: {NEWEST}")
    assert skipped.startswith(f"Skipped a damaged checkpoint: {paths[300]}")
    with pytest.warns(UserWarning, match="Skipped a damaged checkpoint"):
        assert newest_arrays(run).keys()
    with pytest.raises(UserError, match=f"give --run {paths[200]}, the newest valid"):
        load_policy(find_algorithm("ppo"), {"run": run, "which": "300"})


def test_of_damaged_checkpoints_none_is_taken() -> None:
    run, paths = run_of(*MEAN)
    for path in paths.values():
        Path(path, "arrays.npz").write_bytes(b"")
    with pytest.raises(UserError, match="no other checkpoint beside it is valid"):
        load_policy(find_algorithm("ppo"), {"run": run})
