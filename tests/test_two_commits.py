"""Two commits compared: which differences are told, and the intervals of ratios."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from checkout import ROOT
from click import ClickException
from click.testing import CliRunner, Result

from benchmarks import alternated, commits, one_training
from benchmarks.__main__ import cli
from benchmarks.alternated import Ratio, ratio
from xagents_ray import RunContext
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.settings.config import Config


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, [*map(str, words)])


def test_a_changed_constant_is_told(tmp_path: Path) -> None:
    for room in ("xagents_ray", "actors", "cluster", "learners"):
        shutil.copytree(ROOT / room, tmp_path / room)
    shutil.copy(ROOT / "setup.cfg", tmp_path)
    source = tmp_path / "xagents_ray" / "algorithms" / "a2c.py"
    text = source.read_text()
    changed = text.replace("learning.gamma(0.99)", "learning.gamma(0.9901)")
    assert changed != text
    source.write_text(changed)
    words = ["--work", "a2c-cartpole", "--mode", "local"]
    done = run("same-numbers", ROOT, tmp_path, *words)
    assert done.exit_code == 1, done.output
    assert "metrics" in done.output and "the same" not in done.output


def stored(folder: Path, arrays: Mapping[str, Any], rewards: list[float]) -> None:
    """Write what the comparison reads of a run."""
    checkpoint = folder / "a2c" / "CartPole-v1" / "run" / "checkpoints" / "8"
    checkpoint.mkdir(parents=True)
    np.savez(checkpoint / "arrays.npz", **arrays)
    if rewards:
        columns = {"step": [*range(len(rewards))], "episode_reward": rewards}
        pq.write_table(pa.table(columns), checkpoint.parents[1] / "history.parquet")


WEIGHTS = np.array([1.0, np.nan], np.float32)
METRICS = [{"updates": 1, "loss": float("nan")}, {"updates": 2, "loss": 0.5}]
SAME = (METRICS, {"weights": WEIGHTS, "step": np.array(8)}, [9.0, 10.0])


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        (SAME, "the same"),
        ((METRICS, SAME[1], [9.0, 11.0]), "episodes"),
        ((METRICS, SAME[1], []), "episodes"),
        (([METRICS[0], {"updates": 2, "loss": 0.25}], *SAME[1:]), "metrics"),
        (([*METRICS, {"updates": 3}], *SAME[1:]), "metrics, updates"),
        ((METRICS, {**SAME[1], "weights": WEIGHTS + 1}, SAME[2]), "weights"),
        (
            (METRICS, {**SAME[1], "weights": WEIGHTS.astype(float)}, SAME[2]),
            "weights",
        ),
        ((METRICS, {**SAME[1], "step": np.array(9)}, SAME[2]), "step"),
        (
            (METRICS, {"weights": WEIGHTS, "steps": np.array(8)}, SAME[2]),
            "only in one: step, only in one: steps",
        ),
    ],
)
def test_each_difference_is_told(
    after: Any, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = {tmp_path / "before": SAME, tmp_path / "after": after}

    def train(where: Path, asked: Mapping[str, Any]) -> dict[str, Any]:
        metrics, arrays, rewards = trained[where]
        stored(Path(asked["settings"]["run_dir"]), arrays, rewards)
        return {"metrics": metrics}

    monkeypatch.setattr(commits, "train", train)
    for folder in trained:
        folder.mkdir()
    done = run("same-numbers", *trained, "--work", "a2c-cartpole", "--mode", "ray")
    assert done.output.splitlines()[2:] == [
        f"| a2c-cartpole | ray | 2 | 2 | {verdict} |"
    ]
    assert done.exit_code == (verdict != "the same")


def test_a_comparison_of_next_to_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(where: Path, asked: Mapping[str, Any]) -> dict[str, Any]:
        stored(Path(asked["settings"]["run_dir"]), SAME[1], [])
        return {"metrics": METRICS[:1]}

    monkeypatch.setattr(commits, "train", train)
    compared = commits.compare(tmp_path, tmp_path, ["a2c-cartpole"], ["local"])
    with pytest.raises(ClickException, match="a2c-cartpole has 1 learning phases"):
        next(compared)


def test_a_folder_without_the_package_is_refused(tmp_path: Path) -> None:
    done = run("same-numbers", tmp_path, tmp_path)
    assert isinstance(done.exception, UserError)
    assert "is no checkout: it has no folder xagents_ray" in str(done.exception)


def test_ratios_and_intervals_of_known_numbers() -> None:
    # A pair's own ratio is always 2, whichever pairs are drawn.
    assert ratio([1.0, 3.0, 5.0], [2.0, 6.0, 10.0]) == Ratio(2.0, 2.0, 2.0)
    # Drawn twice each: medians 1, 2 and 3 have 1/4, 1/2 and 1/4 of the draws.
    assert ratio([1.0, 1.0], [1.0, 3.0]) == Ratio(2.0, 1.0, 3.0)
    # Of three draws from 1, 2, 3 the median is 1 in 7 of 27.
    assert ratio([2.0] * 3, [1.0, 2.0, 3.0]) == Ratio(1.0, 0.5, 1.5)
    # Of seven draws from 1 to 7 the median is 1 in 1.0 %, at most 2 in 10 %.
    numbers = [float(n) for n in range(1, 8)]
    assert ratio([4.0] * 7, numbers) == Ratio(1.0, 0.5, 1.5)
    assert str(Ratio(1.0, 0.98765, 1.02)) == "1.000 (0.988–1.020)"


def test_runs_of_a_pair_alternate_and_share_a_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After is half as fast, and takes three times as much of the CPU."""
    before, after, file = tmp_path / "before", tmp_path / "after", tmp_path / "a.json"
    runs: list[tuple[str, int]] = []

    def train(where: Path, asked: Mapping[str, Any]) -> dict[str, Any]:
        assert asked["agent"] == "sac" and asked["between"] == (1_500, 4_500)
        runs.append((where.name, asked["settings"]["seed"]))
        slower, costlier = (2, 3) if where == after else (1, 1)
        measured = {"env_steps": 1_024, "seconds": 4.0 * slower}
        return {"measured": {**measured, "cpu_seconds": 6.0 * costlier}}

    monkeypatch.setattr(alternated, "train", train)
    before.mkdir()
    after.mkdir()
    own = ["--work", "sac-pendulum-256", "--pairs", "3", "--json", file]
    done = run("same-speed", before, after, *own)
    assert done.exit_code == 0, done.output
    assert runs == [
        ("before", 0), ("after", 0), ("after", 1), ("before", 1), ("before", 2),
        ("after", 2),
    ]  # fmt: skip
    assert "| 3.000 (3.000–3.000) | 0.500 (0.500–0.500) |" in done.output
    report = json.loads(file.read_text())["sac-pendulum-256"]
    assert [pair[1]["seconds"] for pair in report["pairs"]] == [8.0] * 3
    assert report["cpu_per_step"] == {"median": 3.0, "low": 3.0, "high": 3.0}


def test_a_commit_is_compared_with_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two measurements then, and not one twice."""
    seconds = iter([1.0, 2.0, 4.0, 3.0])
    monkeypatch.setattr(
        alternated, "train", lambda *_: {"measured": {"seconds": next(seconds)}}
    )
    pairs = alternated.measure(tmp_path, tmp_path, "ppo-pong", "local", 2)
    assert [[run["seconds"] for run in pair] for pair in pairs] == [[1, 2], [3, 4]]


@pytest.mark.parametrize("mode", commits.MODES)
@pytest.mark.parametrize("work", alternated.SPEED_WORKS)
def test_runs_last_longer_than_the_measurement(
    work: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(where: Path, asked: Mapping[str, Any]) -> dict[str, Any]:
        algorithm = find_algorithm(asked["agent"])
        config = Config.of(algorithm.config, asked["settings"])
        max_steps = config.training.max_steps
        assert max_steps is not None and max_steps > asked["between"][1] + 2_048
        return {"measured": {}}

    monkeypatch.setattr(alternated, "train", train)
    assert len([*alternated.measure(tmp_path, tmp_path, work, mode, 1)]) == 1


def test_clocks_are_read_after_the_first_phases_that_reach_the_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorder = one_training.Recorder((100, 200))
    spent = iter([2.0, 5.0])
    monkeypatch.setattr(one_training, "cpu_seconds", lambda: next(spent))

    def phase(env_steps: int) -> bool | None:
        context = SimpleNamespace(env_steps=env_steps, updates=1)
        return recorder.on_update(cast(RunContext, context), {})

    assert [phase(n) for n in (60, 120, 180, 240)] == [None, True, None, False]
    measured = recorder.measured()
    assert (measured["env_steps"], measured["cpu_seconds"]) == (120, 3.0)
    assert measured["seconds"] > 0 and recorder.metrics == []
