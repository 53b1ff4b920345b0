"""What a terminal shows of a run, at four widths, and how long it has left."""

import io
import math
import re
import time
from collections import Counter, deque
from typing import Any

import pytest
from rich.console import Console
from screens import check_screen

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.settings.config import Config
from xagents_ray.watch.display import Display
from xagents_ray.watch.progress import Progress

METRICS = {
    "loss": 6.1,
    "policy_loss": -0.01234,
    "value_loss": 12.5,
    "entropy": 0.5678,
    "learning_rate": 7e-4,
}


def display_of(width: int = 80, **settings: Any) -> Display:
    row = find_algorithm("ppo")
    config = Config.of(row.config, {"env": "CartPole-v1", **settings})
    stream = io.StringIO()
    return Display(config, Console(file=stream, width=width, force_terminal=True))


def progress_at(seconds: float, *rewards: float) -> Progress:
    """Return the progress of a run that learned 500 env steps a second."""
    steps = round(500 * seconds)
    progress = Progress(deque(rewards, 100), env_steps=steps, updates=400)
    progress.started_at = time.perf_counter() - seconds
    progress.steady, progress.learned_until = (0, 0.0), (steps, seconds)
    return progress


@pytest.mark.parametrize("width", [40, 80, 100, 140])
def test_the_table_of_a_run(width: int) -> None:
    """The reward is always there, and first where the values are below each other."""
    display = display_of(width, max_steps=100_000, policy_lag=1)
    display.metrics = METRICS
    progress = progress_at(102.2, 20.0, 41.5, 180.25)
    progress.episode_count, progress.best_reward = 903, 181.5
    progress.lags = Counter({0: 3, 1: 1})
    text = io.StringIO()
    Console(file=text, width=width).print(display._table(progress))
    check_screen(f"run-{width}", text.getvalue())


def left(display: Display, progress: Progress) -> float:
    return display._seconds_left(progress) or math.inf


def test_the_time_left_to_a_target_follows_the_trend_of_the_reward() -> None:
    """Of the second half of the run, once it rose for ten seconds."""
    display = display_of(target_reward=100.0)
    assert left(display, progress_at(1, 0.0)) == math.inf
    assert left(display, progress_at(9, 40.0)) == math.inf
    assert left(display, progress_at(21, 60.0)) == pytest.approx(24, rel=0.01)
    assert left(display, progress_at(31, 60.0)) == pytest.approx(44, rel=0.01)
    assert left(display, progress_at(64, 93.0)) == pytest.approx(7, rel=0.01)
    assert left(display, progress_at(70, 20.0)) == math.inf


def test_the_nearer_end_counts() -> None:
    display = display_of(target_reward=100.0, max_steps=20_000)
    assert left(display, progress_at(1, 0.0)) == pytest.approx(39, rel=0.01)
    assert left(display, progress_at(21, 80.0)) == pytest.approx(5, rel=0.01)
    assert left(display, progress_at(39, 80.1)) == pytest.approx(1, rel=0.01)


def test_the_line_of_a_run_without_a_terminal() -> None:
    line = display_of(max_steps=100_000)._line(progress_at(102.2, 20.0))
    known = r"time: 0:01:42, steps: 51100, games: 0, speed: \d+ steps/s, mean reward: "
    assert re.fullmatch(rf"{known}20\.00, best reward: -, left: 0:01:3\d", line)
