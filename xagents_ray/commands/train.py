"""`xagents-ray train` and `xagents_ray.train`."""

from collections.abc import Mapping, Sequence
from typing import Any

from xagents_ray.commands.documented import listing_settings
from xagents_ray.commands.seeds import train_seeds
from xagents_ray.commands.training_run import train_with
from xagents_ray.core.process import one_blas_thread
from xagents_ray.core.python_calls import python_call
from xagents_ray.run.config_file import chosen_algorithm, with_config
from xagents_ray.settings.config import GROUPS
from xagents_ray.settings.options import options
from xagents_ray.tuning.seeds_result import SeedsResult
from xagents_ray.watch.callbacks import Callback
from xagents_ray.watch.result import Result


@listing_settings(o for group in GROUPS.values() for o in options(group))
def train(agent: str | None = None, **settings: Any) -> Result | SeedsResult:
    """Train an agent; the same as `xagents-ray train AGENT`.

    Args:
        agent: name of the agent, such as `ppo`; None for that of the file `config`.
        settings: the command's flags with `_` for `-`, listed below.
    Returns:
        A Result, or a SeedsResult if `seeds` is set.
    Raises:
        UserError: a setting is invalid; the message says what to do.
        Diverged: a loss, gradient or reward is not finite.
        Broken: too many parts of the run failed, or a callback raised.
        KeyboardInterrupt: the user pressed Ctrl-C; the run is saved.
        SystemExit: SIGTERM arrived; the run is saved.

    >>> result = xagents_ray.train(
    ...     "ppo", env="CartPole-v1", n_envs=4, max_steps=2_000, seed=1, name="first",
    ...     local=True, quiet=True)
    >>> result.directory
    'runs/ppo/CartPole-v1/first'
    """
    return train_with_listeners(agent, settings)


def train_with_listeners(
    agent: str | None, settings: Mapping[str, Any], listeners: Sequence[Callback] = ()
) -> Result | SeedsResult:
    """Train an agent, with callbacks that the settings of the run don't contain.

    Args:
        agent: name of the agent, such as `ppo`; None for that of the file `config`.
        settings: settings of `train`.
        listeners: callbacks that are called after those of the settings; a run that is
            resumed lacks them, and so do the runs of `seeds`.
    Returns:
        The result of `train`, which raises the same errors.
    """
    result: Result | SeedsResult
    with python_call(), one_blas_thread():
        algorithm = chosen_algorithm(agent, settings.get("config"))
        settings = with_config(algorithm, settings)
        if settings.get("seeds") is not None:
            result = train_seeds(algorithm, settings)
        else:
            result = train_with(algorithm, settings, listeners)
        if result.signal is not None:
            raise SystemExit(128 + result.signal)
    return result
