"""One training with a checkout, only through its public API.

Run as `python -c SOURCE JSON` with the checkout on PYTHONPATH. The argument has the
agent, its settings, and for a measurement two numbers of env steps; it lasts from the
first learning phase that reaches one to the first that reaches the other. The last line
of the output is JSON: the metrics of each learning phase, or the measurement.
"""

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

import psutil

import xagents_ray


class Recorder(xagents_ray.Callback):
    """Records the metrics of each learning phase, or the time between two of them.

    Args:
        between: numbers of env steps between which to measure; None for the metrics
            instead.
    """

    def __init__(self, between: tuple[int, int] | None) -> None:
        self._between = between
        self.metrics: list[dict[str, float]] = []
        self.clocks: list[dict[str, float]] = []

    def on_update(
        self, ctx: xagents_ray.RunContext, metrics: Mapping[str, float]
    ) -> bool | None:
        """Record the phase; end the run when the measurement is complete."""
        if self._between is None:
            counts = {"env_steps": ctx.env_steps, "updates": ctx.updates}
            self.metrics.append({**counts, **metrics})
            return None
        if ctx.env_steps < self._between[len(self.clocks)]:
            return None
        cpu = cpu_seconds()
        now = {"seconds": time.perf_counter(), "cpu_seconds": cpu}
        self.clocks.append({"env_steps": ctx.env_steps, **now})
        return len(self.clocks) < 2

    def measured(self) -> dict[str, float]:
        """Return env steps, seconds and CPU seconds between the two phases."""
        if len(self.clocks) < 2:
            return {}
        first, last = self.clocks
        return {name: last[name] - first[name] for name in first}


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and all of its descendants so far."""
    this = psutil.Process()
    return sum(
        sum(each.cpu_times()[:4]) for each in (this, *this.children(recursive=True))
    )


def main() -> None:
    """Perform the training that the first argument describes."""
    asked: dict[str, Any] = json.loads(sys.argv[1])
    recorder = Recorder(asked.get("between"))
    train: Any = xagents_ray.train
    train(asked["agent"], **asked["settings"], callbacks=[recorder])
    print(json.dumps({"metrics": recorder.metrics, "measured": recorder.measured()}))


if __name__ == "__main__":
    main()
