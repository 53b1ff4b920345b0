"""Draws a report of throughput as a bar chart."""

import statistics
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.report import OURS, Result

_KINDS = {
    f"{OURS} local": ("xagents-ray --local", "#1f6feb"),
    f"{OURS} local-lag-1": ("xagents-ray --local, --policy-lag 1", "#0a3069"),
    f"{OURS} ray": ("xagents-ray on Ray", "#58a6ff"),
    f"{OURS} ray-lag-1": ("xagents-ray on Ray, --policy-lag 1", "#a5d0ff"),
    "sbx": ("SBX (JAX)", "#d29922"),
    "contrib": ("sb3-contrib", "#8b949e"),
    "rlox": ("rlox (Rust)", "#b1462f"),
    "sb3": ("Stable-Baselines3", "#8b949e"),
}
"""Title and color of each column, in the order of the bars."""


def draw(results: Sequence[Result], path: Path) -> None:
    """Draw env steps per second of each work relative to Stable-Baselines3.

    Bars are medians, and lines reach from the slowest to the fastest run. Works that
    Stable-Baselines3 or xagents-ray didn't run are left out, as are variants.
    """
    shown = [each for each in results if "sb3" in each.speeds and each.ratios]
    figure = Figure((8, 1 + 0.8 * len(shown)), layout="constrained")
    axes = figure.subplots()
    for row, each in enumerate(shown):
        columns = [column for column in _KINDS if column in each.speeds]
        unit, height = statistics.median(each.speeds["sb3"]), 0.8 / len(columns)
        for i, column in enumerate(columns):
            runs = [speed / unit for speed in each.speeds[column]]
            median, place = statistics.median(runs), row - 0.4 + (i + 0.5) * height
            axes.barh(place, median, 0.9 * height, color=_KINDS[column][1])
            axes.plot((min(runs), max(runs)), (place, place), color="#333", linewidth=1)
            label = f"{median:.2f}"
            axes.text(max(runs) + 0.05, place, label, va="center", fontsize=8)
    for name, (title, color) in _KINDS.items():
        if any(name in each.speeds for each in shown):
            axes.barh(0, 0, color=color, label=title)
    axes.set_yticks(range(len(shown)), [each.title for each in shown])
    axes.invert_yaxis()
    axes.set_xlabel("env steps per second ÷ Stable-Baselines3's")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, loc="outside lower center", ncols=3)
    figure.savefig(path)
