"""The gate of presets: its rule, its seeds and its records, without training."""

import json
import statistics
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from checkout import ROOT
from click.testing import CliRunner, Result

from benchmarks import gate, verdicts
from benchmarks.__main__ import cli
from benchmarks.gate import changed_settings, quick_presets
from benchmarks.learned import Learned, Reached, read_all, read_learned
from benchmarks.learning import RESULTS, Bench, write_learned
from benchmarks.provenance import resolved_settings
from benchmarks.verdicts import RUNS, compare, drawn_seeds, lower_bound
from xagents_ray.algorithms.presets import find_preset
from xagents_ray.core.errors import Broken, Stopped, UserError

AGENT, ENV, PRESET = "ppo", "CartPole-v1", "ppo-CartPole-v1"
COMMIT = subprocess.run(
    ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
).stdout.strip()
ASKED = {"env": ENV, "preset": "auto", "local": True}


def reached(mean: float) -> Reached:
    return Reached(mean, 1.0, None, 100_000, 6)


def learned(n_runs: int = RUNS, **others: Any) -> Learned:
    """Return recorded runs whose scores are 100, 101, …"""
    resolved = resolved_settings(AGENT, ASKED) | others.pop("changed", {})
    seeds = {5_000 + i: reached(100.0 + i) for i in range(n_runs)}
    whole = Learned(AGENT, ENV, 100, seeds, resolved=resolved, commit=COMMIT)
    return replace(whole, **others)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Recorded runs of this test; changes of whoever works on it count as committed."""
    found = tmp_path / "recorded"
    found.mkdir()
    monkeypatch.setattr(gate, "FOLDER", found)
    monkeypatch.setattr(gate, "clean_commit", lambda: COMMIT)
    return found


def invoke(words: str = f"--preset {PRESET}") -> Result:
    return CliRunner().invoke(cli, ["gate", *words.split()], catch_exceptions=False)


@pytest.mark.parametrize(
    ("zeros", "expected"), [(0, 1.0), (1, 2 / 3), (3, 1 / 3), (10, 0.0), (30, 0.0)]
)
def test_the_bound_of_scores_of_zero_and_one(zeros: int, expected: float) -> None:
    """The number Z of zeros among five draws is binomial, and the IQM counts three.

    The IQM is 1 for Z ≤ 1, 2/3 for 2, 1/3 for 3 and 0 for more. With 1 zero in 30,
    P(Z ≥ 2) = 0.010 and P(Z ≥ 3) = 0.0003; with 3, P(Z ≥ 3) = 0.0086 and
    P(Z ≥ 4) = 0.0005; with 10, P(Z ≥ 4) = 0.045.
    """
    scores = [0.0] * zeros + [1.0] * (30 - zeros)
    assert lower_bound(scores) == pytest.approx(expected, abs=1e-12)


def test_the_bound_is_the_half_percent_quantile() -> None:
    """Of 1 to 30, the median of five draws is near the IQM, and 0.5 % are below 5."""
    bound = lower_bound([float(n) for n in range(1, 31)])
    assert 4 < bound < 7
    assert bound == lower_bound([float(n) for n in range(1, 31)])


def test_five_scores_are_compared_with_the_bound() -> None:
    scores = dict(zip((7, 8, 9, 10, 11), (500.0, 90.0, 0.0, 110.0, 100.0), strict=True))
    verdict = compare("ppo-A", scores, bound=100.0)
    assert verdict.iqm == 100.0  # of 90, 100 and 110
    assert not verdict.is_failure
    line = "ppo-A: green: IQM 100.00, bound 100.00, seeds 7 8 9 10 11"
    assert verdict.line() == line
    above = compare("ppo-A", scores, bound=100.001)
    assert (above.outcome, above.is_failure) == ("red", True)


def test_seeds_depend_on_the_commit_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert drawn_seeds("a" * 40) == (19075, 80947, 70384, 13959, 63266)
    drawn = [seed for n in range(2_000) for seed in drawn_seeds(f"{n:040x}")]
    assert 10_000 <= min(drawn) < 11_000 and 99_000 < max(drawn) < 100_000
    assert max(gate.RECORDED_SEEDS) < 10_000 and len(gate.RECORDED_SEEDS) == RUNS
    monkeypatch.setattr(verdicts, "N_DRAWN", 5)
    assert sorted(drawn_seeds("a" * 40)) == [10_000, 10_001, 10_002, 10_003, 10_004]


def test_what_took_less_than_two_minutes_is_quick() -> None:
    quick = quick_presets()
    assert quick["sac-gymnasium_robotics-FetchReach-v4"] == (
        "sac",
        "gymnasium_robotics:FetchReach-v4",
    )
    pairs = [*quick.values()]
    assert all(find_preset(agent, env) for agent, env in pairs)
    assert len({*pairs}) == len(pairs)
    for each in read_all(RESULTS):
        seconds = [reached.seconds for reached in each.seeds.values()]
        if statistics.median(seconds) < 120 and not each.settings:
            assert (each.agent, each.env) in pairs


def test_the_settings_of_recorded_runs_are_those_of_the_preset() -> None:
    today = resolved_settings(AGENT, ASKED)
    assert changed_settings(learned()) == []
    other = learned(changed={"lr": 10 * today["lr"], "n_envs": 4})
    assert changed_settings(other) == [
        "lr was 0.01 and is 0.001",
        "n_envs was 4 and is 8",
    ]
    gained = {n: value for n, value in today.items() if n not in ("jit", "gamma")}
    (change,) = changed_settings(learned(resolved=gained))  # `jit` has its default
    assert change == "gamma was 0.99 and is 0.995"
    assert changed_settings(learned(changed={"gone": 1})) == []


def test_too_few_recorded_runs_judge_nothing(folder: Path) -> None:
    done = invoke()
    assert done.output == f"{PRESET}: not judged: 0 of 30 runs recorded\n"
    assert done.exit_code == 0
    write_learned(folder / f"{PRESET}.json", learned(RUNS - 1))
    done = invoke()
    assert done.output == f"{PRESET}: not judged: 29 of 30 runs recorded\n"
    assert done.exit_code == 0


def test_runs_of_other_settings_judge_nothing_and_fail(folder: Path) -> None:
    write_learned(folder / f"{PRESET}.json", learned(changed={"lr": 1e-4}))
    done = invoke()
    assert done.output == (
        f"{PRESET}: stale: lr was 0.0001 and is 0.001; record its runs again with "
        f"--record --preset {PRESET}\n"
    )
    assert done.exit_code == 1


@pytest.mark.parametrize(("score", "outcome"), [(110.0, "green"), (90.0, "red")])
def test_the_exit_code_and_the_report_have_the_verdict(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    score: float,
    outcome: str,
) -> None:
    write_learned(folder / f"{PRESET}.json", learned())
    asked: list[Bench] = []

    def learn(self: Bench, *pair: str) -> Learned:
        asked.append(self)
        assert pair == (AGENT, ENV)
        return learned(seeds={seed: reached(score) for seed in self.seeds})

    monkeypatch.setattr(Bench, "learn", learn)
    file = tmp_path / "verdicts.json"
    done = invoke(f"--preset {PRESET} --set lr=0.01 --json {file}")
    seeds = drawn_seeds(COMMIT)
    bound = lower_bound([100.0 + i for i in range(RUNS)])
    assert done.output == (
        f"{PRESET}: {outcome}: IQM {score:.2f}, bound {bound:.2f}, "
        f"seeds {' '.join(map(str, seeds))}\n"
    )
    assert done.exit_code == (outcome == "red")
    (bench,) = asked
    assert (bench.seeds, bench.episodes, bench.results) == (seeds, 100, None)
    assert bench.settings == {"lr": 0.01}
    stored = json.loads(file.read_text())
    assert (stored["commit"], stored["settings"]) == (COMMIT, {"lr": 0.01})
    (verdict,) = stored["verdicts"]
    assert (verdict["outcome"], verdict["bound"]) == (outcome, bound)
    assert verdict["scores"] == {str(seed): score for seed in seeds}
    invoke(f"--preset {PRESET} --seeds 1-3")
    assert asked[1].seeds == (1, 2, 3)


@pytest.mark.parametrize("error", [UserError, Broken])
def test_a_training_that_fails_is_red(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def fail(*_: object) -> None:
        raise error("2 of 5 seeds failed", "") if error is Broken else error("2 failed")

    write_learned(folder / f"{PRESET}.json", learned())
    monkeypatch.setattr(Bench, "learn", fail)
    done = invoke()
    assert done.output.startswith(f"{PRESET}: red: 2 ")
    assert "failed, bound 10" in done.output
    assert done.exit_code == 1


def test_a_mistake_in_a_setting_is_not_red(folder: Path) -> None:
    write_learned(folder / f"{PRESET}.json", learned())
    with pytest.raises(UserError, match="lr"):
        invoke(f"--preset {PRESET} --set lr=-1")
    with pytest.raises(UserError, match="--set can't give seeds"):
        invoke(f"--preset {PRESET} --set seeds=1")


@pytest.mark.usefixtures("folder")
def test_what_the_gate_refuses() -> None:
    match = "ppo-Cartpole-v1 is no preset .* did you mean ppo-CartPole-v1"
    with pytest.raises(UserError, match=match):
        invoke("--preset ppo-Cartpole-v1")
    with pytest.raises(UserError, match="neither --set nor --json"):
        invoke("--record --set lr=0.1")
    with pytest.raises(UserError, match="neither --set nor --json"):
        invoke("--record --json a.json")


def test_an_interrupted_gate_says_how_to_resume(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    write_learned(folder / f"{PRESET}.json", learned())
    monkeypatch.setattr(Bench, "learn", interrupt)
    done = CliRunner().invoke(cli, ["gate", "--preset", PRESET])
    assert isinstance(done.exception, Stopped)
    assert done.output == "Interrupted: the same command resumes its runs.\n"


@pytest.mark.parametrize(
    ("before", "kept"),
    [
        pytest.param({}, True, id="same"),
        pytest.param({"changed": {"lr": 0.5}}, False, id="other settings"),
        pytest.param({"episodes": 7}, False, id="other episodes"),
        pytest.param({"commit": "0" * 40}, False, id="unknown commit"),
    ],
)
def test_runs_are_added_to_those_that_are_comparable(
    folder: Path, monkeypatch: pytest.MonkeyPatch, before: dict[str, Any], kept: bool
) -> None:
    asked: list[tuple[int, ...]] = []

    def learn(self: Bench, *_: str) -> Learned:
        asked.append(self.seeds)
        seeds = {seed: reached(1.0) for seed in self.seeds}
        return learned(seeds=seeds, commit=self.commit)

    monkeypatch.setattr(Bench, "learn", learn)
    path = folder / f"{PRESET}.json"
    write_learned(path, learned(**{"n_runs": 4, **before}))
    done = invoke(f"--record --preset {PRESET} --seeds 5002-5010")
    assert done.exit_code == 0
    missing = [*range(5_004 if kept else 5_002, 5_011)]
    assert asked == [tuple(missing[:5]), tuple(missing[5:])]
    counts = [4, 9, 11] if kept else [0, 5, 9]
    lines = [f"{PRESET}: {count} of 30 runs recorded\n" for count in counts]
    assert done.output == "".join(lines)
    found = read_learned(path)
    assert [*found.seeds] == [*range(5_000 if kept else 5_002, 5_011)]
    assert found.commit == COMMIT
    assert (found.seeds[5_002].mean == 102.0) == kept


def test_recorded_runs_are_read_from_the_checkout() -> None:
    assert gate.FOLDER == ROOT / "benchmarks" / "results" / "gate"
    names = {path.stem for path in gate.FOLDER.glob("*.json")}
    assert names and names <= {*quick_presets()}
    for path in gate.FOLDER.glob("*.json"):
        found = read_learned(path)
        assert {*found.seeds} <= {*gate.RECORDED_SEEDS}
        assert found.start_seed is not None and len(found.commit) == 40
