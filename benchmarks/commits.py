"""Checks whether two commits produce the same numbers in training.

`python -m benchmarks same-numbers BEFORE AFTER` takes two checkouts, or interpreters of
environments in which the commits are installed. It only uses the public API and the
files of a run, so the commits' modules may have different names.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from pyarrow import parquet

from benchmarks.subprocesses import ROOT, in_fresh_process
from benchmarks.works import PONG, Settings
from xagents_ray.core.errors import UserError

_SHARED = {"n_envs": 4, "max_steps": 2_000, "seed": 7, "quiet": True, "name": "run"}
_CARTPOLE = {"env": "CartPole-v1"}
_PENDULUM = {"env": "Pendulum-v1"}
_REPLAY = {"buffer_initial_size": 500, "train_frequency": 4}
_FRAMES = {**PONG, "max_steps": 400, "n_envs": 2}
_GOALS = {"env": "goal_envs:PointReach", "her": "future"}

WORKS: Mapping[str, tuple[str, Settings]] = {
    "a2c-cartpole": ("a2c", _CARTPOLE),
    "a2c-pendulum": ("a2c", _PENDULUM),
    # A given policy lag makes them synchronous on Ray, and thus reproducible.
    "a3c-cartpole": ("a3c", {**_CARTPOLE, "policy_lag": 0}),
    "acer-cartpole": ("acer", {**_CARTPOLE, "buffer_initial_size": 10}),
    "ddpg-pendulum": ("ddpg", {**_PENDULUM, **_REPLAY}),
    "dqn-cartpole": ("dqn", {**_CARTPOLE, **_REPLAY}),
    "dqn-lag-1": ("dqn", {**_CARTPOLE, **_REPLAY, "policy_lag": 1}),
    "dqn-pong": (
        "dqn",
        {**_FRAMES, "buffer_initial_size": 200, "buffer_max_size": 400},
    ),
    "dqn-prioritized": (
        "dqn",
        {**_CARTPOLE, **_REPLAY, "prioritized": True, "n_step": 3},
    ),
    "impala-cartpole": ("impala", {**_CARTPOLE, "policy_lag": 0}),
    "ppo-cartpole": ("ppo", _CARTPOLE),
    "ppo-lag-1": ("ppo", {**_CARTPOLE, "policy_lag": 1}),
    "ppo-multidiscrete": ("ppo", {"env": "several:discrete"}),
    "ppo-normalized": (
        "ppo",
        {**_PENDULUM, "normalize_observations": True, "normalize_rewards": True},
    ),
    "ppo-pendulum": ("ppo", _PENDULUM),
    "ppo-pong": ("ppo", {**_FRAMES, "n_steps": 64}),
    "sac-her": ("sac", {**_GOALS, **_REPLAY}),
    "sac-pendulum": ("sac", {**_PENDULUM, **_REPLAY}),
    "td3-pendulum": ("td3", {**_PENDULUM, **_REPLAY}),
    "trpo-cartpole": ("trpo", {**_CARTPOLE, "n_steps": 128}),
    "trpo-pendulum": ("trpo", {**_PENDULUM, "n_steps": 128}),
}
"""Agent and settings of each training to compare."""

MODES: Mapping[str, Settings] = {"local": {"local": True}, "ray": {"n_actors": 1}}
"""Settings for training in-process, and on Ray with one env actor."""


class Comparison(NamedTuple):
    """One training with both commits.

    Attributes:
        work: name of the work in `WORKS`.
        mode: name of the mode in `MODES`.
        episodes: number of finished episodes with the first commit.
        updates: number of gradient steps with the first commit.
        differences: names of the values that differ; empty if none do.
    """

    work: str
    mode: str
    episodes: int
    updates: int
    differences: tuple[str, ...]


def compare(
    before: Path, after: Path, works: Sequence[str], modes: Sequence[str]
) -> Iterator[Comparison]:
    """Train each work in each mode with both commits; yield the comparisons."""
    # In parallel, as a training uses hardly more than one core.
    with ThreadPoolExecutor(2) as pool:
        for work in works:
            for mode in modes:
                first, second = pool.map(
                    lambda where, work=work, mode=mode: _learned(where, work, mode),
                    (before, after),
                )
                yield Comparison(
                    work,
                    mode,
                    len(first["episodes"]),
                    int(first["updates"]),
                    _differences(first, second),
                )


def _learned(where: Path, work: str, mode: str) -> dict[str, Any]:
    """Train a work; return its episodes, metrics and newest checkpoint by name."""
    agent, own = WORKS[work]
    with tempfile.TemporaryDirectory() as runs:
        settings = {**_SHARED, **own, **MODES[mode], "run_dir": runs}
        metrics = train(where, {"agent": agent, "settings": settings})["metrics"]
        (run,) = Path(runs).glob("*/*/run")
        history = run / "history.parquet"  # missing if no episode ended
        columns = parquet.read_table(history).to_pydict() if history.exists() else {}
        newest = max((run / "checkpoints").iterdir())
        with np.load(newest / "arrays.npz") as file:
            arrays = dict(file)
    if len(metrics) < 2:
        raise click.ClickException(f"{work} has {len(metrics)} learning phases.")
    return {
        "episodes": [
            *zip(
                columns.get("step", ()), columns.get("episode_reward", ()), strict=True
            )
        ],
        "updates": metrics[-1]["updates"],
        **_by_name(metrics),
        **arrays,
    }


def _by_name(metrics: Sequence[Mapping[str, float]]) -> dict[str, list[str]]:
    """Return the metrics of learning phases by `metric NAME`.

    They are strings, in which NaN equals NaN.
    """
    names = {name for each in metrics for name in each}
    return {
        f"metric {name}": [str(each.get(name)) for each in metrics] for name in names
    }


def train(where: Path, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Train in a fresh process with a checkout or an interpreter; return its report.

    Args:
        where: path of the checkout or the interpreter.
        asked: argument of `benchmarks/one_training.py`.
    """
    with tempfile.TemporaryDirectory() as elsewhere:
        command, environment = training(where, asked)
        return in_fresh_process(command, Path(elsewhere), environment)


def training(where: Path, asked: Mapping[str, Any]) -> tuple[list[str], dict[str, str]]:
    """Return the command and the environment variables of a training.

    Args:
        where: path of the checkout or the interpreter.
        asked: argument of `benchmarks/one_training.py`.
    """
    # The works' environments, at the end of the path.
    paths = [str(ROOT / "tests" / "support")]
    python = str(where)
    if where.is_dir():
        if not (where / "xagents_ray").is_dir():
            raise UserError(f"{where} is no checkout: it has no folder xagents_ray.")
        paths.insert(0, python)
        python = sys.executable
    source = (ROOT / "benchmarks" / "one_training.py").read_text(encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return [python, "-c", source, json.dumps(asked)], environment


def _differences(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> tuple[str, ...]:
    found = [f"only in one: {name}" for name in sorted(before.keys() ^ after.keys())]
    for name in sorted(before.keys() & after.keys()):
        old, new = before[name], after[name]
        if isinstance(old, np.ndarray):
            is_float = old.dtype.kind == "f"
            same = old.dtype == new.dtype
            same = same and np.array_equal(old, new, equal_nan=is_float)
        else:
            same = old == new
        if not same:
            found.append(name)
    return tuple(found)


def checkouts(command: Callable[..., None]) -> Callable[..., None]:
    """Add the arguments `before` and `after` to a command."""

    def absolute(context: click.Context, option: click.Parameter, given: Path) -> Path:
        return given.absolute()  # not resolve(): venv interpreters are symbolic links

    where = click.Path(exists=True, path_type=Path)
    for name in ("after", "before"):
        command = click.argument(name, type=where, callback=absolute)(command)
    return command


@click.command()
@checkouts
@click.option(
    "--work",
    "works",
    type=click.Choice(list(WORKS)),
    multiple=True,
    help="What to train; repeatable. Default: all.",
)
@click.option(
    "--mode",
    "modes",
    type=click.Choice(list(MODES)),
    multiple=True,
    help="Where; repeatable. Default: both.",
)
def same_numbers(
    before: Path, after: Path, works: Sequence[str], modes: Sequence[str]
) -> None:
    """Whether two commits train to the same numbers.

    Each is a checkout, or the interpreter of an environment that has it installed. The
    exit code is 1 if any number differs.
    """
    differ = False
    click.echo("| work | mode | episodes | updates | after |\n" + 5 * "|---" + "|")
    for each in compare(before, after, works or list(WORKS), modes or list(MODES)):
        differ |= bool(each.differences)
        verdict = ", ".join(each.differences) or "the same"
        cells = each.work, each.mode, str(each.episodes), str(each.updates), verdict
        click.echo(f"| {' | '.join(cells)} |")
    sys.exit(int(differ))
