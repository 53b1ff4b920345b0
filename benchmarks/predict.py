"""Measures how long a trained policy takes to load and to act.

`python -m benchmarks.predict JSON` is one measurement in a fresh process; the argument
is a run's directory, and the output is the seconds of each row as JSON.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.subprocesses import ROOT, in_fresh_process, module

CALLS = 10_000
_ROWS = {
    "import": "`import xagents_ray`",
    "load": "`load` and a first action",
    "greedy": f"{CALLS:,} single calls of `predict`",
    "drawn": "as many with `deterministic=False`",
}


def measure(runs: int) -> list[list[str]]:
    """Train briefly on CartPole and measure the policy; return the table's rows."""
    train = [sys.executable, "-m", "xagents_ray", "train", "ppo", "--local", "--quiet"]
    train += ["--env", "CartPole-v1", "--max-steps", "1", "--name", "first"]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*train, "--run-dir", folder], check=True, cwd=ROOT)
        once = module("predict", str(Path(folder, "ppo", "CartPole-v1", "first")))
        found = [in_fresh_process(once) for _ in range(runs)]
    return [[text, _cell([each[key] for each in found])] for key, text in _ROWS.items()]


def _cell(seconds: list[float]) -> str:
    median = statistics.median(seconds)
    return f"{median:.2f} ({min(seconds):.2f}–{max(seconds):.2f})"


def _once(run: str) -> dict[str, float]:
    """Return the seconds of each row; call it before anything else is imported."""
    began = time.perf_counter()
    import xagents_ray

    imported = time.perf_counter()
    policy = xagents_ray.load(run, seed=0)
    observation = [0.0, 0.0, 0.1, 0.0]
    policy.predict(observation)
    loaded = time.perf_counter()
    spans = {"import": imported - began, "load": loaded - imported}
    row = policy.observation_space.sample()
    for name, deterministic in (("greedy", True), ("drawn", False)):
        began = time.perf_counter()
        for _ in range(CALLS):
            policy.predict(row, deterministic=deterministic)
        spans[name] = time.perf_counter() - began
    return spans


if __name__ == "__main__":
    print(json.dumps(_once(json.loads(sys.argv[1]))))
