"""Measurements in processes of their own."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).resolve().parent.parent
"""Of the checkout."""


def module(name: str, asked: Mapping[str, Any] | str) -> list[str]:
    """Return the command of a module of the benchmarks that takes JSON."""
    return [sys.executable, "-m", f"benchmarks.{name}", json.dumps(asked)]


def in_fresh_process(
    command: Sequence[str],
    folder: Path = ROOT,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run a command; return the JSON of its last line.

    Args:
        command: the program and its arguments.
        folder: the working directory; default: the checkout.
        environment: all environment variables of the process; default: those of this
            process.

    Raises:
        ClickException: it failed.
    """
    pipe = subprocess.PIPE
    # Left by Ctrl-C, this lets the run, which receives it too, end Ray in order.
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, cwd=folder, env=environment
    ) as process:
        try:
            output, errors = process.communicate()
        except SystemExit:  # SIGTERM, which only this process has received
            process.terminate()
            raise
    if process.returncode:
        raise click.ClickException(
            f"A run failed: {' '.join(command)}\n{errors[-2000:].strip()}"
        )
    answer: dict[str, Any] = json.loads(output.splitlines()[-1])
    return answer
