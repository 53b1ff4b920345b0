"""One training with a checkout, only through its public API.

Run as `python -c SOURCE JSON` with the checkout on PYTHONPATH. The argument has the
agent and its settings. The last line of the output is JSON: the metrics of each phase.

For a measurement the argument also has two numbers of env steps, and the seconds of a
turn. At the first learning phase that reaches one number, at the first that reaches the
other, and at the first after each turn, the run writes a line of JSON, its env steps,
seconds and CPU seconds so far, and waits for a line of input. Seconds exclude waits.
"""

import json
import math
import sys
import time
from collections.abc import Mapping
from typing import Any

import psutil

import xagents_ray


class Recorder(xagents_ray.Callback):
    """Records the metrics of each learning phase, or measures between two of them.

    Args:
        between: numbers of env steps between which to measure; None for the metrics
            instead.
        turn: seconds after which the run waits for the next turn.
    """

    def __init__(self, between: tuple[int, int] | None, turn: float = math.inf) -> None:
        self._between, self._turn = between, turn
        self._seconds = 0.0
        self._turn_start: float | None = None
        self.metrics: list[dict[str, float]] = []

    def on_update(
        self, ctx: xagents_ray.RunContext, metrics: Mapping[str, float]
    ) -> bool | None:
        """Record the phase, or wait at the end of a turn; end after the last one."""
        if self._between is None:
            counts = {"env_steps": ctx.env_steps, "updates": ctx.updates}
            self.metrics.append({**counts, **metrics})
            return None
        first, last = self._between
        if ctx.env_steps < first:
            return None
        start, now = self._turn_start, time.perf_counter()
        is_complete = ctx.env_steps >= last
        if start is None or is_complete or now - start >= self._turn:
            self._seconds += 0.0 if start is None else now - start
            measured = {"seconds": self._seconds, "cpu_seconds": cpu_seconds()}
            print(json.dumps({"env_steps": ctx.env_steps, **measured}), flush=True)
            input()
            self._turn_start = time.perf_counter()
        return not is_complete


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and all of its descendants so far."""
    this = psutil.Process()
    return sum(
        sum(each.cpu_times()[:4]) for each in (this, *this.children(recursive=True))
    )


def main() -> None:
    """Perform the training that the first argument describes."""
    asked: dict[str, Any] = json.loads(sys.argv[1])
    recorder = Recorder(asked.get("between"), asked.get("turn", math.inf))
    train: Any = xagents_ray.train
    train(asked["agent"], **asked["settings"], callbacks=[recorder])
    print(json.dumps({"metrics": recorder.metrics}))


if __name__ == "__main__":
    main()
