"""Every command of the README runs, in its order, with a short budget."""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import forked
import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$|`(xagents-ray [^`\n]*)`", re.M | re.S)
LIMIT = 120
"""Seconds of one command."""
SHORT = ["--local", "--max-steps", "600"]
FEW_FRAMES = ["--local", "--n-envs", "2", "--max-steps", "64"]
ADDRESS = "CLUSTER"
MORE = {
    "train ppo --env CartPole-v1": SHORT,
    "train dqn --env CartPole-v1": SHORT,
    "train ppo --env Pendulum-v1": SHORT,
    "train a2c --env CartPole-v1": SHORT,
    "train acer --env CartPole-v1": SHORT,
    "train ddpg --env Pendulum-v1": ["--local", "--max-steps", "200"],
    "train ppo --env LunarLander-v3": [*SHORT, "--n-steps", "32"],
    "train ppo --env PongNoFrameskip-v4": [*FEW_FRAMES, "--n-steps", "32"],
    "train dqn --env ALE/Breakout-v5": FEW_FRAMES,
    "train ppo --resume runs/": ["--max-steps", "2000"],
    "train ppo --resume last": ["--max-steps", "3500"],
    "train dqn --env PongNoFrameskip-v4": [
        *("--address", ADDRESS, "--n-envs", "4", "--n-actors", "2"),
        *("--max-steps", "300", "--buffer-initial-size", "100"),
    ],
    "train ppo": [],
    "presets": [],
    "doctor": [],
    "plot": [],
    "evaluate": ["--episodes", "2"],
    "play": [],
    "tune ppo --env": [
        *("--address", ADDRESS, "--n-trials", "2", "--trial-steps", "600")
    ],
    "tune ppo": [],
}
"""What is added to the commands that begin so, the longest beginning first.

The last one of a flag counts. `--local` only leaves out the start of Ray.
"""
CODE = {
    'env="CartPole-v1", n_envs=8, max_steps=50_000': "50_000 600",
    "class Watch(xagents_ray.Callback):": (
        "50_000 1_000 max_steps=100_000 max_steps=2_000"
    ),
    "result = xagents_ray.tune(": (
        "n_trials=20 n_trials=2 50_000 1_500 "
        f"local=True local=True,address='{ADDRESS}',buffer_initial_size=200"
    ),
}
"""In the code that has such a line, words and what stands there instead."""
NOT_RUN = {
    ".venv/bin/pytest -n 2": "that is what runs this test",
    "python -m benchmarks throughput --vs sb3=DIR/sb3/bin/python "
    "--vs sbx=DIR/sbx/bin/python": "it takes hours, and the peers' environments",
}
WITHOUT = {"--render": "it opens a window, and there may be no display"}
"""Flags that are left out, and why."""


class Command(NamedTuple):
    """What a shell or Python is given."""

    kind: str
    text: str


def commands() -> Iterator[Command]:
    """Yield the README's commands, those within sentences too, and its files."""
    for kind, block, inline in BLOCK.findall(README):
        if inline:
            yield Command("sh", inline)
        elif kind != "sh":
            yield Command(kind, block)
        else:
            lines = block.replace("\\\n", " ").splitlines()
            yield from (Command("sh", x.split(" && ")[-1]) for x in lines if x)


def words_of(line: str, address: str) -> list[str]:
    """Return the words after `xagents-ray` with what makes the command short."""
    program, *words = shlex.split(line)
    assert program in ("xagents-ray", ".venv/bin/xagents-ray"), line
    given = shlex.join(words)
    start = max((s for s in MORE if given.startswith(s)), key=len, default=None)
    assert start is not None, f"What makes `{line}` short? Add it to MORE."
    more = [] if given == start else MORE[start]
    words = [word for word in words if word not in WITHOUT]
    return [*words, *(address if word == ADDRESS else word for word in more)]


def shortened(code: str, address: str) -> str:
    (swaps,) = (swaps for line, swaps in CODE.items() if line in code)
    words = swaps.split()
    for old, new in zip(words[::2], words[1::2], strict=True):
        assert old in code
        code = code.replace(old, new)
    return code.replace(ADDRESS, address)


def run(command: Command, address: str) -> subprocess.CompletedProcess[str] | None:
    if command.kind == "python":
        return forked.run(["-c", shortened(command.text, address)], LIMIT)
    if command.kind == "sh" and command.text not in NOT_RUN:
        return forked.run(
            ["-m", "xagents_ray", *words_of(command.text, address)], LIMIT
        )
    if command.kind == "yaml":
        name = command.text.splitlines()[0].removeprefix("# ")
        Path(name).write_text(command.text, encoding="utf-8")
    return None


def test_every_command_runs(cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    shutil.copytree(ROOT / "examples", "examples")
    found = list(commands())
    # A file is there before the command that names it.
    for command in sorted(found, key=lambda command: command.kind != "yaml"):
        done = run(command, cluster)
        if done is None:
            continue
        said = f"{command.text}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == 0, said
        assert "Traceback" not in said
        if " --" in command.text and command.text.startswith("xagents-ray train"):
            # It has not ended before it began.
            assert re.search(r"steps: [1-9]", done.stdout), said
            assert "raise --max-steps" not in done.stdout, said
    for left in ("first.png", "videos", "frames", "trials.csv", "runs/tune/first"):
        assert Path(left).exists(), os.listdir()


def test_no_rule_is_left_over() -> None:
    lines = [c.text for c in commands() if c.kind == "sh"]
    given = [shlex.join(shlex.split(line)[1:]) for line in lines if line not in NOT_RUN]
    for start in MORE:
        assert any(words.startswith(start) for words in given), start
    assert set(NOT_RUN) <= set(lines)
    assert all(any(flag in line for line in lines) for flag in WITHOUT)
    code = [c.text for c in commands() if c.kind == "python"]
    assert all(any(line in text for text in code) for line in CODE)
    assert {c.kind for c in commands()} <= {"sh", "python", "yaml", "ini"}
