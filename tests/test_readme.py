"""The README says what CI does, and what was measured."""

import json
import re
import statistics

import pytest
from checkout import ROOT

from benchmarks.report import read, table

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_ci_runs_the_test_command_of_the_readme() -> None:
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (command,) = (s for s in ci.splitlines() if s.startswith("python3 -m venv"))
    assert f"\n{command}\n" in README


def speeds(text: str, work: str) -> list[float]:
    """Return ours, the other library's, and the ratio, of a table's row."""
    (row,) = re.findall(rf"^\| (?:PPO )?{work} \| (.*) \|$", text, re.MULTILINE)
    cells = (cell.split("(")[0] for cell in row.split("|"))
    return [float(cell.replace(",", "")) for cell in cells]


@pytest.mark.parametrize(
    ("work", "file"),
    [
        ("CartPole-v1, `--local`", "ppo-cartpole"),
        ("Pong, `--local`", "ppo-pong-local"),
        ("Pong, Ray(?:, 2 actors)?", "ppo-pong-ray"),
    ],
)
def test_speeds_are_those_of_the_last_measurement(work: str, file: str) -> None:
    stored = ROOT / "benchmarks" / "results" / f"{file}.json"
    (result,) = json.loads(stored.read_text(encoding="utf-8"))["results"]
    medians = [statistics.median(runs) for runs in result["speeds"].values()]
    expected = [*map(round, medians), round(result["ratio"], 2)]
    results = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert speeds(results, work) == expected


def test_speeds_beside_others_are_those_that_were_recorded() -> None:
    stored = ROOT / "benchmarks" / "results" / "cpu-2.json"
    results = read(json.loads(stored.read_text(encoding="utf-8")))
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    for name in ("cpu-2-zen5.json", "cpu-2-amx.json"):
        newer = ROOT / "benchmarks" / "results" / name
        assert table(read(json.loads(newer.read_text(encoding="utf-8")))) in page
    assert table(results) in page
    for each in results:
        medians = [statistics.median(runs) for runs in each.speeds.values()]
        cells = [f"| {median:,.0f} " for median in medians]
        rows = [row for row in README.splitlines() if cells[0] in row]
        assert len(rows) == 1 and all(cell in rows[0] for cell in cells), each.title
