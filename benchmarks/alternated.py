"""Compares the speed and the CPU time of two commits.

`python -m benchmarks same-speed BEFORE AFTER` has the same arguments as same-numbers.
"""

import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import click
import numpy as np

from benchmarks.commits import MODES, checkouts, training
from benchmarks.provenance import clean_commit
from benchmarks.report import markdown
from benchmarks.works import WORKS, Settings

SPEED_WORKS: Mapping[str, tuple[str, Settings, tuple[int, int]]] = {
    name: (WORKS[name].agent, WORKS[name].settings, between)
    for name, between in {
        "a2c-cartpole": (10_240, 256_000),
        "dqn-cartpole": (5_120, 65_536),
        "ppo-cartpole": (10_240, 983_040),
        "ppo-pong": (2_048, 6_144),
        "sac-pendulum-256": (1_500, 4_500),
    }.items()
}
"""Agent, settings and the two numbers of env steps between which time is measured."""

_TURN = 0.5
"""Seconds of a turn; the learning phase during which it ends is completed."""

_RESAMPLES = 10_000
_SEED = 7


class Ratio(NamedTuple):
    """A ratio of medians, after ÷ before, with its 95 % interval.

    Attributes:
        median: ratio of the two medians.
        low: lower end of the interval.
        high: upper end of the interval.
    """

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3f} ({self.low:.3f}–{self.high:.3f})"


def ratio(before: Sequence[float], after: Sequence[float]) -> Ratio:
    """Return the ratio of medians, after ÷ before; its interval resamples the pairs.

    Args:
        before: the first commit's number of each pair.
        after: the second commit's number of each pair.
    """
    pairs = np.array([before, after])
    n = len(before)
    drawn = np.random.default_rng(_SEED).integers(n, size=(_RESAMPLES, n))
    old, new = np.median(pairs[:, drawn], axis=-1)
    low, high = np.quantile(new / old, [0.025, 0.975])
    old, new = np.median(pairs, axis=-1)
    return Ratio(float(new / old), float(low), float(high))


Measured = Mapping[str, float]


def turns(where: Path, asked: Mapping[str, Any]) -> Iterator[Measured]:
    """Train in a fresh process; yield what it has measured whenever it waits.

    Args:
        where: path of the checkout or the interpreter.
        asked: argument of `benchmarks/one_training.py`, for a measurement.
    Raises:
        ClickException: the training failed.
    """
    command, environment = training(where, asked)
    pipe = subprocess.PIPE
    with (
        tempfile.TemporaryDirectory() as elsewhere,
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command,
            stdin=pipe,
            stdout=pipe,
            stderr=errors,
            text=True,
            cwd=elsewhere,
            env=environment,
        ) as process,
    ):
        assert process.stdin is not None and process.stdout is not None
        try:
            for line in process.stdout:
                if "seconds" in (measured := json.loads(line)):
                    yield measured
                    process.stdin.write("\n")
                    process.stdin.flush()
        except BaseException:  # also if the consumer stops
            process.terminate()
            raise
        if process.wait():
            errors.seek(0)
            raise click.ClickException(f"A run failed:\n{errors.read()[-2000:]}")


def measure(
    before: Path, after: Path, work: str, mode: str, pairs: int
) -> Iterator[tuple[Measured, Measured]]:
    """Train a work with both commits; yield the measurements of each pair.

    Both runs of a pair have the same seed, which differs between pairs. In one process
    they take turns of half a second, so that what slows the machine slows both; on Ray
    one runs after the other.
    """
    agent, settings, between = SPEED_WORKS[work]
    takes_turns = "local" in MODES[mode]
    asked = {"agent": agent, "between": between}
    if takes_turns:
        asked["turn"] = _TURN
    for number in range(pairs):
        own = {**settings, **MODES[mode], "quiet": True, "seed": number}
        # Every run needs an end; the measurement ends it earlier.
        own["max_steps"] = 2 * between[1]
        # Alternate which commit runs first.
        order = 1 - 2 * (number % 2)
        with tempfile.TemporaryDirectory() as folder:
            runs = [
                turns(where, {**asked, "settings": {**own, "run_dir": f"{folder}/{i}"}})
                for i, where in enumerate((before, after)[::order])
            ]
            # zip_longest lets one run take a turn, then the other.
            taken = zip(*zip_longest(*runs), strict=True) if takes_turns else runs
            measured = [[x for x in each if x is not None] for each in taken]
        pair = [
            {name: last[name] - first[name] for name in first}
            for first, *_, last in measured
        ]
        first, second = pair[::order]
        yield first, second


def ratios(pairs: Sequence[tuple[Measured, Measured]]) -> dict[str, Ratio]:
    """Return the ratios of CPU seconds per env step and of env steps per second."""
    runs = [*zip(*pairs, strict=True)]
    costs = [[run["cpu_seconds"] / run["env_steps"] for run in each] for each in runs]
    speeds = [[run["env_steps"] / run["seconds"] for run in each] for each in runs]
    return {"cpu_per_step": ratio(*costs), "steps_per_second": ratio(*speeds)}


@click.command()
@checkouts
@click.option("--pairs", type=click.IntRange(min=1), default=15, show_default=True)
@click.option(
    "--work",
    "works",
    type=click.Choice(list(SPEED_WORKS)),
    multiple=True,
    help="What to train; repeatable. Default: all.",
)
@click.option(
    "--mode",
    type=click.Choice(list(MODES)),
    default="local",
    show_default=True,
    help="Where.",
)
@click.option(
    "--json",
    "file",
    type=click.File("w", encoding="utf-8", lazy=False),
    help="Write the commits, the settings, the ratios and every run's numbers here.",
)
def same_speed(
    before: Path,
    after: Path,
    pairs: int,
    works: Sequence[str],
    mode: str,
    file: TextIO | None,
) -> None:
    """CPU time and speed of one commit divided by those of another.

    Each is a checkout, or the interpreter of an environment that has it installed. Runs
    alternate, in turns of half a second or as a whole on Ray, start-up and the first
    learning phase are left out, and numbers are ratios of medians with 95 % intervals.
    """
    both = before, after
    # Of an interpreter, the commit isn't known.
    names = [clean_commit(x) if x.is_dir() and file else None for x in both]
    rows = [["work", "mode", "pairs", "CPU seconds per env step", "env steps/s"]]
    report: dict[str, Any] = {}
    for work in works or SPEED_WORKS:
        done = []
        for number, pair in enumerate(measure(before, after, work, mode, pairs), 1):
            done.append(pair)
            click.echo(f"{work} {number}/{pairs}", err=True)
        found = ratios(done)
        rows.append([work, mode, str(pairs), *map(str, found.values())])
        report[work] = {name: each._asdict() for name, each in found.items()}
        agent, settings, between = SPEED_WORKS[work]
        report[work] |= {"commits": names, "agent": agent, "settings": settings}
        report[work] |= {"between": between, "mode": mode, "pairs": done}
    click.echo(markdown(rows))
    if file is not None:
        json.dump(report, file, indent=1)
        file.write("\n")
