"""Draws the results of all presets as one picture, beside RL Zoo's numbers."""

import math
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from benchmarks.learned import Learned, read_all
from benchmarks.zoo import reported

_COLUMNS, _WIDTH, _GAP = 2, 372, 16
_LEFT, _RIGHT = 52, 14
"""Room for the names of agents and beside the largest value, in pixels."""
_TITLE, _ROW, _TICKS, _LEGEND = 30, 16, 24, 44
"""Heights of a panel's title, of one result, of the axis, and of the legend."""


class Colors(NamedTuple):
    """Colors of the parts of a picture."""

    page: str
    text: str
    faint: str
    grid: str
    reached: str
    below: str
    alone: str


_LIGHT = Colors(
    "#ffffff", "#1b2a30", "#55626a", "#dde4e7", "#0e6b7c", "#c2500c", "#6b7480"
)
_DARK = Colors("none", "#e3eaed", "#a9b6bc", "#37464e", "#5cc8da", "#ff9a52", "#9aa7ae")
FILES = {"summary.svg": _LIGHT, "summary-dark.svg": _DARK}
"""The pictures, for light and for dark pages."""


def write_pictures(results: Path) -> None:
    """Draw the results in a directory into it."""
    learned = read_all(results)
    for name, colors in FILES.items():
        (results / name).write_text(draw(learned, colors), encoding="utf-8")


def draw(learned: Sequence[Learned], colors: Colors = _LIGHT) -> str:
    """Return results as SVG, one panel for each environment.

    A dot is the mean over seeds, a line reaches from the worst to the best seed, and a
    bar is RL Zoo's number. All axes include 0.

    Args:
        learned: results, sorted by environment.
        colors: colors of the picture.
    """
    heights, parts = [_LEGEND] * _COLUMNS, list(_legend(colors))
    for env, group in groupby(learned, key=lambda each: each.env):
        panel = [*group]
        column = heights.index(min(heights))
        parts += _panel(env, panel, column * (_WIDTH + _GAP), heights[column], colors)
        heights[column] += _TITLE + _ROW * len(panel) + _TICKS
    width = _COLUMNS * (_WIDTH + _GAP) - _GAP
    size = f'width="{width}" height="{max(heights)}"'
    lines = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {max(heights)}" '
        f'{size} font-family="system-ui, sans-serif" font-size="12" role="img" '
        'aria-labelledby="t">\n<title id="t">Returns of the final weights by '
        "environment and agent, beside RL Zoo's.</title>\n"
        f'<rect {size} fill="{colors.page}"/>\n{lines}\n</svg>\n'
    )


def _panel(
    env: str, panel: Sequence[Learned], left: float, top: float, colors: Colors
) -> Iterator[str]:
    """Yield the elements of one environment's panel."""
    ticks = _ticks(panel)
    low, scale = ticks[0], (_WIDTH - _LEFT - _RIGHT) / (ticks[-1] - ticks[0])
    bottom = top + _TITLE + _ROW * len(panel)

    def x(value: float) -> float:
        return left + _LEFT + (value - low) * scale

    title = escape(env.rpartition(":")[2])
    yield _text(left, top + 20, title, colors.text, 'font-weight="600"')
    for tick in ticks:
        yield _line(x(tick), top + _TITLE - 4, x(tick), bottom, colors.grid, 1)
        label = f"{tick:g}".replace("-", "−")
        yield _text(x(tick), bottom + 13, label, colors.faint, _CENTERED)
    for row, each in enumerate(panel):
        y = top + _TITLE + _ROW * (row + 0.5)
        yield _text(left + _LEFT - 10, y + 4, each.agent, colors.text, _AT_END)
        color, means = _color(each, colors), each.means
        yield _line(x(means[0]), y, x(means[-1]), y, color, 3, ' stroke-opacity="0.5"')
        if (zoo := reported(each.agent, each.env)) is not None:
            yield _line(x(zoo.mean), y - 6, x(zoo.mean), y + 6, colors.text, 2)
        yield _dot(x(sum(means) / len(means)), y, color)


def _ticks(panel: Sequence[Learned]) -> list[float]:
    """Return at most six round values that enclose 0 and what a panel shows."""
    shown = [0.0, *(mean for each in panel for mean in each.means)]
    zoos = (reported(each.agent, each.env) for each in panel)
    shown += [zoo.mean for zoo in zoos if zoo is not None]
    low, high = min(shown), max(shown)
    unit = 10.0 ** math.floor(math.log10((high - low) / 5))
    for step in (unit, 2 * unit, 5 * unit, 10 * unit):
        first, last = math.floor(low / step), math.ceil(high / step)
        if last - first <= 5:
            break
    return [step * n for n in range(first, last + 1)]


def _color(each: Learned, colors: Colors) -> str:
    known = {True: colors.reached, False: colors.below, None: colors.alone}
    return known[each.is_at_zoo]


def _legend(colors: Colors) -> Iterator[str]:
    """Yield the two lines that explain the symbols."""
    dots = (
        (0, colors.reached, "mean over seeds, at RL Zoo's or above"),
        (268, colors.below, "below RL Zoo's by over a standard error"),
        (548, colors.alone, "RL Zoo has no number"),
    )
    for left, color, text in dots:
        yield _dot(left + 6, 14, color)
        yield _text(left + 18, 18, text, colors.text)
    yield _line(0, 34, 12, 34, colors.reached, 3, ' stroke-opacity="0.5"')
    yield _text(18, 38, "from the worst to the best seed", colors.text)
    yield _line(274, 28, 274, 40, colors.text, 2)
    yield _text(286, 38, "RL Zoo's number, of one run", colors.text)
    yield _text(566, 38, "further right is better", colors.text)


_CENTERED, _AT_END = 'text-anchor="middle" font-size="11"', 'text-anchor="end"'


def _text(x: float, y: float, text: str, color: str, more: str = "") -> str:
    return f'<text x="{x:.4g}" y="{y:.4g}" fill="{color}" {more}>{text}</text>'


def _dot(x: float, y: float, color: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:g}" r="4.5" fill="{color}"/>'


def _line(
    x: float, y: float, to_x: float, to_y: float, color: str, width: int, more: str = ""
) -> str:
    ends = f'x1="{x:.1f}" y1="{y:g}" x2="{to_x:.1f}" y2="{to_y:g}"'
    return f'<line {ends} stroke="{color}" stroke-width="{width}"{more}/>'
