"""Two commits compared: which differences are told, and the intervals of ratios."""

import json
import shutil
from collections.abc import Iterator, Mapping
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


@pytest.mark.slow
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
    assert "metric value_loss" in done.output and "the same" not in done.output


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
        (([METRICS[0], {"updates": 2, "loss": 0.25}], *SAME[1:]), "metric loss"),
        (
            ([*METRICS, {"updates": 3}], *SAME[1:]),
            "metric loss, metric updates, updates",
        ),
        (
            ([{**each, "kl": 0.5} for each in METRICS], *SAME[1:]),
            "only in one: metric kl",
        ),
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


def measured(seconds: float, cpu_seconds: float = 0.0) -> dict[str, float]:
    return {"env_steps": 512 * seconds, "seconds": seconds, "cpu_seconds": cpu_seconds}


def test_runs_of_a_pair_alternate_and_share_a_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After is half as fast, and takes three times as much of the CPU."""
    before, after, file = tmp_path / "before", tmp_path / "after", tmp_path / "a.json"
    taken: list[tuple[str, int]] = []

    def turns(where: Path, asked: Mapping[str, Any]) -> Iterator[dict[str, float]]:
        assert asked["agent"] == "sac" and asked["between"] == (1_500, 4_500)
        slower, costlier = (2, 3) if where == after else (1, 1)
        for turn in range(4 if where == after else 3):
            taken.append((where.name, asked["settings"]["seed"]))
            last = 3 if where == after else 2
            done = 1_024 * turn / last
            now = {"env_steps": 7 + done, "seconds": done / 256 * slower}
            yield {**now, "cpu_seconds": 5 + done / 128 * costlier}

    monkeypatch.setattr(alternated, "turns", turns)
    monkeypatch.setattr(alternated, "clean_commit", lambda where: where.name)
    before.mkdir()
    after.mkdir()
    own = ["--work", "sac-pendulum-256", "--pairs", "3", "--json", file]
    done = run("same-speed", before, after, *own)
    assert done.exit_code == 0, done.output
    order = ["before", "after"] * 3 + ["after"], ["after", "before"] * 3 + ["after"]
    assert taken == [(each, n) for n in range(3) for each in order[n % 2]]
    assert "| 3.000 (3.000–3.000) | 0.500 (0.500–0.500) |" in done.output
    report = json.loads(file.read_text())["sac-pendulum-256"]
    assert [pair[1]["seconds"] for pair in report["pairs"]] == [8.0] * 3
    assert report["cpu_per_step"] == {"median": 3.0, "low": 3.0, "high": 3.0}
    assert report["commits"] == ["before", "after"] and report["agent"] == "sac"
    assert report["between"] == [1_500, 4_500] and "env" in report["settings"]


def test_runs_on_ray_follow_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = []

    def turns(where: Path, asked: Mapping[str, Any]) -> Iterator[dict[str, float]]:
        assert "turn" not in asked
        for seconds in (1.0, 3.0):
            taken.append(where.name)
            yield measured(seconds)

    monkeypatch.setattr(alternated, "turns", turns)
    before, after = tmp_path / "before", tmp_path / "after"
    ((first, second),) = alternated.measure(before, after, "ppo-pong", "ray", 1)
    assert taken == ["before", "before", "after", "after"]
    assert first["seconds"] == second["seconds"] == 2.0


def test_a_commit_is_compared_with_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two measurements then, and not one twice."""
    seconds = iter([1.0, 2.0, 4.0, 3.0])

    def turns(*_: Any) -> Iterator[dict[str, float]]:
        yield measured(0.0)
        yield measured(next(seconds))

    monkeypatch.setattr(alternated, "turns", turns)
    pairs = alternated.measure(tmp_path, tmp_path, "ppo-pong", "local", 2)
    assert [[run["seconds"] for run in pair] for pair in pairs] == [[1, 2], [3, 4]]


@pytest.mark.parametrize("mode", commits.MODES)
@pytest.mark.parametrize("work", alternated.SPEED_WORKS)
def test_runs_last_longer_than_the_measurement(
    work: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def turns(where: Path, asked: Mapping[str, Any]) -> Iterator[dict[str, float]]:
        algorithm = find_algorithm(asked["agent"])
        config = Config.of(algorithm.config, asked["settings"])
        max_steps = config.training.max_steps
        assert max_steps is not None and max_steps > asked["between"][1] + 2_048
        yield measured(0.0)
        yield measured(1.0)

    monkeypatch.setattr(alternated, "turns", turns)
    assert len([*alternated.measure(tmp_path, tmp_path, work, mode, 1)]) == 1


def test_a_run_waits_after_each_turn(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A turn of 2 s ends with the phase of 3 s during which it is over."""
    recorder = one_training.Recorder((100, 400), turn=2.0)
    clock = [10.0]
    monkeypatch.setattr(one_training, "cpu_seconds", lambda: 2 * clock[0])
    now = SimpleNamespace(perf_counter=lambda: clock[0])
    monkeypatch.setattr(one_training, "time", now)
    monkeypatch.setattr("builtins.input", lambda: clock.__setitem__(0, clock[0] + 50))

    def phase(env_steps: int, seconds: float) -> bool | None:
        clock[0] += seconds
        context = SimpleNamespace(env_steps=env_steps, updates=1)
        return recorder.on_update(cast(RunContext, context), {})

    phases = [(60, 9.0), (120, 3.0), (180, 1.0), (240, 3.0), (420, 1.0)]
    assert [phase(*each) for each in phases] == [None, True, True, True, False]
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["env_steps"] for each in told] == [120, 240, 420]
    assert [each["seconds"] for each in told] == [0.0, 4.0, 5.0]
    assert told[0]["cpu_seconds"] == 2 * 22.0 and recorder.metrics == []


@pytest.mark.slow
def test_a_real_run_takes_turns(tmp_path: Path) -> None:
    agent, settings = commits.WORKS["a2c-cartpole"]
    own = {**settings, "local": True, "quiet": True, "max_steps": 1_000}
    asked = {"agent": agent, "settings": {**own, "run_dir": str(tmp_path)}}
    found = [*alternated.turns(ROOT, {**asked, "between": (100, 400), "turn": 0.0})]
    steps = [each["env_steps"] for each in found]
    assert len(steps) > 2 and steps[0] >= 100 and steps[-2] < 400 <= steps[-1]
    assert sorted(set(steps)) == steps and found[-1]["seconds"] > 0

    wrong = {**asked, "settings": {**asked["settings"], "lr": -1}, "between": (1, 2)}
    with pytest.raises(ClickException, match=r"A run failed(.|\n)*lr must"):
        [*alternated.turns(ROOT, wrong)]
