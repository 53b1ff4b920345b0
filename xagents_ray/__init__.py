"""Distributed reinforcement learning on Ray and TensorFlow 2.

`train` does the same as the command `xagents-ray train`. Importing this package imports
neither TensorFlow nor Ray.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

# In a checkout, `actors/`, `learners/` and `cluster/` are next to this directory; in an
# installed copy, they are inside. This finds them in both, as a bare checkout and Ray's
# `working_dir` require.
_ROOT = Path(__file__).resolve().parent.parent
if (_ROOT / "setup.cfg").is_file() and str(_ROOT) not in __path__:
    __path__.append(str(_ROOT))

if TYPE_CHECKING:
    from xagents_ray.algorithms.definition import AgentName
    from xagents_ray.algorithms.table import register
    from xagents_ray.commands.episodes import evaluate, play
    from xagents_ray.commands.load import load
    from xagents_ray.commands.plot import plot_history, plot_seeds
    from xagents_ray.commands.plot import plot_history as plot

    # stubs with the settings of each agent
    from xagents_ray.commands.public import *  # noqa: F403
    from xagents_ray.commands.public import train, tune
    from xagents_ray.commands.report import report
    from xagents_ray.commands.runs import runs
    from xagents_ray.core.errors import Broken, Diverged, UserError
    from xagents_ray.core.version import __version__
    from xagents_ray.networks.kinds import register_layer
    from xagents_ray.policy.episodes import Evaluation
    from xagents_ray.policy.own_loop import Agent
    from xagents_ray.policy.policy import Policy
    from xagents_ray.tuning.seeds_result import SeedsResult
    from xagents_ray.tuning.space import categorical, integer, log_uniform
    from xagents_ray.tuning.sweep import TuneResult
    from xagents_ray.watch.callbacks import Callback, RunContext
    from xagents_ray.watch.ready_callbacks import (
        EveryEnvSteps,
        StopOnNoImprovement,
        StopOnReward,
    )
    from xagents_ray.watch.result import Result
else:
    # Imported when used, because the command line imports this package first.
    _MODULES = {
        "algorithms.definition": "AgentName",
        "algorithms.table": "register",
        "commands.episodes": "evaluate play",
        "commands.load": "load",
        "commands.plot": "plot_history plot_seeds",
        "commands.report": "report",
        "commands.runs": "runs",
        "commands.train": "train",
        "commands.tune": "tune",
        "core.errors": "Broken Diverged UserError",
        "core.version": "__version__",
        "networks.kinds": "register_layer",
        "policy.episodes": "Evaluation",
        "policy.own_loop": "Agent",
        "policy.policy": "Policy",
        "tuning.seeds_result": "SeedsResult",
        "tuning.space": "categorical integer log_uniform",
        "tuning.sweep": "TuneResult",
        "watch.callbacks": "Callback RunContext",
        "watch.ready_callbacks": "EveryEnvSteps StopOnNoImprovement StopOnReward",
        "watch.result": "Result",
    }
    _HOMES = {name: home for home, own in _MODULES.items() for name in own.split()}

    def __getattr__(name: str) -> Any:
        """Return a public name, or one that scripts for xagents use, such as `PPO`."""
        own = "plot_history" if name == "plot" else name
        if own in _HOMES:
            found = getattr(import_module(f"{__name__}.{_HOMES[own]}"), own)
            globals()[name] = found
            return found
        if name == "agents" or name.isupper():
            from xagents_ray.compat.agents import xagents_attribute

            return xagents_attribute(name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted(__all__)


__all__ = [
    "Agent",
    "AgentName",
    "Broken",
    "Callback",
    "Diverged",
    "Evaluation",
    "EveryEnvSteps",
    "Policy",
    "Result",
    "RunContext",
    "SeedsResult",
    "StopOnNoImprovement",
    "StopOnReward",
    "TuneResult",
    "UserError",
    "__version__",
    "categorical",
    "evaluate",
    "integer",
    "load",
    "log_uniform",
    "play",
    "plot",
    "plot_history",
    "plot_seeds",
    "register",
    "register_layer",
    "report",
    "runs",
    "train",
    "tune",
]
