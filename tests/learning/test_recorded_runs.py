"""Presets learn what their recorded runs did, as `python -m benchmarks gate` judges."""

import subprocess

import pytest
from checkout import ROOT
from click.testing import CliRunner, Result

from benchmarks import gate
from benchmarks.__main__ import cli
from benchmarks.gate import quick_presets

COMMIT = subprocess.run(
    ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
).stdout.strip()
QUICKEST = [*quick_presets()][:2]


@pytest.fixture(autouse=True)
def committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let changes of whoever works on the tests count as committed."""
    monkeypatch.setattr(gate, "clean_commit", lambda: COMMIT)


def judge(*words: str) -> Result:
    return CliRunner().invoke(cli, ["gate", *words], catch_exceptions=False)


@pytest.mark.parametrize("preset", QUICKEST)
def test_the_quickest_presets_pass(preset: str) -> None:
    """On seeds on which nothing was chosen or recorded."""
    done = judge("--preset", preset, "--seeds", "6001-6005")
    assert done.output.startswith(f"{preset}: green: IQM "), done.output
    assert done.exit_code == 0


@pytest.mark.slow
def test_all_presets_with_enough_recorded_runs_pass() -> None:
    """On seeds drawn from the commit."""
    done = judge()
    assert done.exit_code == 0, done.output
    assert done.output.count(": green: ") >= len(QUICKEST)


@pytest.mark.slow
def test_a_preset_whose_learning_rate_is_ten_times_too_large_fails() -> None:
    """Those of PPO and IMPALA pass even so; `docs/results.md` has the numbers."""
    preset = "a2c-MountainCarContinuous-v0"
    done = judge("--preset", preset, "--seeds", "6001-6005", "--set", "lr=0.007")
    assert done.output.startswith(f"{preset}: red: IQM "), done.output
    assert done.exit_code == 1
