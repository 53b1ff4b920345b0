"""One training of a checkout, through nothing but its public API.

`python -c SOURCE JSON`, with the checkout on PYTHONPATH. JSON holds the agent, its
settings, and for a measurement two numbers of env steps: it lasts from the end of the
first learning phase after one to that of the first after the other. The last line
printed is JSON: the metrics of each learning phase, and the measurement.
"""

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

import psutil

import xagents_ray


class Recorder(xagents_ray.Callback):
    """Records the metrics of each learning phase, and the clocks of two of them.

    Args:
        between: the numbers of env steps between which clocks are read; None for
            metrics alone.
    """

    def __init__(self, between: tuple[int, int] | None) -> None:
        self._between = between
        self.metrics: list[dict[str, float]] = []
        self.clocks: list[dict[str, float]] = []

    def on_update(
        self, ctx: xagents_ray.RunContext, metrics: Mapping[str, float]
    ) -> bool | None:
        """Record the phase; end the run with the measurement."""
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
    """Return the CPU seconds of this process and of all below it, so far."""
    this = psutil.Process()
    return sum(
        sum(each.cpu_times()[:4]) for each in (this, *this.children(recursive=True))
    )


def main() -> None:
    """Train as the first argument asks."""
    asked: dict[str, Any] = json.loads(sys.argv[1])
    recorder = Recorder(asked.get("between"))
    train: Any = xagents_ray.train
    train(asked["agent"], **asked["settings"], callbacks=[recorder])
    print(json.dumps({"metrics": recorder.metrics, "measured": recorder.measured()}))


if __name__ == "__main__":
    main()
