"""Small environments are learned, by the commands that the guide states."""

import re
import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import forked
import pytest

ROOT = Path(__file__).parents[2]
GOALS = {
    "ppo --env CartPole-v1": (475, 150_000),
    "ppo --env Pendulum-v1": (-250, 100_000),
}


def command(start: str) -> list[str]:
    """Return the words of the guide's train command that starts so."""
    guide = ROOT / "docs" / "guides" / "runs.md"
    text = guide.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = (line.partition("xagents-ray train ")[2] for line in text.splitlines())
    goals = (line for line in lines if "--target-reward" in line)
    return shlex.split(next(line for line in goals if line.startswith(start)))


# Seeds that are quick; docs/results.md has what all of them reached. DQN learns in
# test_agents.py, and on Ray in a slow
# test of cluster/run/test_chaos.py.
QUICK = {
    ("ppo --env CartPole-v1", "--local"): (1,),
    ("ppo --env Pendulum-v1", "--local"): (1,),
}
CASES = [
    pytest.param(goal, seeds, mode, marks=marks, id=f"{goal} {mode} {seeds}")
    for goal in GOALS
    for mode in ("--local", "on Ray")
    for quick in [QUICK.get((goal, mode), ())]
    for seeds, marks in (
        (quick, ()),
        (tuple(seed for seed in (1, 2, 3) if seed not in quick), pytest.mark.slow),
    )
    if seeds
]


@pytest.mark.parametrize(("goal", "seeds", "mode"), CASES)
def test_reaches_its_target(
    goal: str,
    seeds: tuple[int, ...],
    mode: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)  # the command's files are there
    target, limit = GOALS[goal]
    words = command(goal)
    assert words[words.index("--target-reward") + 1] == str(target)
    more = ["--local"] if mode == "--local" else []

    def output(seed: int) -> str:
        ends = ["--max-steps", str(limit), "--seed", str(seed)]
        own = [*words, *more, *ends, "--run-dir", str(tmp_path)]
        done = forked.run(["-m", "xagents_ray", "train", *own], 900)
        assert done.returncode == 0, done.stderr
        return done.stdout

    with ThreadPoolExecutor(2) as pool:
        for said in pool.map(output, seeds):
            reached = re.search(r"^Reward achieved in (\d+) steps$", said, re.M)
            assert reached, said
            assert int(reached[1]) <= limit
