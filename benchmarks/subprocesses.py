"""Runs measurements in fresh processes."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).resolve().parent.parent
"""Root of the checkout."""


def module(name: str, asked: Mapping[str, Any] | Sequence[str]) -> list[str]:
    """Return the command that runs a module of the benchmarks with a JSON argument."""
    return [sys.executable, "-m", f"benchmarks.{name}", json.dumps(asked)]


def in_fresh_process(
    command: Sequence[str],
    folder: Path = ROOT,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run a command; return the JSON in the last line of its output.

    Args:
        command: program and arguments.
        folder: working directory.
        environment: all environment variables of the process; None for those of this
            process.

    Raises:
        ClickException: the command failed.
    """
    pipe = subprocess.PIPE
    # On Ctrl-C, `Popen` waits for the run, which receives it too and shuts down Ray.
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, cwd=folder, env=environment
    ) as process:
        try:
            output, errors = process.communicate()
        except SystemExit:  # SIGTERM, which only this process receives
            process.terminate()
            raise
    if process.returncode:
        raise click.ClickException(
            f"A run failed: {' '.join(command)}\n{errors[-2000:].strip()}"
        )
    answer: dict[str, Any] = json.loads(output.splitlines()[-1])
    return answer
