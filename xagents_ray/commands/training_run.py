"""A single training run, from its settings to its result."""

import functools
from collections.abc import Callable, Mapping
from pkgutil import resolve_name
from typing import Any

from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.errors import UserError
from xagents_ray.core.signals import Signals
from xagents_ray.run.driver import LOCAL_DRIVER, Driver, StartDriver
from xagents_ray.run.request import Request
from xagents_ray.run.session import run_session
from xagents_ray.watch.hooks import Hooks, hooks_among
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
    """Train according to a request; see `run_session` for the other arguments.

    Raises:
        UserError: a callback takes part in the loop, and the run is on Ray.
    """
    hooks = hooks_among(request.callbacks)
    if hooks is not None and not request.config.placement.local:
        raise UserError(
            "A callback that changes the training loop works in this process only: "
            "give local=True."
        )
    start: StartDriver = functools.partial(start_driver, hooks=hooks)
    return run_session(
        request.algorithm,
        request.config,
        signals,
        start,
        request.resumed,
        watch,
        threads,
        notes=request.notes,
        listeners=request.callbacks,
    )


def start_driver(
    run: RunSpec,
    signals: Signals,
    note: Callable[[str], None],
    hooks: Hooks | None = None,
) -> Driver:
    """Start the driver of a run: in-process with --local, else on Ray.

    `hooks` take part in the loop of an in-process run.
    """
    if run.config.placement.local:
        start = resolve_name(f"{LOCAL_DRIVER}:start_local_driver")
        return start(run, signals, note, hooks)  # type: ignore[no-any-return]
    start = resolve_name("xagents_ray.cluster.run.driver:start_ray_driver")
    return start(run, signals, note)  # type: ignore[no-any-return]
