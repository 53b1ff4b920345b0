"""Measures how long a command takes until it steps and learns, and which part of it."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click
from gymnasium.envs.classic_control import CartPoleEnv

from benchmarks.one_start import PARTS
from benchmarks.subprocesses import ROOT, in_fresh_process, module

_FILE = "BENCHMARKS_FIRST_STEP"
"""Environment variable with the directory for the times of first steps."""
_MODES: dict[str, Sequence[str]] = {"local": ("--local",), "ray": ()}
EVENTS = "first line", "table", "first env step", "first learning", "whole command"
"""What a command reaches, in this order."""
_TABLE = "time: "
"""Start of the lines of the table, which shows 0 env steps and then each phase."""


class FirstStep(CartPoleEnv):
    """CartPole that records the time of its first step."""

    _has_stepped = False

    def step(self, action: Any) -> Any:
        """Write the time, if it is the first step; step."""
        if not self._has_stepped and _FILE in os.environ:
            self._has_stepped = True
            path = Path(os.environ[_FILE], f"{os.getpid()}-{id(self)}")
            path.write_text(str(time.time()), encoding="utf-8")
        return super().step(action)  # type: ignore[no-untyped-call]


def measure(agent: str, runs: int) -> list[list[str]]:
    """Run the command in each mode in turn; return a table row per mode.

    The agent has to learn from each round, as the command ends after the first.
    """
    spans: dict[str, list[Sequence[float]]] = {mode: [] for mode in _MODES}
    for number in range(1, runs + 1):
        for mode, found in spans.items():
            found.append(_start(agent, _MODES[mode]))
            click.echo(f"{mode} {number}/{runs}: {found[-1][-2]:.1f} s", err=True)
    return [
        [mode, *map(_cell, zip(*found, strict=True))] for mode, found in spans.items()
    ]


def measure_parts(agent: str, runs: int) -> list[list[str]]:
    """Run the command with --local; return a table row per part of it.

    A row has the part's seconds and those of CPU, which other work on the machine
    delays less.
    """
    found = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            words = [*_command(agent, folder), "--local"]
            found.append(in_fresh_process(module("one_start", words)))
    return [
        [part, *(_cell([each[part][i] for each in found]) for i in range(2))]
        for part in PARTS
    ]


def _command(agent: str, run_dir: str) -> list[str]:
    env = f"{__name__}:FirstStep"
    return ["train", agent, "--env", env, "--max-steps", "1", "--run-dir", run_dir]


def _start(agent: str, flags: Sequence[str]) -> list[float]:
    """Return the seconds from a command to each of `EVENTS`."""
    with tempfile.TemporaryDirectory() as runs, tempfile.TemporaryDirectory() as times:
        command = [sys.executable, "-u", "-m", "xagents_ray", *_command(agent, runs)]
        began = time.time()
        with subprocess.Popen(
            [*command, *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            env={**os.environ, _FILE: times},
        ) as process:
            assert process.stdout is not None
            lines = [(time.time(), line) for line in process.stdout]
        if process.returncode:
            raise click.ClickException("".join(line for _, line in lines)[-2000:])
        paths = Path(times).iterdir()
        stepped = min(float(path.read_text(encoding="utf-8")) for path in paths)
        return [at - began for at in (*_reached(lines, stepped), time.time())]


def _reached(lines: Iterable[tuple[float, str]], stepped: float) -> list[float]:
    """Return the times of the first four of `EVENTS`.

    Args:
        lines: time and text of each line that the command printed.
        stepped: the time of the first env step.
    """
    every = list(lines)
    table = [at for at, line in every if line.startswith(_TABLE)]
    if len(table) < 2:
        raise click.ClickException("The agent didn't learn from its first round.")
    return [every[0][0], table[0], stepped, table[1]]


def _cell(seconds: Sequence[float]) -> str:
    median = statistics.median(seconds)
    return f"{median:.1f} ({min(seconds):.1f}–{max(seconds):.1f})"
