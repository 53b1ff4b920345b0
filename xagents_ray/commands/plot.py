"""Plots of training histories."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xagents_ray.commands.curves import (
    Curve,
    check_choice,
    middle_of,
    read_curve,
    runs_below,
)
from xagents_ray.core.errors import UserError
from xagents_ray.core.files import output_file
from xagents_ray.settings.paths import local_path, local_paths
from xagents_ray.settings.run import RunConfig
from xagents_ray.storage.run_directory import RunDirectory, locate_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BENCHMARKS = ("step", "time")
TIME_UNITS = {"second": 1, "minute": 60, "hour": 3_600}
SUFFIXES = (".png", ".svg", ".pdf")
# Curves with at most this many points get markers, so that a single point is visible.
_FEW = 50
# Okabe and Ito's color-blind-safe palette.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_LINES = ("-", "--", "-.", ":")


def plot_history(
    paths: Sequence[str | Path],
    agents: Sequence[str] | None = None,
    env: str | None = None,
    plot: str = "mean_reward",
    benchmark: str = "step",
    history_interval: int = 1,
    time_unit: str | None = None,
    smoothing: int = 1,
    output: str | Path | None = None,
    run_dir: str | Path | None = None,
) -> Figure:
    """Draw one curve per history, without a display.

    Args:
        paths: histories, which are parquet files or directories of them, or directories
            of runs; `last` is the run in `run_dir` that was started or resumed last.
            Runs below a directory of several are one curve: their interquartile mean.
        agents: a label for each history; None for labels from the file names.
        env: title of the figure; None for the agent and environment of the runs.
        plot: column to draw, which may be one of your own (`RunContext.log`); rows
            without a value are left out.
        benchmark: "step" for env steps, "time" for seconds, minutes or hours.
        history_interval: interval of the drawn episodes; the last one is always drawn.
        time_unit: "second", "minute" or "hour"; None for a suitable one.
        smoothing: window of the trailing mean, in episodes.
        output: .png, .svg or .pdf file to write; missing parents are created.
        run_dir: directory of runs, for `last`; None for `runs`.
    Returns:
        The matplotlib Figure; a notebook shows it as the value of a cell.
    Raises:
        UserError: a history cannot be read or has no such values, the number of
            labels differs, or `output` cannot be written.

    >>> figure = xagents_ray.plot("runs/ppo/CartPole-v1/first", output="first.png")
    """
    groups = _grouped(paths, run_dir)
    _check(groups, agents, plot, benchmark, output)
    _check_numbers(history_interval, time_unit, smoothing)
    read = partial(read_curve, interval=history_interval, smoothing=smoothing)
    curves = [middle_of([read(p, plot, benchmark) for p in paths]) for paths in groups]
    labels = _labels(groups) if agents is None else agents
    figure = _figure(curves, labels, env or _title(groups), plot, benchmark, time_unit)
    _save(figure, output)
    return figure


def plot_seeds(
    runs: str | Path | Sequence[str | Path],
    env: str | None = None,
    output: str | Path | None = None,
) -> Figure:
    """Draw the mean rewards of runs with several seeds as one curve with a band.

    The curve is the interquartile mean over seeds, and the band is its 95 % bootstrap
    interval, up to the env step that all runs have reached.

    Args:
        runs: the directory of a `SeedsResult`, or the runs' histories.
        env: title of the figure.
        output: .png, .svg or .pdf file to write; missing parents are created.
    Returns:
        The matplotlib Figure; a notebook shows it as the value of a cell.
    Raises:
        UserError: a history cannot be read, or `output` cannot be written.

    >>> figure = xagents_ray.plot_seeds("runs/seeds/a", output="seeds.png")
    """
    if isinstance(runs, str | Path):
        folder = Path(local_path("plot_seeds", runs))
        runs = sorted(folder.glob("*/*/seed-*/history.parquet"))
    elif not isinstance(runs, Sequence):
        raise UserError(
            f"plot_seeds takes a directory or histories, got {runs!r:.80}: give the "
            "result's `directory`."
        )
    _check([[path] for path in runs], None, "mean_reward", "step", output)
    curves = [read_curve(path, "mean_reward", "step") for path in runs]
    seeds = len(curves)
    label = f"interquartile mean of {seeds} seeds" if seeds > 1 else "one seed"
    middle = middle_of(curves)
    figure = _figure([middle], [label], env, "mean_reward", "step", None)
    _save(figure, output)
    return figure


def _grouped(
    paths: str | Path | Sequence[str | Path], run_dir: str | Path | None
) -> list[list[str | Path]]:
    """Return the histories of each curve; UserError if `last` is missing."""
    above = local_path("run_dir", run_dir or RunConfig.run_dir)
    named = (
        locate_run("plot", "last", above, None)[0].path if path == "last" else path
        for path in local_paths("plot", paths)
    )
    return [group for path in named for group in runs_below(path)]


def _check_name(argument: str, value: object) -> None:
    """Raise UserError when the value of an argument isn't text."""
    if not isinstance(value, str):
        raise UserError(
            f"{argument} takes one name, got {value!r:.80}: call once for each."
        )


def _check(
    groups: Sequence[Sequence[str | Path]],
    agents: Sequence[str] | None,
    plot: str,
    benchmark: str,
    output: str | Path | None,
) -> None:
    if not groups:
        raise UserError("There is nothing to plot; name one history or more.")
    if isinstance(agents, str):
        raise UserError(
            f"agents takes a list of labels, got {agents!r}: write agents=[{agents!r}]."
        )
    if agents is not None and len(agents) != len(groups):
        raise UserError(
            f"{len(agents)} labels do not fit {len(groups)} histories; "
            "give one label for each, or none."
        )
    _check_name("plot", plot)
    _check_name("benchmark", benchmark)
    check_choice("A history", "benchmark", benchmark, BENCHMARKS)
    if output is not None and Path(output).suffix.lower() not in SUFFIXES:
        raise UserError(
            f"{output} doesn't name a picture in a known format; "
            f"end its name in {' or '.join(SUFFIXES)}."
        )


def _check_numbers(interval: object, time_unit: object, smoothing: object) -> None:
    for name, episodes in (("smoothing", smoothing), ("history_interval", interval)):
        if not isinstance(episodes, int | np.integer):
            raise UserError(f"{name} takes a whole number, got {episodes!r:.80}.")
        if episodes < 1:
            raise UserError(f"{name} is {episodes} episodes; it must be 1 or more.")
    if time_unit is None:
        return
    _check_name("time_unit", time_unit)
    if time_unit not in TIME_UNITS:
        raise UserError(
            f"There is no time unit {time_unit!r}; choose from {', '.join(TIME_UNITS)}."
        )


def _labels(groups: Sequence[Sequence[str | Path]]) -> list[str]:
    """Return the shortest suffixes of the paths that distinguish them.

    A group of several runs has the path of the directory above them.
    """
    counts = [len(group) for group in groups]
    paths = [g[0] if len(g) == 1 else Path(g[0]).parent for g in groups]
    found = _suffixes(paths)
    return [
        label if n == 1 else f"{label}, {n} runs"
        for label, n in zip(found, counts, strict=True)
    ]


def _suffixes(paths: Sequence[str | Path]) -> list[str]:
    whole = [os.path.abspath(path).removesuffix(".parquet") for path in paths]
    parts = [Path(path).parts for path in whole]
    for length in range(1, max(map(len, parts)) + 1):
        labels = ["/".join(part[-length:]) for part in parts]
        if len(set(labels)) == len(set(parts)):
            break
    return [
        f"{label} ({labels[: n + 1].count(label)})"
        if labels.count(label) > 1
        else label
        for n, label in enumerate(labels)
    ]


def _title(groups: Sequence[Sequence[str | Path]]) -> str | None:
    """Return the agent and environment of runs; None if they differ or are unknown."""
    paths = [path for group in groups for path in group]
    if not all(RunDirectory(Path(path)).history.exists() for path in paths):
        return None
    names = {Path(os.path.abspath(path)).parts[-3:-1] for path in paths}
    return ", ".join(names.pop()) if len(names) == 1 else None


def _figure(
    curves: Sequence[Curve],
    labels: Sequence[str],
    title: str | None,
    plot: str,
    benchmark: str,
    time_unit: str | None,
) -> Figure:
    from xagents_ray.commands import figure as figures

    figure = figures.CellFigure(figsize=(9, 5.5), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    longest = max(curve.x[-1] for curve in curves)
    long = [unit for unit, length in TIME_UNITS.items() if longest >= 2 * length]
    unit = time_unit or ["second", *long][-1]
    for n, (curve, label) in enumerate(zip(curves, labels, strict=True)):
        x = curve.x / TIME_UNITS[unit] if benchmark == "time" else curve.x
        color = _COLORS[n % len(_COLORS)]
        if curve.band is not None:
            axes.fill_between(x, *curve.band, color=color, alpha=0.2, linewidth=0)
        axes.plot(
            x,
            curve.y,
            # Matplotlib leaves out labels that begin with _.
            label=f" {label}" if label.startswith("_") else label,
            color=color,
            linestyle=_LINES[n // len(_COLORS) % len(_LINES)],
            linewidth=1.5,
            marker="o" if len(x) <= _FEW else None,
            markersize=4,
        )
    figures.decorate_axes(axes)
    axes.set_xlabel(f"Time ({unit}s)" if benchmark == "time" else "Env steps")
    axes.set_ylabel(plot.replace("_", " ").capitalize())
    if title:
        axes.set_title(title, parse_math=False)
    if benchmark == "step":
        figures.count_in_thousands(axes.xaxis)
    if plot == "step":
        figures.count_in_thousands(axes.yaxis)
    return figure


def _save(figure: Figure, path: str | Path | None) -> None:
    """Write a figure to a file, unless the path is None."""
    if path is None:
        return
    output = Path(local_path("output", path))
    with output_file(output) as file:
        figure.savefig(file, format=output.suffix[1:].lower())
