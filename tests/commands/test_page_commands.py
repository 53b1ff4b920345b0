"""The commands and programs of pages, and the examples, run with short budgets."""

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import forked
import pytest
from shorter import ADDRESS, SHORTER, shortened

ROOT = Path(__file__).parents[2]
EXAMPLES = {
    "breakout_acer.py": r"2 env actors(.*\n)*\d+ episodes, mean reward ",
    "cartpole.sh": r"\nmean \S+, .* of 2 episodes.*\n(.*\n)*cartpole\.png\n",
    "cartpole_a3c.py": r"2 env actors(.*\n)*\d+ episodes, mean reward \d",
    "own_callback.py": r"\nReached --max-steps; the last mean is \d",
    "own_environment.py": r"\n-?\d\.\d\d, then -?\d\.\d\d\n",
    "own_loop.py": r"(\d+ steps: \d.*\n){2}mean \d",
    "pendulum.py": r"(episode \d: -\d+\.\d\n){10}",
    "pong_on_a_cluster.sh": r"2 env actors(.*\n)*.*limited by(.*\n)*mean -\d",
    "resume.sh": r"steps: \d{3}\b(.*\n)*.*steps: \d{4}\b(.*\n)*mean \d",
    "seeds.py": r"ppo: \d\S+ \[\S+, \S+\]\na2c: \d",
    "tune.py": r"lr \S+, n_steps \d+\n(.*\n)*\d\S+ in the sweep, \d\S+ on other seeds",
}
"""What each of them prints."""
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if path.parent.name != "adr" and path.name != "results.md"
} | {
    f"examples/{name}": f"```{'sh' if name.endswith('.sh') else 'python'}\n"
    f"{(ROOT / 'examples' / name).read_text(encoding='utf-8')}```\n"
    for name in EXAMPLES
}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$|`(xagents-ray [^`\n…]*)`", re.M | re.S)
LONG = {
    "docs/coming-from/rllib.md",
    "docs/guides/cost.md",
    "docs/guides/distributed.md",
    "docs/guides/files.md",
    "docs/guides/runs.md",
    "docs/guides/tuning.md",
    "examples/breakout_acer.py",
    "examples/cartpole_a3c.py",
    "examples/own_loop.py",
    "examples/pong_on_a_cluster.sh",
    "examples/resume.sh",
    "examples/seeds.py",
    "examples/tune.py",
}
"""Pages that take long; mypy checks how their programs call the package."""
LIMIT = 180
"""Seconds of one page."""
# XLA compiles for longer than these train; test_learning.py has it as it is.
SHORT = ["--local", "--max-steps", "600", "--jit", "off"]
FEW_FRAMES = ["--local", "--n-envs", "2", "--max-steps", "64"]
TUNE = ["--address", ADDRESS, "--trial-steps", "600", "--jit", "off"]
MORE = {
    "train": SHORT,
    "train CartPole-v1": SHORT,
    "resume": ["--max-steps", "1200"],
    "train ppo --env LunarLander-v3": [*SHORT, "--n-steps", "32"],
    "train ppo --env PongNoFrameskip-v4": [*FEW_FRAMES, "--n-steps", "32"],
    "train dqn --env BreakoutNoFrameskip-v4": FEW_FRAMES,
    # The best weights are known after 100 episodes.
    "train dqn --resume": ["--max-steps", "9000"],
    "train ppo --resume": ["--max-steps", "1200"],
    "train ppo --resume runs/": ["--max-steps", "2000"],
    "train ppo --resume last --max-steps 300000": ["--max-steps", "3500"],
    "train dqn --env PongNoFrameskip-v4": [
        *("--address", ADDRESS, "--n-envs", "4", "--n-actors", "2"),
        *("--max-steps", "300", "--buffer-initial-size", "100"),
    ],
    "launch": [],
    "presets": [],
    "doctor": [],
    "plot": [],
    "evaluate": ["--episodes", "2"],
    "play": [],
    "tune ppo --env CartPole-v1 --local": [*TUNE, "--n-trials", "2"],
    "tune ppo --env CartPole-v1 --preset": [*TUNE, "--n-trials", "1"],
}
"""What is added to the commands that begin so, the longest beginning first.

The last one of a flag counts. `--local` only leaves out the start of Ray. A command
without flags gets none, unless it is here as it is.
"""
NOT_RUN = {
    ".venv/bin/pytest -n 3": "that is what runs this test",
    "python -m benchmarks": "it takes hours, and the environments of peers",
    ". .venv/bin/activate": ".ci/run installs so",
    "sh benchmarks/peers.sh": "it installs the peers",
    "ray job submit": "it needs Ray's dashboard",
    "xagents-ray train reinforce": "tests/algorithms/test_new_algorithm.py runs it",
    "xagents-ray train ppo --env PongNoFrameskip-v4 --preset --n-envs 64 --n-actors": (
        "tests/cluster/run/test_nodes.py runs such"
    ),
    "xagents-ray train ppo --env CartPole-v1 --preset --local --seeds": (
        "tests/commands/test_seeds.py runs such"
    ),
}
"""Commands that begin so, and why."""
WRITES = {"--output", "--video-dir", "--frame-dir"}
"""Flags that say what a command writes."""
_PROGRAM = """
import json, sys
from xagents_ray.commands.cli import run
for kind, name, given in json.loads(sys.argv[1]):
    print(f"$ {name}", flush=True)
    if kind == "python":
        exec(compile(given, name, "exec"), {"__name__": "__main__"})
    elif code := run(given):
        sys.exit(code)
"""


class Command(NamedTuple):
    """What a shell or Python is given."""

    kind: str
    text: str


def commands(page: str) -> Iterator[Command]:
    """Yield a page's commands, those within sentences too, and its files."""
    # In a table there are commands of other programs, or parts of ours.
    text = re.sub(r"^\|.*\n", "", PAGES[page], flags=re.M)
    for kind, block, inline in BLOCK.findall(text):
        if inline:
            if "AGENT" not in inline:
                yield Command("sh", inline)
        elif kind in ("sh", "bash"):
            lines = block.replace("\\\n", " ").splitlines()
            lines = [x for x in lines if x and not x.startswith(("#", "set "))]
            yield from (Command("sh", x.split(" && ")[-1]) for x in lines)
        else:
            yield Command(kind, block)


def begins(line: str) -> str | None:
    """Return the beginning by which a command is not run."""
    return next((start for start in NOT_RUN if line.startswith(start)), None)


def words_of(line: str, address: str) -> list[str]:
    """Return the words after `xagents-ray` with what makes the command short."""
    program, *words = shlex.split(line)
    assert program in ("xagents-ray", ".venv/bin/xagents-ray"), line
    given = shlex.join(words)
    start = max((s for s in MORE if given.startswith(s)), key=len, default=None)
    assert start is not None or "--" not in line, f"What makes `{line}` short?"
    has_more = start is not None and ("--" in line or start == given)
    more = MORE[start or ""] if has_more else []
    return [*words, *(address if word == ADDRESS else word for word in more)]


def steps_of(page: str, address: str) -> Iterator[tuple[str, str, str | list[str]]]:
    """Yield kind, name, and words or code of what a page runs; write its files."""
    for command in commands(page):
        if command.kind == "yaml":
            name = command.text.splitlines()[0].removeprefix("# ")
            Path(name).write_text(command.text, encoding="utf-8")
        elif command.kind == "python":
            name = f"{page}: {command.text.strip().splitlines()[-1]}"
            yield "python", name, shortened(command.text, address)
        elif command.kind == "sh" and begins(command.text) is None:
            yield "sh", command.text, words_of(command.text, address)


def with_own_commands() -> Iterator[str]:
    """Yield the pages that have commands, which other pages before them lack."""
    known: set[Command] = set()
    for page in PAGES:
        if own := {*commands(page)} - known:
            known |= own
            yield page


def is_slow(page: str) -> bool:
    """Return whether other tests take the same paths through the code.

    Pages of algorithms only show another agent's preset; tests/cluster runs sweeps,
    several runs and Pong on a cluster.
    """
    is_preset = page.startswith("docs/algorithms/") and not page.endswith("/ppo.md")
    return is_preset or page in LONG


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow if is_slow(page) else [])
        for page in with_own_commands()
    ],
)
def test_every_command_runs(
    page: str, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one process for each page, and one folder, as a reader would try them."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setenv("MPLBACKEND", "agg")
    shutil.copytree(ROOT / "examples", "examples")
    steps = list(steps_of(page, cluster))
    if not steps:
        return
    done = forked.run(["-c", _PROGRAM, json.dumps(steps)], LIMIT)
    said = f"{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, said
    assert "Traceback" not in said
    assert re.search(EXAMPLES.get(Path(page).name, ""), done.stdout), said
    given = [word for kind, _, words in steps if kind == "sh" for word in words]
    for i, word in enumerate(given):
        if word in WRITES:
            assert Path(given[i + 1]).exists(), given[i + 1]
    for part in done.stdout.split("\n$ ")[1:]:
        if re.match(r"\S*xagents-ray train .*--", part):
            # It has not ended before it began.
            assert re.search(r"steps: [1-9]", part), part
            assert "raise --max-steps" not in part, part


def test_every_example_is_run_and_shown() -> None:
    files = (p for p in (ROOT / "examples").iterdir() if p.suffix in (".py", ".sh"))
    assert {path.name for path in files} == EXAMPLES.keys()
    shown = re.findall(r"<!-- code: examples/(\w+\.\w+) -->", PAGES["docs/examples.md"])
    assert EXAMPLES.keys() == {*shown}
    for name in EXAMPLES:
        assert len(PAGES[f"examples/{name}"].splitlines()) <= 42, name


def test_no_rule_is_left_over() -> None:
    found = [command for page in PAGES for command in commands(page)]
    lines = [c.text for c in found if c.kind == "sh"]
    ours = [line for line in lines if begins(line) is None]
    given = [shlex.join(shlex.split(line)[1:]) for line in ours]
    for start in MORE:
        assert any(words.startswith(start) for words in given), start
    assert {begins(line) for line in lines} - {None} == set(NOT_RUN)
    code = [c.text for c in found if c.kind == "python"]
    assert all(any(re.search(old, text) for text in code) for old in SHORTER)
    assert {c.kind for c in found} <= {"sh", "python", "yaml", "ini", "toml", "text"}
