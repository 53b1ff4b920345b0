"""The command `xagents-ray doctor`."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.commands.doctor.checks import Check
from xagents_ray.commands.doctor.examination import examine_run
from xagents_ray.commands.doctor.this_machine import examine_machine
from xagents_ray.commands.tables import print_list, print_table


def run_doctor(
    algorithm: Algorithm, values: Mapping[str, Any], with_traceback: bool
) -> bool:
    """Print the checks for the given settings; return whether training would start."""
    rows = examine_run(algorithm, values)
    for row in rows:
        if with_traceback and row.trace:
            click.echo(f"{row.trace}\n", err=True)
    return _print_checks(rows)


def run_machine_doctor() -> bool:
    """Print the checks of this machine; return whether training could start."""
    fine = _print_checks([*examine_machine()])
    click.echo("xagents-ray doctor AGENT --env ENV … checks a run: doctor --help.")
    return fine


def _print_checks(rows: Sequence[Check]) -> bool:
    cells = [(row.name, row.verdict, row.found) for row in rows]
    print_table(("check", "verdict", "found"), cells, wrapped=[2])
    remedies = [f"{row.name}: {row.remedy}" for row in rows if row.remedy]
    if remedies:
        print_list("\nWhat to change:", remedies)
    else:
        click.echo("\nNothing to change.")
    return all(row.verdict != "error" for row in rows)
