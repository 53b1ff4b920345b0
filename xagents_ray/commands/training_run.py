"""A single training run, from its settings to its result."""

import functools
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.errors import UserError
from xagents_ray.core.signals import Signals
from xagents_ray.run.driver import LOCAL_DRIVER, Driver, StartDriver
from xagents_ray.run.request import Request
from xagents_ray.run.session import run_session
from xagents_ray.storage.checkpoints import all_checkpoints
from xagents_ray.storage.run_directory import RunDirectory
from xagents_ray.watch.callbacks import Callback
from xagents_ray.watch.hooks import Hooks, hooks_among
from xagents_ray.watch.progress import ProgressListener
from xagents_ray.watch.result import Result


def train_with(
    algorithm: Algorithm,
    given: Mapping[str, Any],
    listeners: Sequence[Callback] = (),
) -> Result:
    """Train, given settings by flat name; see `train_with_listeners`."""
    request = Request.of(algorithm, given)
    with Signals() as signals:
        return train_request(request, signals, listeners=listeners)


def train_request(
    request: Request,
    signals: Signals,
    watch: ProgressListener | None = None,
    threads: int | None = None,
    listeners: Sequence[Callback] = (),
) -> Result:
    """Train according to a request.

    Args:
        request: the requested run.
        signals: signals that end the run early.
        watch: function called before the first rollout and after each phase.
        threads: number of cores that each component may use; None for all of them.
        listeners: callbacks besides those of the request, called after these.
    Raises:
        UserError: a callback takes part in the loop, and the run is on Ray, or has a
            setting that doesn't work with it.
    """
    callbacks, notes = [*request.callbacks, *listeners], list(request.notes)
    hooks = hooks_among(callbacks)
    if hooks is not None:
        if not request.config.placement.local:
            raise UserError(
                "A callback that changes the training loop works in this process only: "
                "give local=True."
            )
        notes += hooks.check(request.settings)
    start: StartDriver = functools.partial(start_driver, hooks=hooks)
    return run_session(
        request.algorithm,
        request.config,
        signals,
        start,
        request.resumed,
        watch,
        threads,
        notes=notes,
        listeners=callbacks,
    )


def what_next(result: Result) -> str:
    """Return the lines after a run: what it reached, and commands to go on with.

    They are empty after a signal, or if something could not be saved: a line that says
    how to continue is there already.
    """
    directory = RunDirectory(Path(result.directory))
    is_stopped = result.signal is not None or not result.directory
    is_told = is_stopped or result.unsaved
    if is_told or not all_checkpoints(directory.checkpoints):
        return ""
    means = {"best": result.best_reward, "final": result.mean_reward}
    reached = [f"{n} mean {mean:.2f}" for n, mean in means.items() if mean is not None]
    reached.append(str(timedelta(seconds=int(result.seconds))))
    path = directory.quoted
    return (
        f"{', '.join(reached)}; files in {path}. Next:\n"
        f"  xagents-ray evaluate {path}\n"
        f"  xagents-ray play {path}\n"
        f"  xagents-ray plot {path}\n"
        f"  xagents-ray resume {path} --max-steps {2 * result.env_steps}\n"
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
    signals.note = note
    if run.config.placement.local:
        start = resolve_name(f"{LOCAL_DRIVER}:start_local_driver")
        return start(run, signals, note, hooks)  # type: ignore[no-any-return]
    start = resolve_name("xagents_ray.cluster.run.driver:start_ray_driver")
    return start(run, signals, note)  # type: ignore[no-any-return]
