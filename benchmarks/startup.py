"""Measures the time from a command to its first env step."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from gymnasium.envs.classic_control import CartPoleEnv

from benchmarks.subprocesses import ROOT

_FILE = "BENCHMARKS_FIRST_STEP"
"""Environment variable with the directory for the times of first steps."""
_MODES: dict[str, Sequence[str]] = {"local": ("--local",), "ray": ()}


class FirstStep(CartPoleEnv):
    """CartPole that records the time of its first step."""

    _has_stepped = False

    def step(self, action: Any) -> Any:
        """Write the time, if it is the first step; step."""
        if not self._has_stepped:
            self._has_stepped = True
            path = Path(os.environ[_FILE], f"{os.getpid()}-{id(self)}")
            path.write_text(str(time.time()), encoding="utf-8")
        return super().step(action)  # type: ignore[no-untyped-call]


def measure(agent: str, runs: int) -> list[list[str]]:
    """Run the command in each mode in turn; return a table row per mode."""
    spans: dict[str, list[tuple[float, float]]] = {mode: [] for mode in _MODES}
    for number in range(1, runs + 1):
        for mode, found in spans.items():
            found.append(_start(agent, _MODES[mode]))
            click.echo(f"{mode} {number}/{runs}: {found[-1][0]:.1f} s", err=True)
    return [
        [mode, *map(_cell, zip(*found, strict=True))] for mode, found in spans.items()
    ]


def _start(agent: str, flags: Sequence[str]) -> tuple[float, float]:
    """Return the seconds from a command to its first env step, and to its end."""
    command = [sys.executable, "-m", "xagents_ray", "train", agent, *flags]
    command += ["--env", f"{__name__}:FirstStep", "--max-steps", "1", "--quiet"]
    with tempfile.TemporaryDirectory() as runs, tempfile.TemporaryDirectory() as times:
        began = time.time()
        done = subprocess.run(
            [*command, "--run-dir", runs],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, _FILE: times},
        )
        ended = time.time()
        if done.returncode:
            raise click.ClickException(done.stderr[-2000:].strip())
        first = [
            float(path.read_text(encoding="utf-8")) for path in Path(times).iterdir()
        ]
    return min(first) - began, ended - began


def _cell(seconds: Sequence[float]) -> str:
    median = statistics.median(seconds)
    return f"{median:.1f} ({min(seconds):.1f}–{max(seconds):.1f})"
