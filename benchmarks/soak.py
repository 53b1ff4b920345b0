"""Measures the memory of a long run by part."""

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import psutil

_EVERY_SECONDS = 10.0
_COMMAND = (
    "train dqn --env PongNoFrameskip-v4 --preprocess --n-envs 8 --n-actors 4 "
    "--buffer-max-size 10000 --max-steps 1000000000 --checkpoint-every 20000"
)
_SLEEPERS = (
    "train ppo --env benchmarks.scaling:Sleeper --env-kwargs seconds=0.04 "
    "--vectorization sync --n-steps 128 --ppo-epochs 4 --policy-lag 1 "
    "--max-steps 1000000000 --n-actors {} --n-envs {}"
)
_IS_FULL, _HAS_LEARNED = "10000/10000", "steps: [1-9]"
_PARTS = {
    "learner": "ray::LearnerService",
    "replay": "ray::ReplayService",
    "env actors": "ray::EnvActor",
    "store": "raylet",
}


def measure(minutes: float, sleepers: int = 0) -> list[dict[str, float]]:
    """Train DQN on Pong and measure memory once the replay is full; print a table.

    Args:
        minutes: duration of the measurement.
        sleepers: number of env actors with 4 sleeping environments each, for PPO in
            place of DQN on Pong, measured after the first round; 0 for DQN.
    Returns:
        A row every ten seconds: megabytes by part, `seconds` and `env_steps`.
    """
    rows: list[dict[str, float]] = []
    arguments, begins = _COMMAND, _IS_FULL
    if sleepers:
        arguments, begins = _SLEEPERS.format(sleepers, 4 * sleepers), _HAS_LEARNED
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "output"
        command = [sys.executable, "-m", "xagents_ray", *arguments.split()]
        with output.open("w") as file:
            process = subprocess.Popen(
                [*command, "--run-dir", directory], stdout=file, stderr=file
            )
        driver, began = psutil.Process(process.pid), 0.0
        while not began or time.monotonic() - began < 60 * minutes:
            time.sleep(_EVERY_SECONDS)
            text = output.read_text()
            if process.poll() is not None:
                raise click.ClickException(text)
            if not began and re.search(begins, text):
                began = time.monotonic()
            if began:
                steps = float(text.rpartition("steps: ")[2].partition(",")[0])
                seconds = time.monotonic() - began
                rows.append({"seconds": seconds, "env_steps": steps, **_parts(driver)})
                click.echo(json.dumps(rows[-1]))
        process.terminate()
        process.wait()
    _print(rows)
    return rows


def _parts(driver: psutil.Process) -> dict[str, float]:
    """Return each part's megabytes without shared memory; the store's include it.

    Pages of libraries are left out, as other processes determine if they are shared.
    """
    sizes = {part: 0 for part in _PARTS}
    for child in driver.children(recursive=True):
        for part, title in _PARTS.items():
            if child.name().startswith(title):
                memory = child.memory_info()
                sizes[part] += memory.rss - memory.shared * (part != "store")
    memory = driver.memory_info()
    sizes["driver"] = memory.rss - memory.shared
    return {part: round(size / 1e6, 1) for part, size in sizes.items()}


def _print(rows: list[dict[str, float]]) -> None:
    """Print the means of the first, middle and last minute, and the change."""
    minute = int(60 / _EVERY_SECONDS)
    middle = len(rows) // 2
    parts = (rows[:minute], rows[middle : middle + minute], rows[-minute:])
    click.echo("| part | first minute | middle | last minute | change |")
    click.echo("|---|---|---|---|---|")
    for name in (*_PARTS, "driver"):
        means = [sum(row[name] for row in part) / len(part) for part in parts]
        if not means[0]:  # on-policy agents have no replay
            continue
        values = " | ".join(f"{mean:.0f} MB" for mean in means)
        click.echo(f"| {name} | {values} | {means[-1] / means[0] - 1:+.1%} |")
