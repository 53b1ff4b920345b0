"""A single training run, from its settings to its result."""

from collections.abc import Callable, Mapping
from pkgutil import resolve_name
from typing import Any

from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.signals import Signals
from xagents_ray.run.driver import LOCAL_DRIVER, Driver, StartDriver
from xagents_ray.run.request import Request
from xagents_ray.run.session import run_session
from xagents_ray.watch.progress import ProgressListener
from xagents_ray.watch.result import Result


def train_with(algorithm: Algorithm, given: Mapping[str, Any]) -> Result:
    """Train, given settings by flat name; see `train`."""
    request = Request.of(algorithm, given)
    with Signals() as signals:
        return train_request(request, signals)


def train_request(
    request: Request,
    signals: Signals,
    watch: ProgressListener | None = None,
    threads: int | None = None,
) -> Result:
    """Train according to a request; see `run_session` for the other arguments."""
    return run_session(
        request.algorithm,
        request.config,
        signals,
        start_driver,
        request.resumed,
        watch,
        threads,
        notes=request.notes,
        listeners=request.callbacks,
    )


def start_driver(run: RunSpec, signals: Signals, note: Callable[[str], None]) -> Driver:
    """Start the driver of a run: in-process with --local, else on Ray."""
    path = "xagents_ray.cluster.run.driver:start_ray_driver"
    if run.config.placement.local:
        path = f"{LOCAL_DRIVER}:start_local_driver"
    start: StartDriver = resolve_name(path)
    return start(run, signals, note)
