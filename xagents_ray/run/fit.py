"""Training from a config: what every command that trains calls."""

from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace

from xagents_ray.algorithms.row import Algorithm
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.errors import Stopped
from xagents_ray.core.signals import Signals
from xagents_ray.run.display import Display
from xagents_ray.run.driver import StartDriver
from xagents_ray.run.prepare import prepare
from xagents_ray.run.progress import Progress
from xagents_ray.run.result import Result, stopped_by
from xagents_ray.run.resume import Resumed
from xagents_ray.run.session import Session
from xagents_ray.run.state import RunState
from xagents_ray.settings.config import Config
from xagents_ray.storage.history import History
from xagents_ray.storage.run_directory import RunDirectory

_Watch = Callable[[Progress], None]


def fit(
    algorithm: Algorithm,
    config: Config,
    signals: Signals,
    start: StartDriver,
    resumed: Resumed | None = None,
    watch: _Watch | None = None,
    threads: int | None = None,
    notes: Sequence[str] = (),
) -> Result:
    """Train until the run ends.

    Args:
        algorithm: that learns.
        config: of the run.
        signals: end it early.
        start: starts the driver.
        resumed: the run that continues; None for a new one.
        watch: called before the first rollout and after each learning phase.
        threads: cores that each of its parts may use; None for all of its machine.
        notes: what else the user should know, one sentence each.
    """
    with Display(config) as display:
        run = prepare(algorithm, config, resumed)
        run = replace(run, notes=(*run.notes, *notes), threads=threads)
        return _train(run, start, resumed, display, signals, watch)


def _train(
    run: RunSpec,
    start: StartDriver,
    resumed: Resumed | None,
    display: Display,
    signals: Signals,
    watch: _Watch | None,
) -> Result:
    named = run.config.run.history_checkpoint
    histories = [History(named)] if named is not None else []
    state = RunState(run, resumed.session if resumed else 0)
    state.restore_counters(resumed, histories)

    def end(reason: str, directory: str) -> Result:
        display.end(state.progress, reason)
        received = signals.received
        return Result.of(reason, run, state.progress, received, directory)

    reason = state.progress.over(run.config.training)
    if reason is not None:
        path = str(resumed.directory.path) if resumed else ""
        return end(f"{reason}: raise --max-steps or --target-reward to continue", path)
    if resumed is not None:
        directory = resumed.directory
    else:
        directory = RunDirectory.create(run.config, run.algorithm.name, run.seed)
    try:
        with closing(start(run, signals)) as driver:
            if resumed is not None:
                dropped = driver.restore(resumed.checkpoint, resumed.session)
                state.progress.dropped += dropped
            return Session(
                run, driver, state, directory, histories, display, signals, watch
            ).train()
    except Stopped:
        return end(stopped_by(signals.received), "")
    finally:
        with suppress(OSError):  # it is empty when nothing has begun
            directory.path.rmdir()
