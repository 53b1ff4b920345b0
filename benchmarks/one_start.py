"""Runs one command with --local; prints the seconds that parts of its start take."""

import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from xagents_ray.commands.cli import run
from xagents_ray.run.driver import LOCAL_DRIVER

PARTS = (
    "load the command",
    "import TensorFlow",
    "build networks",
    "make environments",
    "first rollout",
    "first phase",
    "of this, tracing",
    "of this, compiling and learning",
)
_LOAD, _TENSORFLOW, _NETWORKS, _ENVS, _ROLLOUT, _PHASE, _TRACE, _COMPILE = PARTS

_found: dict[str, tuple[float, float]] = {}


def _now() -> tuple[float, float]:
    """Return the time, and the CPU time of all threads, in seconds."""
    return time.perf_counter(), time.process_time()


_BEGAN = _now()[0], 0.0


def _record(part: str, began: tuple[float, float]) -> None:
    """Keep the seconds and CPU seconds since `began` as those of a part."""
    wall, cpu = _now()
    _found.setdefault(part, (wall - began[0], cpu - began[1]))


def _time(part: str, owner: Any, name: str) -> None:
    """Make the first call of a module's function or a class's method record a part."""
    function: Callable[..., Any] = getattr(owner, name)

    def call(*given: Any, **settings: Any) -> Any:
        began = _now()
        try:
            return function(*given, **settings)
        finally:
            _record(part, began)

    setattr(owner, name, call)


def main() -> None:
    """Run the command whose words are the argument, as JSON."""
    driver: Any = import_module(LOCAL_DRIVER)
    load, make = driver.load_tensorflow, driver.make_learner

    def load_tensorflow() -> Any:
        _record(_LOAD, _BEGAN)
        return load()

    def make_learner(run: Any) -> Any:
        learner = import_module("xagents_ray.learners.learner")
        _time(_TRACE, learner.Learner, "_learn")  # not earlier: it imports TensorFlow
        return make(run)

    driver.load_tensorflow, driver.make_learner = load_tensorflow, make_learner
    _time(_TENSORFLOW, driver, "load_tensorflow")
    _time(_NETWORKS, driver, "make_learner")
    _time(_ENVS, driver, "make_local_actor")
    _time(_ROLLOUT, driver.LocalDriver, "collect")
    _time(_PHASE, driver.LocalDriver, "learn")
    if code := run([*json.loads(sys.argv[1]), "--quiet"]):
        sys.exit(code)
    phase, trace = _found[_PHASE], _found[_TRACE]
    _found[_COMPILE] = phase[0] - trace[0], phase[1] - trace[1]
    print(json.dumps(_found))


if __name__ == "__main__":
    main()
