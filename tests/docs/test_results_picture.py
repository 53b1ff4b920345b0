"""The picture of all results is made from the recorded numbers."""

import re
from typing import Any
from xml.etree import ElementTree

import pytest
from checkout import ROOT

from benchmarks.learned import Learned, Reached, read_all
from benchmarks.learning import RESULTS
from benchmarks.summary import FILES, draw

_SVG = "{http://www.w3.org/2000/svg}"


def learned(agent: str, env: str, *means: float) -> Learned:
    reached = (Reached(mean, 1.0, None, 1_000, 1) for mean in means)
    return Learned(agent, env, 100, dict(enumerate(reached)))


@pytest.mark.parametrize("name", FILES)
def test_the_picture_is_the_one_of_the_recorded_numbers(name: str) -> None:
    """`python -m benchmarks summary` draws it again."""
    stored = (RESULTS / name).read_text(encoding="utf-8")
    assert stored == draw(read_all(RESULTS), FILES[name])


def test_dots_lines_and_bars_are_where_the_axis_has_their_numbers() -> None:
    found = [learned("dqn", "LunarLander-v3", -50.0, 100.0, 250.0)]
    root = ElementTree.fromstring(draw(found))
    ticks = {
        float(text.text.replace("−", "-")): float(text.attrib["x"])
        for text in root.iter(f"{_SVG}text")
        if text.text and re.fullmatch(r"−?\d+", text.text)
    }
    assert {-100.0, 0.0, 300.0} <= ticks.keys()
    per_unit = (ticks[300.0] - ticks[0.0]) / 300

    def x(value: float) -> Any:
        return pytest.approx(ticks[0.0] + value * per_unit, abs=0.2)

    *_, dot = root.iter(f"{_SVG}circle")
    assert float(dot.attrib["cx"]) == x(100.0)
    *_, seeds, zoo = root.iter(f"{_SVG}line")
    assert float(seeds.attrib["x1"]) == x(-50.0)
    assert float(seeds.attrib["x2"]) == x(250.0)
    assert float(zoo.attrib["x1"]) == float(zoo.attrib["x2"]) == x(154.382)


def test_colors_say_what_is_at_the_number_of_rl_zoo() -> None:
    colors = FILES["summary.svg"]
    for means, color in (
        ([200.0, 210.0], colors.reached),
        ([150.0, 158.0], colors.reached),  # 154 is within a standard error of 154.382
        ([100.0, 101.0], colors.below),
    ):
        root = ElementTree.fromstring(draw([learned("dqn", "LunarLander-v3", *means)]))
        *_, dot = root.iter(f"{_SVG}circle")
        assert dot.attrib["fill"] == color
    root = ElementTree.fromstring(draw([learned("a3c", "CartPole-v1", 500.0)]))
    *_, dot = root.iter(f"{_SVG}circle")
    assert dot.attrib["fill"] == colors.alone


def test_every_result_has_a_dot() -> None:
    root = ElementTree.fromstring((RESULTS / "summary.svg").read_text("utf-8"))
    legend = 3
    assert len([*root.iter(f"{_SVG}circle")]) == len(read_all(RESULTS)) + legend


def test_pages_show_it() -> None:
    for page in ("README.md", "docs/index.md", "docs/results.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert "results/summary.svg" in text, page
