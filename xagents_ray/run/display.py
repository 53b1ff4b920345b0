"""What a user sees of a run: a live table, or plain lines where there can't be one."""

import time
from datetime import timedelta

from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table

from xagents_ray.run.live import live, standard_output
from xagents_ray.run.profile import Profile
from xagents_ray.run.progress import Progress
from xagents_ray.settings.config import Config

_LINE_SECONDS = 5.0
_REFRESH_SECONDS = 0.2


class Display:
    """Shows a run's progress; a context that leaves the terminal as it was."""

    def __init__(self, config: Config, console: Console | None = None) -> None:
        self._config, self._quiet = config, config.display.quiet
        self._console = console or standard_output()
        has_lines = self._quiet or config.display.log_frequency is not None
        self._live = None if has_lines else live(self._console)
        self._shown = 0.0
        self._lines = 0
        self.profile: Profile | None = None
        self._recent = (0, 0.0)
        self._speed = 0.0
        self._has_ended = False

    def __enter__(self) -> "Display":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live:
            self._live.stop()

    def show(self, progress: Progress) -> None:
        """Show where the run is, when it is time to."""
        if self._quiet:
            return
        now = time.perf_counter()
        every = self._config.display.log_frequency
        if every is not None:
            if progress.episode_count // every > self._lines:
                self._lines = progress.episode_count // every
                self._print(progress)
        elif now - self._shown >= (_REFRESH_SECONDS if self._live else _LINE_SECONDS):
            self._shown = now
            self._print(progress)

    def note(self, text: str) -> None:
        """Print a line above what is live."""
        if not self._quiet:
            self._console.print(text, soft_wrap=True, markup=False)

    def warn(self, text: str) -> None:
        """Print a warning, quiet or not."""
        self._console.print(f"Warning: {text}", soft_wrap=True, markup=False)

    def end(self, progress: Progress, reason: str) -> None:
        """Show the final state and why the run ended."""
        if self._quiet:
            return
        self._has_ended = True
        self._print(progress)
        if self._live:
            self._live.stop()
        self._console.print(reason)

    def _print(self, progress: Progress) -> None:
        """Show the table, or print a line."""
        if self._live:
            self._live.update(self._table(progress), refresh=True)
            return
        fields = self._fields(progress)
        line = ", ".join(f"{title}: {value}" for title, value in fields.items())
        self._console.print(line, soft_wrap=True)
        for text in self._profiled():
            self._console.print(text, soft_wrap=True)

    def _fields(self, progress: Progress) -> dict[str, str]:
        """Return the values by title."""
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
        replay = self._config.algorithm.replay
        if replay is not None:
            fields["replay"] = f"{progress.replay_size or 0}/{replay.buffer_max_size}"
        if self._config.pipeline.policy_lag and progress.lags:
            lag = progress.policy_lag
            fields["lag"] = f"{lag['min']}/{lag['mean']:.1f}/{lag['max']}"
        return fields

    def _measure(self, progress: Progress) -> float:
        """Return the env steps a second since about a second ago; last, of the run."""
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
        table = Table(expand=True)
        fields = self._fields(progress)
        for title in fields:
            table.add_column(title)
        table.add_row(*fields.values())
        return Group(table, *self._profiled(), *self._bars(progress))

    def _profiled(self) -> list[str]:
        """Return where the time goes, where the user asked for it."""
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


def _bar(title: str, done: int, total: int) -> RenderableType:
    row = Table.grid(padding=(0, 1), expand=True)
    row.add_column(no_wrap=True)
    row.add_column(ratio=1)
    row.add_column(no_wrap=True)
    row.add_row(title, ProgressBar(total, done), f"{done}/{total} {done / total:4.0%}")
    return row
