"""`xagents-ray tune` and `xagents_ray.tune`."""

import importlib
import os
from collections.abc import Mapping
from pkgutil import resolve_name
from typing import Any

from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.commands.documented import listing_settings
from xagents_ray.core.errors import UserError
from xagents_ray.core.python_calls import python_call
from xagents_ray.run.config_file import chosen_algorithm, with_config
from xagents_ray.settings.options import options
from xagents_ray.settings.resources import ConnectionConfig
from xagents_ray.tuning.plan import UNSUPPORTED_OPTIONS, tune_options
from xagents_ray.tuning.sweep import TuneResult, run_sweep

_STORAGE = "XAGENTS_RAY_STORAGE"
"""Environment variable with the URL of the study's database."""


@listing_settings(tune_options(None))
def tune(agent: str | None = None, **settings: Any) -> TuneResult:
    """Search for the best settings of an agent; the same as `xagents-ray tune AGENT`.

    Args:
        agent: name of the agent, such as `ppo`; None for that of the file `config`.
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
    with python_call():
        algorithm = chosen_algorithm(agent, settings.get("config"))
        result = tune_with(algorithm, settings)
        if result.signal is not None:
            raise SystemExit(128 + result.signal)
    return result


def tune_with(algorithm: Algorithm, given: Mapping[str, Any]) -> TuneResult:
    """Run a sweep on Ray, given settings by flat name; see `tune`."""
    given = _with_fixed(algorithm, given)
    url = os.environ.get(_STORAGE)
    if url and given.get("storage") is None:
        given = {**given, "storage": url}
    return run_sweep(algorithm, given, _run_trials)


def _with_fixed(algorithm: Algorithm, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings, completed by those of the file `config` that `tune` has.

    Those of a single run are left out: --trial-steps takes the place of --max-steps.
    """
    known = tune_options(algorithm.config)
    of_sweep = {each.name for each in options(ConnectionConfig)} & given.keys()
    of_trials = {name: given[name] for name in given.keys() - of_sweep}
    whole = with_config(algorithm, of_trials, known, UNSUPPORTED_OPTIONS)
    return whole | {name: given[name] for name in of_sweep}


def tune_from_shell(algorithm: Algorithm, given: Mapping[str, Any]) -> TuneResult:
    """Run a sweep as `tune_with` does, with no password in this process's arguments.

    Raises:
        UserError: --storage has a password.
    """
    if url := given.get("storage"):
        parts = importlib.import_module("xagents_ray.tuning.optuna_parts")
        if parts.has_password(url):
            raise UserError(
                f"--storage {parts.without_password(url)} has a password, which other "
                f"users of this machine see in the list of processes: set {_STORAGE} "
                "to the URL in place of the flag, or keep the password in ~/.pgpass."
            )
    return tune_with(algorithm, given)


def _run_trials(*sweep: Any) -> None:
    resolve_name("xagents_ray.cluster.tune.ray_sweep:run_trials")(*sweep)
