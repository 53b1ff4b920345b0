"""What several learners pay for their sums: `python -m benchmarks sums`."""

import json
import math
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from benchmarks.report import ran_on, write
from benchmarks.subprocesses import ROOT, module

_SIZES = (100_000, 1_700_000, 20_000_000)


@click.command("sums")
@click.option("--learners", type=click.IntRange(min=2), default=2, show_default=True)
@click.option("--rows", type=click.IntRange(min=1), default=2_048, show_default=True)
@click.option("--json", "file", type=click.Path(path_type=Path))
def sums(learners: int, rows: int, file: Path | None) -> None:
    """Time of the sum of gradients over learners, and of the update that it is in.

    The networks have three dense layers; learners share the rows of an update, and each
    has one thread. All are medians of the first learner.
    """
    found = []
    for parameters in _SIZES:
        asked = {"width": round(math.sqrt(parameters / 2)), "rows": rows}
        alone, shared = _together(1, asked), _together(learners, asked)
        found.append({**shared, "alone_ms": alone["update_ms"]})
        click.echo(
            f"{shared['parameters']:>12,} parameters: {shared['sum_ms']:.2f} ms of an "
            f"update's {shared['update_ms']:.2f} ms "
            f"({shared['sum_ms'] / shared['update_ms']:.0%}); with one learner "
            f"{alone['update_ms']:.2f} ms"
        )
    if file is not None:
        write(file, {**ran_on(), "learners": learners, "rows": rows, "sums": found})


def _together(learners: int, asked: dict[str, Any]) -> dict[str, Any]:
    """Measure with some learners at the same time; return what the first one found."""
    with ExitStack() as held:
        found = [held.enter_context(socket.socket()) for _ in range(learners)]
        for each in found:
            each.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in found]
    running = [
        subprocess.Popen(
            module("one_sum", {**asked, "rank": rank, "addresses": addresses}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for rank in range(learners)
    ]
    outputs = [each.communicate() for each in running]
    if any(each.returncode for each in running):
        raise click.ClickException(f"A learner failed: {outputs[0][1][-2000:]}")
    answer: dict[str, Any] = json.loads(outputs[0][0].splitlines()[-1])
    return answer
