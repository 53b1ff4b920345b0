"""Measures the cost of history, TensorBoard, display and checkpoints in a run.

`python -m benchmarks.recording JSON` is one measurement in a fresh process; the
argument is a work's name, and the output is the seconds of each part as JSON.
"""

import contextlib
import importlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.subprocesses import in_fresh_process, module
from benchmarks.works import WORKS
from xagents_ray import train

WORK_STEPS = {"ppo-cartpole": 1_000_000, "dqn-cartpole": 500_000, "ppo-pong": 10_240}
"""Env steps by name of the work."""
_RECORDED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "watch.recorder:Recorder": {
        "history and TensorBoard": ("episodes", "metrics", "flush", "close")
    },
    "watch.display:Display": {"display": ("show", "end")},
    "run.checkpointing:CheckpointPolicy": {
        "checkpoints": ("between_phases", "write_newest", "write_best", "finish")
    },
}
PARTS = [part for parts in _RECORDED.values() for part in parts]


def measure(runs: int) -> list[list[str]]:
    """Return the table's rows: a work, its seconds, and the share of each part."""
    return [_row(name, runs) for name in WORK_STEPS]


def _row(name: str, runs: int) -> list[str]:
    found = [in_fresh_process(module("recording", name)) for _ in range(runs)]
    seconds = statistics.median(each["run"] for each in found)
    shares = [
        statistics.median(each[part] / each["run"] for each in found) for part in PARTS
    ]
    cells = [f"{share:.1%}" for share in (*shares, sum(shares))]
    return [WORKS[name].title, f"{seconds:.0f}", *cells]


class Stopwatch:
    """Accumulates the time of calls; nested calls count for the outermost one."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._is_running = False

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function so that its calls count for a part."""
        self.seconds[part] = 0.0

        def call(*args: Any, **settings: Any) -> Any:
            if self._is_running:
                return function(*args, **settings)
            self._is_running, began = True, time.perf_counter()
            try:
                return function(*args, **settings)
            finally:
                self._is_running = False
                self.seconds[part] += time.perf_counter() - began

        return call


def _once(name: str) -> dict[str, float]:
    """Train as in a terminal; return the seconds of each part and of the run."""
    watch = Stopwatch()
    for place, parts in _RECORDED.items():
        file, _, kind = place.partition(":")
        owner = getattr(importlib.import_module(f"xagents_ray.{file}"), kind)
        for part, methods in parts.items():
            for method in methods:
                setattr(owner, method, watch.timed(part, getattr(owner, method)))
    session = importlib.import_module("xagents_ray.run.session").Session
    whole = Stopwatch()
    session.train = whole.timed("run", session.train)
    os.environ["FORCE_COLOR"] = "1"  # live display, as in a terminal
    work = WORKS[name]
    with (
        tempfile.TemporaryDirectory() as folder,
        open(os.devnull, "w", encoding="utf-8") as screen,
        contextlib.redirect_stdout(screen),
    ):
        settings = {**work.settings, "max_steps": WORK_STEPS[name], "local": True}
        train(work.agent, run_dir=folder, **settings)
    return {**watch.seconds, **whole.seconds}


if __name__ == "__main__":
    print(json.dumps(_once(json.loads(sys.argv[1]))))
