"""Values of settings over a run."""

from collections.abc import Callable

import pytest

from xagents_ray.core.schedule import Schedule, schedule_of


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("linear:3:1", (3.0, 2.5, 1.0)),
        ("0:3,0.5:1,1:0", (3.0, 2.0, 0.0)),
        ("0.25:2,0.75:1e-3", (2.0, 2.0, 1e-3)),
        ("1:5", (5.0, 5.0, 5.0)),
    ],
)
def test_values_are_linear_between_points(
    text: str, values: tuple[float, float, float]
) -> None:
    schedule = Schedule.parse(text)
    assert tuple(map(schedule.at, (0, 0.25, 1))) == values
    assert Schedule.parse(str(schedule)) == schedule


@pytest.mark.parametrize(
    "text",
    [
        *("", "linear:1", "linear:1:2:3", "linear:a:b", "0:1,0:2", "0.5:1,0.2:1"),
        *("-0.1:1", "0:1,1.1:2", "0:nan", "0:inf", "nan:1", "1e-3", "0=1,1=2"),
        ",".join(f"{i / 2000}:1" for i in range(1001)),
    ],
    ids=lambda text: text[:20],
)
def test_other_texts_are_no_schedules(text: str) -> None:
    with pytest.raises(ValueError):
        Schedule.parse(text)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda remaining: 3e-4 * remaining, "linear:0.0003:0"),
        (lambda remaining: 2, "linear:2:2"),
        (lambda remaining: 2 if remaining > 0.5 else 1, "0:2,0.49:2,0.5:1,1:1"),
    ],
    ids=["linear", "constant", "step"],
)
def test_functions_are_sampled(function: Callable[[float], float], text: str) -> None:
    """Of the fraction of the run that remains, as in Stable-Baselines3."""
    assert str(Schedule.sampled(function)) == text


def test_a_curve_is_followed_closely() -> None:
    schedule = Schedule.sampled(lambda remaining: remaining**2)
    assert schedule.at(0.333) == pytest.approx(0.667**2, abs=1e-4)


def test_a_number_is_constant() -> None:
    assert schedule_of(7e-4).at(0.3) == 7e-4
