"""One run in a process of its own: `python -m benchmarks.one_run JSON`.

It prints one JSON line, the env steps a second from the end of the first learning
phase to the end of the last: whole cycles of a rollout and its learning.
"""

import importlib
import json
import sys
import tempfile
from dataclasses import dataclass

import xagents_ray
from benchmarks.works import WORKS


@dataclass(frozen=True)
class Request:
    """A run to do.

    Attributes:
        library: `xagents-ray` or `sb3`.
        work: its name in the table of works.
        steps: env steps to learn from, whole rollouts.
        sb3_vec: `dummy` or `subproc`.
        sb3_threads: of PyTorch; None for its default.
    """

    library: str
    work: str
    steps: int
    sb3_vec: str
    sb3_threads: int | None


def _ours(request: Request) -> float:
    settings = WORKS[request.work].settings
    with tempfile.TemporaryDirectory() as runs:
        try:
            result = xagents_ray.train(
                "ppo", **settings, max_steps=request.steps, run_dir=runs
            )
        except KeyboardInterrupt:
            sys.exit(130)
    return result.steps_per_second


def main() -> None:
    """Do the run that the first argument asks for."""
    request = Request(**json.loads(sys.argv[1]))
    if request.library == "sb3":
        sb3 = importlib.import_module("benchmarks.sb3")
        speed = sb3.run(
            WORKS[request.work], request.steps, request.sb3_vec, request.sb3_threads
        )
    else:
        speed = _ours(request)
    print(json.dumps({"steps_per_second": speed}))


if __name__ == "__main__":
    main()
