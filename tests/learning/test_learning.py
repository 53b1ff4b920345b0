"""Small environments are learnt, by the commands that the README states."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GOALS = {
    "ppo --env CartPole-v1": (475, 150_000),
    "dqn --env CartPole-v1": (450, 200_000),
    "ppo --env Pendulum-v1": (-250, 200_000),
}


def command(start: str) -> list[str]:
    """Return the words of the README's train command that starts so."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = (line.partition("xagents-ray train ")[2] for line in text.splitlines())
    return shlex.split(next(line for line in lines if line.startswith(start)))


CASES = [
    (goal, seed, mode)
    for goal in GOALS
    for seed in (1, 2, 3)
    for mode in ("--local", "on Ray")
    if mode == "--local" or "Pendulum" not in goal
]


@pytest.mark.parametrize(("goal", "seed", "mode"), CASES)
def test_reaches_its_target(goal: str, seed: int, mode: str, tmp_path: Path) -> None:
    target, limit = GOALS[goal]
    words = command(goal)
    assert words[words.index("--target-reward") + 1] == str(target)
    more = ["--local"] if mode == "--local" else []
    ends = ["--max-steps", str(limit), "--seed", str(seed), "--run-dir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "xagents_ray", "train", *words, *more, *ends],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    reached = re.fullmatch(r"Reward achieved in (\d+) steps", last)
    assert reached, done.stdout[-500:]
    assert int(reached[1]) <= limit
