"""The README says what CI does, and what was measured."""

import json
import statistics

from checkout import ROOT

from benchmarks.report import read, table

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_ci_runs_the_test_command_of_the_readme() -> None:
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (command,) = (s for s in ci.splitlines() if s.startswith("python3 -m venv"))
    assert f"\n{command}\n" in README


def test_speeds_beside_others_are_those_that_were_recorded() -> None:
    stored = ROOT / "benchmarks" / "results" / "cpu-2.json"
    results = read(json.loads(stored.read_text(encoding="utf-8")))
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    zen3 = (
        "zen3",
        "zen3-dqn-pong",
        "zen3-pong",
        "zen3-pendulum",
        "zen3-bipedalwalker",
        "zen3-lstm",
    )
    more = ("more", "ppo-cartpole", "off-policy", "zen5", *zen3, "amx")
    for name in (f"cpu-2-{each}.json" for each in more):
        newer = ROOT / "benchmarks" / "results" / name
        assert table(read(json.loads(newer.read_text(encoding="utf-8")))) in page
    assert table(results) in page
    shown = 0
    for each in results:
        columns = [each.speeds.get(x) for x in ("xagents-ray local", "sb3", "sbx")]
        cells = [f"| {statistics.median(runs):,.0f} " for runs in columns if runs]
        rows = [row for row in README.splitlines() if cells[0] in row]
        assert all(cell in row for cell in cells for row in rows), each.title
        shown += len(rows)
    assert shown == 5
