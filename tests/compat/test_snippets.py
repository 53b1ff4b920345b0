"""The code of xagents' own README runs with `xagents_ray` in place of `xagents`."""

import re
from collections.abc import Iterator
from pathlib import Path

import forked
import pytest

README = Path(__file__).parents[1] / "data" / "xagents-1.0.1" / "README.md"
# What stands in the document, and what makes it short. Only `local` is ours.
SHORTER = {
    r"\.fit\((target_reward=\d+)\)": r".fit(\1, max_steps=40, local=True, jit='off')",
    r"\.fit\(max_steps=steps\)": ".fit(max_steps=steps, local=True)",
    r"steps = 500000": "steps = 40",
    r"range\(100\)": "range(1)",  # trials
    r"range\(4, 7\)": "range(1, 2)",  # of them, environments
    r"range\(2, 11\)": "range(2, 5)",  # and steps of a rollout
    r"(create_envs\('\w+-v\d', )16": r"\g<1>2",
    r"(ReplayBuffer\d\()\d+": r"\g<1>100",
    r"initial_size=\d+": "initial_size=4",
    r"batch_size=\d+": "batch_size=1",
    r"(checkpoints=\[\s+'(?:trpo|ppo))": r"n_steps=16, \1",
    r"/path/to/": "",
    r"(create_envs\('\w+-v\d')\)": r"\1, env_kwargs={'max_episode_steps': 99})",
    r"render=True": "frame_frequency=9",  # there may be no display
}
WEIGHTS = "a2c-pong.tf"


def blocks(text: str) -> Iterator[str]:
    """Yield the indented blocks of a document."""
    for block in re.findall(r"(?m)^(?: {4}.*\n(?:[ ]*\n)*)+", text):
        yield re.sub(r"(?m)^ {4}", "", block).strip() + "\n"


def snippets() -> list[str]:
    """Return the document's programs; later lines of one follow it."""
    found: list[str] = []
    for block in blocks(README.read_text(encoding="utf-8")):
        if block.startswith(("import ", "from ")):
            found.append(block)
        elif block.startswith("agent."):
            found[-1] += block
    return found


def ours(code: str) -> str:
    code = re.sub(r"\bxagents\b", "xagents_ray", code)
    for pattern, replacement in SHORTER.items():
        code = re.sub(pattern, replacement, code)
    return code


SNIPPETS = snippets()
TRAINED = next(code for code in SNIPPETS if WEIGHTS in code)


def test_every_program_of_the_document_is_here() -> None:
    """Ten of them, each agent's own, and each rule for short ones is needed."""
    assert len(SNIPPETS) == 10
    for name in ("A2C", "ACER", "DDPG", "DQN", "PPO", "TD3", "TRPO"):
        assert any(f"agent = {name}(" in code for code in SNIPPETS)
    for pattern in SHORTER:
        assert any(re.search(pattern, code) for code in SNIPPETS), pattern


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(
            code,
            id=f"{name}-{i}",
            marks=[] if name in ("ACER", "DQN", "TD3") else pytest.mark.slow,
        )
        for i, code in enumerate(SNIPPETS)
        for name in re.findall(r"agent = (\w+)\(", code)[:1]
    ],
)
def test_a_program_runs(code: str) -> None:
    if "trained-weights.tf" in code:
        code = TRAINED + code.replace("/path/to/trained-weights.tf", WEIGHTS)
    Path("program.py").write_text(ours(code), encoding="utf-8")
    done = forked.run(["-m", "program"], 120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    if ".fit(" in code and "quiet" not in code:
        assert "Reached --max-steps" in done.stdout
    for path in re.findall(r"'([^']+\.tf)'", code):
        assert Path(f"{path}.index").is_file()
    if "video_dir" in code:
        assert list(Path("video-dir").glob("*.mp4"))
        assert list(Path("frame-dir").glob("*.jpg"))
