"""One run of xagents-ray in a fresh process: `python -m benchmarks.one_run JSON`.

The argument has a work's name, its warm-up, and settings in addition to the work's. The
last line of the output is JSON: env steps, seconds and updates.
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
        warmup: minimum number of env steps at this phase.
    """

    def __init__(self, warmup: int) -> None:
        self._warmup = warmup
        self._first: tuple[int, float, int] | None = None
        self._last: tuple[int, float, int] = (0, 0.0, 0)

    def __call__(self, progress: Progress) -> None:
        """Record the end of the newest learning phase; called as a run's `watch`."""
        steps, seconds = progress.learned_until
        if progress.steady is None or steps < self._warmup:
            return
        self._last = steps, seconds, progress.updates
        self._first = self._first or self._last

    def measured(self) -> dict[str, float]:
        """Return env steps, seconds and updates of whole learning cycles."""
        first = self._first or self._last
        steps, seconds, updates = (
            b - a for a, b in zip(first, self._last, strict=True)
        )
        return {"env_steps": steps, "seconds": seconds, "updates": updates}


def main() -> None:
    """Perform the run that the first argument describes."""
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
