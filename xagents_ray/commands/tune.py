"""`xagents-ray tune` and `xagents_ray.tune`."""

from collections.abc import Mapping
from pkgutil import resolve_name
from typing import Any

from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.commands.documented import listing_settings
from xagents_ray.core.signals import raising_interrupts
from xagents_ray.tuning.plan import tune_options
from xagents_ray.tuning.sweep import TuneResult, run_sweep


@listing_settings(tune_options(None))
def tune(agent: str, **settings: Any) -> TuneResult:
    """Search for the best settings of an agent; the same as `xagents-ray tune AGENT`.

    Args:
        agent: name of the agent, such as `ppo`.
        settings: the command's flags with `_` for `-`, listed below. The search space
            of a setting is `log_uniform(1e-5, 1e-2)`, `integer(1, 8)` or
            `categorical(16, 32)`, or a list with the meaning of several values on the
            command line.
    Returns:
        The result of the sweep.
    Raises:
        UserError: a setting is invalid; the message says what to do.
        Broken: no trial completed, or the study's database failed.
        KeyboardInterrupt: the user pressed Ctrl-C; the sweep can be resumed.
        SystemExit: SIGTERM arrived; the sweep can be resumed.

    >>> result = xagents_ray.tune(
    ...     "ppo", env="CartPole-v1", lr=xagents_ray.log_uniform(1e-4, 1e-2),
    ...     n_trials=2, trial_steps=500, study="first", local=True, quiet=True)
    >>> better = {**result.best, "max_steps": 100_000}  # for xagents_ray.train
    """
    algorithm = find_algorithm(agent)
    with raising_interrupts():
        result = tune_with(algorithm, settings)
        if result.signal is not None:
            raise SystemExit(128 + result.signal)
    return result


def tune_with(algorithm: Algorithm, given: Mapping[str, Any]) -> TuneResult:
    """Run a sweep on Ray, given settings by flat name; see `tune`."""
    return run_sweep(algorithm, given, _run_trials)


def _run_trials(*sweep: Any) -> None:
    resolve_name("xagents_ray.cluster.tune.ray_sweep:run_trials")(*sweep)
