"""`xagents-ray train` and `xagents_ray.train`."""

from collections.abc import Callable, Mapping
from pkgutil import resolve_name
from typing import Any

from xagents_ray.algorithms import presets
from xagents_ray.algorithms.row import Algorithm
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.algorithms.table import check_owners, find
from xagents_ray.commands.documented import listing_settings
from xagents_ray.core.process import one_blas_thread
from xagents_ray.core.signals import Signals, interrupting
from xagents_ray.run.driver import Driver, StartDriver
from xagents_ray.run.prepare import Resumed, find_run
from xagents_ray.run.session import fit
from xagents_ray.settings.config import GROUPS, Config, train_options
from xagents_ray.settings.options import options, plain
from xagents_ray.storage.weights import check_paths
from xagents_ray.tuning.seeds_result import SeedsResult
from xagents_ray.watch.callbacks import load
from xagents_ray.watch.progress import Progress
from xagents_ray.watch.result import Result


@listing_settings(o for group in GROUPS.values() for o in options(group))
def train(agent: str, **settings: Any) -> Result | SeedsResult:
    """Train an agent; the same as `xagents-ray train AGENT`.

    Args:
        agent: its name, `ppo`.
        settings: the command's flags with `_` for `-`, listed below.
    Returns:
        How it ended: a Result, or with `seeds` a SeedsResult.
    Raises:
        UserError: a setting is wrong; the message says what to do.
        Diverged: a loss, gradient or reward is no number.
        Broken: too many parts of the run failed, or a callback raised.
        KeyboardInterrupt: Ctrl-C ended the run, which is saved.
        SystemExit: SIGTERM ended the run, which is saved.

    >>> result = xagents_ray.train(
    ...     "ppo", env="CartPole-v1", n_envs=4, max_steps=2_000, seed=1, name="first",
    ...     local=True, quiet=True)
    >>> result.directory
    'runs/ppo/CartPole-v1/first'
    """
    from xagents_ray.commands.seeds import train_seeds  # it calls `train_with`

    result: Result | SeedsResult
    algorithm = find(agent)
    check_owners(algorithm, settings)
    with interrupting(), one_blas_thread():
        if settings.get("seeds") is not None:
            result = train_seeds(algorithm, settings)
        else:
            result = train_with(algorithm, settings)
        if result.signal is not None:
            raise SystemExit(128 + result.signal)
    return result


def train_with(
    algorithm: Algorithm,
    given: Mapping[str, Any],
    watch: Callable[[Progress], None] | None = None,
    threads: int | None = None,
) -> Result:
    """Train with settings by their flat names; see `train`, and `fit` for the rest."""
    resumed: Resumed | None = None
    given = plain(train_options(algorithm.config), given)
    if given.get("resume") is not None:
        resumed, given = find_run(algorithm.name, given)
        hints: list[str] = []
    else:
        hints = presets.hints(algorithm, given)
        given = presets.apply(algorithm, given)
    config = Config.of(algorithm.config, given)
    check_paths(algorithm, config.algorithm, "--weights", config.run.weights)
    check_paths(algorithm, config.algorithm, "--checkpoints", config.run.checkpoints)
    callbacks, lost = load(config.run.callbacks, resumed is not None)
    with Signals() as signals:
        return fit(
            algorithm,
            config,
            signals,
            start_driver,
            resumed,
            watch,
            threads,
            notes=[*hints, *lost],
            listeners=callbacks,
        )


def start_driver(run: RunSpec, signals: Signals, note: Callable[[str], None]) -> Driver:
    """Start the parts of a run: in this process with --local, else as Ray actors."""
    local, ray = "xagents_ray.run.local:start", "xagents_ray.cluster.run.driver:start"
    start: StartDriver = resolve_name(local if run.config.placement.local else ray)
    return start(run, signals, note)
