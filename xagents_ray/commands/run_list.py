"""The command `runs`: lists, shows, compares and deletes runs."""

import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import numpy as np

from xagents_ray.commands.cli import CONTEXT, HELP, CommandGroup
from xagents_ray.commands.flags import Command
from xagents_ray.commands.runs import run_facts
from xagents_ray.commands.tables import console_of, print_table
from xagents_ray.core.errors import UserError, pluralize, printable
from xagents_ray.settings.paths import local_path
from xagents_ray.settings.run import RunConfig
from xagents_ray.storage.history import read_history
from xagents_ray.storage.lock import is_locked
from xagents_ray.storage.run_directory import (
    RunDirectory,
    locate_run,
    run_directories,
)

_BARS = "▁▂▃▄▅▆▇█"
_POINTS = 12
"""Number of bars of a run's curve."""
_WIDE = 100
"""Width of a terminal, in characters, from which runs are shown as a table."""
_UNITS = {"d": 86_400, "h": 3_600, "min": 60}
_RESULTS = ("env_steps", "mean_reward", "best_reward", "best_evaluation", "seconds")


@click.group(
    "runs",
    cls=CommandGroup,
    help=HELP["runs"],
    invoke_without_command=True,
    context_settings=CONTEXT,
)
@click.option("--run-dir", default=RunConfig.run_dir, help="Directory of runs. [runs]")
@click.pass_context
def runs_group(ctx: click.Context, run_dir: str) -> None:
    ctx.obj = local_path("--run-dir", run_dir)
    if ctx.invoked_subcommand is None:
        _list(Path(ctx.obj))


@runs_group.command("show", cls=Command, context_settings=CONTEXT)
@click.argument("run", default="last")
@click.pass_obj
def show_run(run_dir: str, run: str) -> None:
    """Show a run's settings and results."""
    directory = _find(run, run_dir)
    agent, settings = directory.settings()
    facts = {
        **run_facts(directory),
        "state": _state(directory),
        "curve": _curve(directory),
    }
    given = {name: value for name, value in settings.items() if value is not None}
    for name, value in {**facts, "agent": agent, **given}.items():
        if value is not None:
            click.echo(printable(f"{name}: {_text(value)}"))


@runs_group.command("diff", cls=Command, context_settings=CONTEXT)
@click.argument("run")
@click.argument("other")
@click.pass_obj
def compare_runs(run_dir: str, run: str, other: str) -> None:
    """Show the settings in which two runs differ, and their results."""
    both = [_find(each, run_dir) for each in (run, other)]
    settings = (each.settings() for each in both)
    stored = [{"agent": agent, **values} for agent, values in settings]
    results = [run_facts(each) for each in both]
    names = [n for n in {**stored[0], **stored[1]} if _differ(stored, n)]
    rows = [(n, *(_text(each.get(n)) for each in stored)) for n in names]
    rows += [(n, *(_text(each[n]) for each in results)) for n in _RESULTS]
    print_table(("", *(each.path.name for each in both)), rows, wrapped=(1, 2))


@runs_group.command("rm", cls=Command, context_settings=CONTEXT)
@click.argument("runs", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Delete without asking.")
@click.pass_obj
def delete_runs(run_dir: str, runs: Sequence[str], yes: bool) -> None:
    """Delete runs with all their files."""
    named = (_find(each, run_dir, takes_checkpoints=False) for each in runs)
    found = {each.path.resolve(): each for each in named}.values()  # each once
    for each in found:
        if is_locked(each.path):
            raise UserError(f"{each.path} is being trained: end it first.")
        if each.path.is_symlink():
            raise UserError(f"{each.path} is a link: delete it with rm.")
    if not yes and not sys.stdin.isatty():
        raise UserError(
            "runs rm asks before it deletes: add --yes, as nobody can answer."
        )
    many = pluralize(len(found), "run")
    names = "\n".join(printable(str(each.path)) for each in found)
    if yes or click.confirm(f"{names}\nDelete {many}?"):
        for each in found:
            _delete(each.path)
        click.echo(f"Deleted {many}")


def _list(folder: Path) -> None:
    if not folder.is_dir():
        raise UserError(
            f"{folder} is no directory, so it has no runs: name another --run-dir."
        )
    found = [(each, run_facts(each)) for each in run_directories(folder)]
    found.sort(key=lambda each: _started(each[1]))
    rows = [_row(run, facts, folder) for run, facts in found]
    if not rows:
        raise UserError(f"There is no run in {folder}: name another --run-dir.")
    if console_of().width >= _WIDE:
        columns = "agent", "environment", "name", "steps", "mean", "curve", "state"
        print_table((*columns, "begun"), rows, wrapped=(1, 2))
        return
    for agent, env, name, steps, mean, _, state, age in rows:
        click.echo(printable(f"{name}\n  {agent}, {env}, {state}, {age} ago"))
        click.echo(printable(f"  {steps} steps, mean {mean}"))


def _row(
    directory: RunDirectory, facts: Mapping[str, Any], folder: Path
) -> tuple[str, ...]:
    path = directory.path
    above = Path(str(facts["agent"]), str(facts["env"]))
    name = path.name if path.parent == folder / above else path.relative_to(folder)
    return (
        str(facts["agent"] or "?"),
        str(facts["env"] or "?"),
        str(name),
        _number(facts["env_steps"], ","),
        _number(facts["mean_reward"], ",.2f"),
        _curve(directory),
        _state(directory),
        _age(time.time() - _started(facts)),
    )


def _find(named: str, run_dir: str, takes_checkpoints: bool = True) -> RunDirectory:
    """Return a run by its directory, by its path below the run directory, or `last`."""
    below = Path(run_dir) / named
    if named != "last" and not Path(named).is_dir() and below.is_dir():
        named = str(below)
    directory, checkpoint = locate_run("runs", named, run_dir, None)
    if checkpoint is not None and not takes_checkpoints:
        raise UserError(
            f"{checkpoint} is a checkpoint of {directory.path}: name that run to "
            "delete all of it, or delete the checkpoint alone with rm -r."
        )
    directory.settings()  # else it is no run
    return directory


def _differ(stored: Sequence[Mapping[str, Any]], name: str) -> bool:
    one, other = (each.get(name) for each in stored)
    return bool(one != other)


def _state(directory: RunDirectory) -> str:
    """Return how a run ended, or that it has not."""
    if is_locked(directory.path):
        return "training"
    summary: Mapping[str, Any] = {}
    with suppress(UserError):  # of a newer version
        summary = directory.summary()
    if not summary:
        return "killed"
    if summary.get("completed"):
        return "completed"
    return "failed" if summary.get("signal") is None else "stopped"


def _curve(directory: RunDirectory) -> str:
    """Return the mean reward over the episodes as bars; "" without a history."""
    try:
        rewards = read_history(directory.history)["mean_reward"]
    except UserError:
        return ""
    rewards = rewards[np.isfinite(rewards)]
    if not len(rewards):
        return ""
    parts = np.array_split(rewards, min(_POINTS, len(rewards)))
    means = np.array([part.mean() for part in parts])
    span = float(np.ptp(means)) or 1.0
    levels = (means - means.min()) / span * (len(_BARS) - 1)
    return "".join(_BARS[round(level)] for level in levels.tolist())


def _started(facts: Mapping[str, Any]) -> float:
    """Return the time of a run's first start, in seconds since 1970; 0 if unknown."""
    try:
        return datetime.fromisoformat(str(facts["started"])).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _number(value: Any, form: str) -> str:
    """Return a number of a file as text; "-" for anything else."""
    return format(value, form) if isinstance(value, int | float) else "-"


def _age(seconds: float) -> str:
    for unit, length in _UNITS.items():
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return (
        f"{value:,.2f}" if isinstance(value, float) and abs(value) >= 1 else str(value)
    )


def _delete(path: Path) -> None:
    try:
        shutil.rmtree(path)
    except OSError as error:
        raise UserError(
            f"{path} can't be deleted whole ({error.strerror}): delete the rest."
        ) from None
