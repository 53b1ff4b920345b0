"""One run of ours in a process of its own: `python -m benchmarks.one_run JSON`.

The argument holds a work's name, its warm-up, and settings beside the work's own. The
last line printed is JSON: env steps, seconds and updates.
"""

import json
import sys
import tempfile

from benchmarks.works import WORKS
from xagents_ray.commands.training_run import start_driver
from xagents_ray.core.errors import UserError
from xagents_ray.core.signals import Signals
from xagents_ray.run.session import run_session
from xagents_ray.watch.progress import Progress


class Clock:
    """Counts env steps and seconds from the end of the first measured learning phase.

    Args:
        warmup: env steps before it.
    """

    def __init__(self, warmup: int) -> None:
        self._warmup = warmup
        self._first: tuple[int, float, int] | None = None
        self._last: tuple[int, float, int] = (0, 0.0, 0)

    def __call__(self, progress: Progress) -> None:
        """Take the time of the newest learning phase; a run's `watch`."""
        steps, seconds = progress.learned_until
        if progress.steady is None or steps < self._warmup:
            return
        self._last = steps, seconds, progress.updates
        self._first = self._first or self._last

    def measured(self) -> dict[str, float]:
        """Return env steps and updates, and seconds, of whole learning cycles."""
        first = self._first or self._last
        steps, seconds, updates = (
            b - a for a, b in zip(first, self._last, strict=True)
        )
        return {"env_steps": steps, "seconds": seconds, "updates": updates}


def main() -> None:
    """Do the run that the first argument asks for."""
    asked = json.loads(sys.argv[1])
    work = WORKS[asked["work"]]
    clock = Clock(asked["warmup"])
    try:
        with tempfile.TemporaryDirectory() as runs, Signals() as signals:
            algorithm, config = work.config(**asked["settings"], run_dir=runs)
            run_session(algorithm, config, signals, start_driver, watch=clock)
    except UserError as error:
        sys.exit(str(error))
    if signals.received is not None:
        sys.exit(128 + signals.received)
    print(json.dumps(clock.measured()))


if __name__ == "__main__":
    main()
