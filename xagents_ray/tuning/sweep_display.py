"""The display of a sweep: a live table, or plain lines if that is impossible."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table

from xagents_ray.settings.console import DisplayConfig
from xagents_ray.tuning.plan import TuneConfig
from xagents_ray.watch.live import Screen

_ROWS = 12
"""Number of newest trials that the table shows."""


@dataclass
class TrialRow:
    number: int  # in the study
    params: Mapping[str, Any]  # values of the varied settings
    state: str = "running"  # in a word
    env_steps: int = 0  # env steps so far
    reward: float | None = None  # mean reward; None before the first episode has ended
    seconds: float | None = None  # duration of the training, once it has ended


class SweepDisplay:
    """Shows a sweep; as a context manager, it restores the terminal.

    Args:
        config: settings of the sweep.
        display: options of the display, such as the number of decimals.
        rows: trials of earlier sessions.
        console: console that shows the table; default: the standard output.
    """

    def __init__(
        self,
        config: TuneConfig,
        display: DisplayConfig,
        rows: list[TrialRow],
        console: Console | None = None,
    ) -> None:
        self._config, self._display = config, display
        self._rows = {row.number: row for row in rows}
        self._screen = Screen(
            console,
            quiet=display.quiet,
            lines_only=config.non_silent,
            refresh_seconds=0.5,
            line_seconds=30.0,
        )

    def __enter__(self) -> "SweepDisplay":
        self._screen.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self._screen.is_live:
            self._screen.update(self._table, self._summary)
        self._screen.__exit__(*error)

    def began(self, number: int, params: Mapping[str, Any]) -> None:
        self._rows[number] = TrialRow(number, params)

    def progress(self, number: int, env_steps: int, reward: float | None) -> None:
        row = self._rows[number]
        row.env_steps, row.reward = env_steps, reward

    def ended(
        self, number: int, state: str, seconds: float | None = None, reason: str = ""
    ) -> None:
        """Show how a trial ended, and why if it failed."""
        # The database may have failed after it stored the trial.
        row = self._rows.setdefault(number, TrialRow(number, {}))
        row.state, row.seconds = state, seconds
        if reason:
            self.note(f"Trial {number} failed: {reason}")
        elif not self._screen.is_live:
            self.note(self._line(row))

    def show(self) -> None:
        """Show the progress of the sweep if due."""
        if self._screen.is_due():
            self._screen.update(self._table, self._summary)

    def note(self, text: str) -> None:
        """Print a line above the live table."""
        self._screen.note(text)

    def _line(self, row: TrialRow) -> str:
        params = ", ".join(f"{k}: {self._value(v)}" for k, v in row.params.items())
        steps, reward = row.env_steps, self._number(row.reward)
        return (
            f"Trial {row.number} {row.state}, steps: {steps}, reward: {reward}"
            f"{', ' * bool(params)}{params}"
        )

    def _table(self) -> RenderableType:
        table = Table(expand=True)
        names = list(dict.fromkeys(n for r in self._rows.values() for n in r.params))
        for title in ("trial", "state", "steps", "reward"):
            table.add_column(title, no_wrap=True)
        for name in names:
            table.add_column(name)
        rows = sorted(self._rows.values(), key=lambda row: row.number)
        for row in rows[-max(_ROWS, self._config.n_jobs) :]:
            params = [self._value(row.params.get(name)) for name in names]
            steps, reward = str(row.env_steps), self._number(row.reward)
            table.add_row(str(row.number), row.state, steps, reward, *params)
        return Group(table, self._summary())

    def _summary(self) -> str:
        """Return the counts, the best trial and the time left, in one line."""
        rows = self._rows.values()
        ended = sum(row.state in ("complete", "pruned", "failed") for row in rows)
        parts = [f"{ended} of {self._config.n_trials} trials ended"]
        complete = [r for r in rows if r.state == "complete" and r.reward is not None]
        if complete:
            best = max(complete, key=lambda row: row.reward or 0.0)
            parts.append(f"best: {self._number(best.reward)} of trial {best.number}")
        seconds = [row.seconds for row in rows if row.seconds is not None]
        left = self._config.n_trials - ended
        if seconds and left > 0:
            jobs = min(left, self._config.n_jobs)
            needed = round(statistics.median(seconds) * left / jobs)
            parts.append(f"about {timedelta(seconds=needed)} left")
        return ", ".join(parts)

    def _number(self, value: float | None) -> str:
        digits = self._display.display_precision
        return "-" if value is None else f"{value:.{digits}f}"

    def _value(self, value: Any) -> str:
        if value is None:
            return "-"
        return f"{value:.3g}" if isinstance(value, float) else str(value)
