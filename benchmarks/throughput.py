"""Training throughput: runs of ours and of another library in turn."""

import dataclasses
import importlib.metadata
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

import xagents_ray
from benchmarks.one_run import Request
from benchmarks.works import ROLLOUT, WORKS
from xagents_ray.core.errors import UserError
from xagents_ray.core.process import cores

_ROOT = Path(__file__).resolve().parent.parent
_OURS = "xagents-ray"
_QUIET = 0.3
"""Load of a machine that has nothing else to do."""
_LIBRARIES = (
    "tensorflow",
    "keras",
    "ray",
    "numpy",
    "gymnasium",
    "ale-py",
    "stable-baselines3",
    "torch",
)


@dataclass(frozen=True)
class Result:
    """Env steps a second of one work.

    Attributes:
        work: its name.
        env_steps: learned from in each run.
        speeds: of every run, by library; ours is the first.
    """

    work: str
    env_steps: int
    speeds: dict[str, list[float]]

    @property
    def ratio(self) -> float | None:
        """Our median divided by the other's; None without another."""
        ours, *others = map(statistics.median, self.speeds.values())
        return ours / others[0] if others else None


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What to measure.

    Attributes:
        vs: the other library; None for ours alone.
        runs: of each library.
        steps: env steps of a run; None for what the work says.
        sb3_vec: `dummy` or `subproc`.
        sb3_threads: of PyTorch; None for its default.
        load: runnable processes a moment ago, before the first run.
    """

    vs: str | None
    runs: int
    steps: int | None
    sb3_vec: str
    sb3_threads: int | None
    load: float = field(default_factory=lambda: round(os.getloadavg()[0], 2))

    def check(self) -> None:
        """Raise UserError when the other library is not there; warn of other load."""
        wanted = ("stable_baselines3", "torch") if self.vs == "sb3" else ()
        if not all(map(importlib.util.find_spec, wanted)):
            raise UserError(
                "--vs sb3 needs Stable-Baselines3: pip install 'xagents-ray[bench]'."
            )
        if self.load > _QUIET:
            click.echo(
                f"This machine is busy (load {self.load}): numbers will be low, and "
                "PyTorch's the lowest, for its threads wait for each other.",
                err=True,
            )

    def measure(self, work: str) -> Result:
        """Run a work on each library in turn, as often as asked."""
        rollouts = WORKS[work].rollouts
        if self.steps is not None:
            rollouts = -(-self.steps // ROLLOUT)
        steps = rollouts * ROLLOUT
        speeds: dict[str, list[float]] = {_OURS: []}
        if self.vs is not None:
            speeds[self.vs] = []
        for number in range(1, self.runs + 1):
            for library, done in speeds.items():
                request = Request(library, work, steps, self.sb3_vec, self.sb3_threads)
                done.append(_run(request))
                line = f"{work} {library} {number}/{self.runs}: {done[-1]:,.0f} steps/s"
                click.echo(line, err=True)
        return Result(work, steps, speeds)


def _run(request: Request) -> float:
    """Do a run in a fresh interpreter."""
    asked = json.dumps(dataclasses.asdict(request))
    command = [sys.executable, "-m", "benchmarks.one_run", asked]
    pipe = subprocess.PIPE
    # Left by Ctrl-C, this lets the run, which receives it too, end Ray in order.
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, cwd=_ROOT
    ) as process:
        output, errors = process.communicate()
    if process.returncode:
        raise click.ClickException(f"A run failed: {asked}\n{errors[-2000:].strip()}")
    return float(json.loads(output.splitlines()[-1])["steps_per_second"])


def print_table(results: Sequence[Result]) -> None:
    """Print medians, spreads and their ratio."""
    table = Table(box=MARKDOWN)
    table.add_column("work")
    for library in results[0].speeds:
        table.add_column(f"{library}, steps/s (min–max)", justify="right")
    table.add_column("ratio", justify="right")
    for result in results:
        cells = map(_cell, result.speeds.values())
        ratio = "-" if result.ratio is None else f"{result.ratio:.2f}"
        table.add_row(result.work, *cells, ratio)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 120
    console.print(table)


def _cell(speeds: Sequence[float]) -> str:
    median = statistics.median(speeds)
    return f"{median:,.0f} ({min(speeds):,.0f}–{max(speeds):,.0f})"


def report(bench: Bench, results: Sequence[Result]) -> dict[str, Any]:
    """Return all numbers and what they were measured on."""
    return {
        "bench": dataclasses.asdict(bench),
        "commit": _commit(),
        "machine": {
            "system": platform.system(),
            "architecture": platform.machine(),
            "cores": cores(),
            "memory_gib": _memory_gib(),
        },
        "versions": _versions(),
        "results": [dataclasses.asdict(r) | {"ratio": r.ratio} for r in results],
    }


def _commit() -> str | None:
    command = ["git", "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=_ROOT)
    except OSError:
        return None
    return done.stdout.strip() or None


def _memory_gib() -> float:
    bytes_ = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return round(bytes_ / 2**30, 1)


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), _OURS: xagents_ray.__version__}
    for name in _LIBRARIES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions
