"""The display of runs with several seeds."""

from collections.abc import Sequence

from rich.table import Table

from xagents_ray.core.errors import pluralize
from xagents_ray.settings.console import DisplayConfig
from xagents_ray.tuning.seed_runs import SeedRun
from xagents_ray.watch.live import Screen


class SeedsDisplay:
    """Shows runs; as a context manager, it restores the terminal."""

    def __init__(self, config: DisplayConfig) -> None:
        self._config = config
        self._screen = Screen(
            None, quiet=config.quiet, refresh_seconds=0.5, line_seconds=30.0
        )
        self._runs: Sequence[SeedRun] = ()

    def __enter__(self) -> "SeedsDisplay":
        self._screen.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self._screen.is_live:
            self._screen.update(self._table, self._line)
        self._screen.__exit__(*error)

    def begin(self, runs: Sequence[SeedRun]) -> None:
        """Set the runs to show."""
        self._runs = runs

    def changed(self, run: SeedRun) -> None:
        if run.outcome.failure:
            self.note(f"Seed {run.seed} failed: {run.outcome.failure}")
        elif not self._screen.is_live and run.state != "running":
            steps, reward = self._cells(run)
            self.note(f"Seed {run.seed} {run.state}: {steps} steps, reward {reward}")

    def show(self) -> None:
        """Show the progress of the runs if due."""
        if self._screen.is_due():
            self._screen.update(self._table, self._line)

    def note(self, text: str) -> None:
        """Print a line above the live table."""
        self._screen.note(text)

    def _line(self) -> str:
        """Return the progress of each active run."""
        parts = [
            f"seed {run.seed}: {' steps, reward '.join(self._cells(run))}"
            for run in self._runs
            if run.state == "running"
        ]
        waiting = sum(run.state == "waiting" for run in self._runs)
        parts += [f"{pluralize(waiting, 'seed')} waiting"] * bool(waiting)
        return "; ".join(parts)

    def _cells(self, run: SeedRun) -> tuple[str, str]:
        """Return a run's env steps and its mean reward."""
        digits, reward = self._config.display_precision, run.newest.mean_reward
        shown = "-" if reward is None else f"{reward:.{digits}f}"
        return str(run.newest.env_steps), shown

    def _table(self) -> Table:
        table = Table(expand=True)
        for title in ("seed", "state", "steps", "mean reward"):
            table.add_column(title)
        for run in self._runs:
            table.add_row(str(run.seed), run.state, *self._cells(run))
        return table
