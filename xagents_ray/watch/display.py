"""The display of a run: a live table, or plain lines if that is impossible."""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta

from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table

from xagents_ray.core.errors import printable
from xagents_ray.settings.config import Config
from xagents_ray.watch.live import Screen
from xagents_ray.watch.profile import Profile
from xagents_ray.watch.progress import Progress

_WIDE = 100
"""Width of a terminal, in characters, from which all values are in one row."""
_WIDEST = 140
"""Width from which metrics have room in that row."""
_PAIR = 36
"""Width of a title and its value."""
_TICK_SECONDS = 0.5
_TREND_SECONDS = 10.0
"""Shortest time over which the trend of the mean reward is measured."""
_LONGEST = 1e9
"""Seconds to the end, from which they are not shown."""


class Display:
    """Shows a run's progress; as a context manager it restores the terminal."""

    def __init__(self, config: Config, console: Console | None = None) -> None:
        self._config = config
        self._screen = Screen(
            console,
            quiet=config.display.quiet,
            lines_only=config.display.log_frequency is not None,
            refresh_seconds=0.5,
            line_seconds=5.0,
            waits=False,
        )
        self._lines, self._widths = 0, dict[str, int]()
        self.profile: Profile | None = None
        self.metrics: Mapping[str, float] = {}  # of the newest learning phase
        self._recent = (0, 0.0)
        self._means = deque[tuple[float, float]]()  # mean rewards by seconds
        self._speed = 0.0
        self._has_ended = False
        self._began, self._step = time.monotonic(), ""
        self._progress: Progress | None = None
        self._lock, self._left = threading.Lock(), threading.Event()

    def __enter__(self) -> "Display":
        self._screen.__enter__()
        if self._screen.may_tick:
            self.begin("the environment")
            threading.Thread(target=self._tick, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._left.set()
        with self._lock:
            self._screen.__exit__(*error)

    def begin(self, step: str) -> None:
        """Show, with a clock, what the start of a run waits for."""
        self._step = step
        self._tick_once()

    def _tick(self) -> None:
        """Refresh the screen whenever the run has not done so for a second."""
        while not self._left.wait(_TICK_SECONDS):
            if self._screen.seconds_unchanged > 2 * _TICK_SECONDS:
                self._tick_once()

    def _tick_once(self) -> None:
        if not self._screen.may_tick or self._has_ended:
            return
        # The run may append to a deque meanwhile.
        with suppress(RuntimeError):
            if self._progress is not None:
                self._print(self._progress)
            elif self._step:
                self._update(self._starting, str)

    def _starting(self) -> str:
        passed = timedelta(seconds=int(time.monotonic() - self._began))
        return f"Starting: {self._step} {passed}"

    def show(self, progress: Progress) -> None:
        """Show the progress if an update is due."""
        self._progress = progress
        every = self._config.display.log_frequency
        if every is not None:
            if progress.episode_count // every > self._lines:
                self._lines = progress.episode_count // every
                self._print(progress)
        elif self._screen.is_due():
            self._print(progress)

    def note(self, text: str) -> None:
        """Print a line above the live table."""
        self._screen.note(text)

    def warn(self, text: str) -> None:
        """Print a warning, even if the display is quiet."""
        warning = printable(f"Warning: {text}")
        self._screen.console.print(warning, soft_wrap=True, markup=False)

    def end(self, progress: Progress, reason: str) -> None:
        """Show the final state and why the run ended."""
        self._has_ended = True
        self._print(progress)
        self.__exit__()
        self._screen.note(reason)

    def _print(self, progress: Progress) -> None:
        """Show the table, or print a line."""
        self._update(lambda: self._table(progress), lambda: self._line(progress))

    def _update(
        self, table: Callable[[], RenderableType], line: Callable[[], str]
    ) -> None:
        with self._lock:
            if not self._left.is_set():
                self._screen.update(table, line)

    def _line(self, progress: Progress) -> str:
        fields = self._fields(progress)
        line = ", ".join(f"{title}: {value}" for title, value in fields.items())
        return "\n".join([line, *self._profiled()])

    def _fields(self, progress: Progress) -> dict[str, str]:
        """Return the shown values by title."""
        digits = self._config.display.display_precision

        def number(value: float | None) -> str:
            return "-" if value is None else f"{value:.{digits}f}"

        fields = {
            "time": str(timedelta(seconds=int(progress.seconds))),
            "steps": str(progress.env_steps),
            "games": str(progress.episode_count),
            "speed": f"{self._measure(progress):.0f} steps/s",
            "mean reward": number(progress.mean_reward),
            "best reward": number(progress.best_reward),
        }
        if (left := self._seconds_left(progress)) is not None:
            fields["left"] = str(timedelta(seconds=int(left)))
        if progress.success_rate is not None:
            fields["success rate"] = number(progress.success_rate)
        replay = self._config.algorithm.replay
        if replay is not None:
            fields["replay"] = f"{progress.replay_size or 0}/{replay.buffer_max_size}"
        if self._config.pipeline.policy_lag and progress.lags:
            lag = progress.policy_lag
            fields["lag"] = f"{lag['min']}/{lag['mean']:.1f}/{lag['max']}"
        return fields

    def _seconds_left(self, progress: Progress) -> float | None:
        """Return the seconds to the end of the run; None if unknown.

        That is to --max-steps at the speed so far, or to --target-reward if the mean
        reward rises as it did in the second half of the run.
        """
        if self._has_ended or not progress.updates:
            return None
        most, speed = self._config.training.max_steps, progress.steps_per_second
        left = [self._seconds_to_target(progress)]
        if most is not None and speed > 0:
            left.append(max(most - progress.env_steps, 0) / speed)
        return min((x for x in left if x < _LONGEST), default=None)

    def _seconds_to_target(self, progress: Progress) -> float:
        target, mean = self._config.training.target_reward, progress.mean_reward
        if target is None or mean is None:
            return math.inf
        now, means = progress.seconds, self._means
        if not means or now - means[-1][0] >= 1.0:
            means.append((now, mean))
        while len(means) > 2 and means[1][0] <= now / 2:
            means.popleft()
        passed, gain = now - means[0][0], mean - means[0][1]
        is_rising = gain > 0 and passed >= _TREND_SECONDS
        return max(target - mean, 0.0) * passed / gain if is_rising else math.inf

    def _measure(self, progress: Progress) -> float:
        """Return the env steps per second of the last second; at the end, overall."""
        if self._has_ended:
            whole = progress.env_steps / max(progress.seconds, 1e-9)
            return progress.steps_per_second or whole
        steps, seconds = self._recent
        passed = progress.seconds - seconds
        if passed >= 1.0:
            self._speed = (progress.env_steps - steps) / passed
            self._recent = progress.env_steps, progress.seconds
        return self._speed or progress.env_steps / max(passed, 1e-9)

    def _table(self, progress: Progress) -> RenderableType:
        fields, width = self._fields(progress), self._screen.console.width
        if width < _WIDE or width >= _WIDEST:
            fields |= self._learned()
        if width < _WIDE:
            table = _in_columns(fields, max(1, width // _PAIR))
            return Group(table, *self._profiled(), *self._bars(progress))
        table = Table(expand=True)
        for title, value in fields.items():
            # Columns never shrink, so that borders stay in place.
            least = self._widths[title] = max(self._widths.get(title, 0), len(value))
            table.add_column(title, min_width=least)
        table.add_row(*fields.values())
        return Group(table, *self._profiled(), *self._bars(progress))

    def _learned(self) -> dict[str, str]:
        """Return a loss, the entropy or a Q-value, and the rate of the newest phase."""
        shown: dict[str, str] = {}
        groups = ("policy_loss", "loss"), ("entropy", "q_value"), ("learning_rate",)
        for names in groups:
            known = [name for name in names if name in self.metrics]
            for name in known[:1]:
                shown[name.replace("_", " ")] = f"{self.metrics[name]:.3g}"
        return shown

    def _profiled(self) -> list[str]:
        """Return a line about the time profile, if the user requested it."""
        if not self._config.display.profile or self.profile is None:
            return []
        return [self.profile.sentence()]

    def _bars(self, progress: Progress) -> list[RenderableType]:
        c, bars = self._config, []
        replay, max_steps = c.algorithm.replay, c.training.max_steps
        held = progress.replay_size or 0
        if replay is not None and held < replay.initial_size:
            bars.append(_bar("filling replay", held, replay.initial_size))
        if max_steps is not None:
            bars.append(_bar("steps", min(progress.env_steps, max_steps), max_steps))
        return bars


def _in_columns(fields: Mapping[str, str], count: int) -> Table:
    """Return titles beside their values, in `count` columns, the reward first."""
    pairs = sorted(fields.items(), key=lambda pair: pair[0] != "mean reward")
    table = Table.grid(padding=(0, 2))
    for begin in range(0, len(pairs), count):
        cells = [word for pair in pairs[begin : begin + count] for word in pair]
        table.add_row(*cells)
    return table


def _bar(title: str, done: int, total: int) -> RenderableType:
    row = Table.grid(padding=(0, 1), expand=True)
    row.add_column(no_wrap=True)
    row.add_column(ratio=1)
    row.add_column(no_wrap=True)
    row.add_row(title, ProgressBar(total, done), f"{done}/{total} {done / total:4.0%}")
    return row
