"""What a user sees of runs with several seeds."""

import time
from collections.abc import Sequence

from rich.table import Table

from xagents_ray.core.errors import counted
from xagents_ray.run.live import live, standard_output
from xagents_ray.seeds.runs import Failure, SeedRun
from xagents_ray.settings.run import DisplayConfig

_REFRESH_SECONDS, _LINE_SECONDS = 0.5, 30.0


class SeedsDisplay:
    """Shows runs; a context that leaves the terminal as it was."""

    def __init__(self, config: DisplayConfig) -> None:
        self._config, self._console = config, standard_output()
        self._live = None if config.quiet else live(self._console)
        self._runs: Sequence[SeedRun] = ()
        self._shown = time.monotonic()

    def __enter__(self) -> "SeedsDisplay":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live:
            self._live.update(self._table(), refresh=True)
            self._live.stop()

    def begin(self, runs: Sequence[SeedRun]) -> None:
        """Take the runs that are shown from now on."""
        self._runs = runs

    def changed(self, run: SeedRun) -> None:
        """Show a run's new state."""
        if isinstance(run.outcome, Failure):
            self.note(f"Seed {run.seed} failed: {run.outcome.message}")
        elif not self._live and run.state != "running":
            steps, reward = self._cells(run)
            self.note(f"Seed {run.seed} {run.state}: {steps} steps, reward {reward}")

    def show(self) -> None:
        """Show how far the runs are, when it is time to."""
        now = time.monotonic()
        every = _REFRESH_SECONDS if self._live else _LINE_SECONDS
        if now - self._shown < every:
            return
        self._shown = now
        if self._live:
            self._live.update(self._table(), refresh=True)
            return
        parts = [
            f"seed {run.seed}: {' steps, reward '.join(self._cells(run))}"
            for run in self._runs
            if run.state == "running"
        ]
        waiting = sum(run.state == "waiting" for run in self._runs)
        parts += [f"{counted(waiting, 'seed')} waiting"] * bool(waiting)
        self.note("; ".join(parts))

    def note(self, text: str) -> None:
        """Print a line above what is live."""
        if not self._config.quiet:
            self._console.print(text, soft_wrap=True, markup=False)

    def _cells(self, run: SeedRun) -> tuple[str, str]:
        """Return a run's env steps and its mean reward."""
        digits, (steps, reward) = self._config.display_precision, run.newest
        return str(steps), "-" if reward is None else f"{reward:.{digits}f}"

    def _table(self) -> Table:
        table = Table(expand=True)
        for title in ("seed", "state", "steps", "mean reward"):
            table.add_column(title)
        for run in self._runs:
            table.add_row(str(run.seed), run.state, *self._cells(run))
        return table
