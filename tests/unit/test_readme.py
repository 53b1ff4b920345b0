"""The README says what CI does."""

from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_ci_runs_the_test_command_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (command,) = (s for s in ci.splitlines() if s.startswith("python3 -m venv"))
    assert f"\n{command}\n" in readme
