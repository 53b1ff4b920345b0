"""Distributed reinforcement learning on Ray and TensorFlow 2.

`train` does the same as the command `xagents-ray train`. Importing this package imports
neither TensorFlow nor Ray.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

# In a checkout, `actors/`, `learners/` and `cluster/` are next to this directory; in an
# installed copy, they are inside. This finds them in both, as a bare checkout and Ray's
# `working_dir` require.
_ROOT = Path(__file__).resolve().parent.parent
if (_ROOT / "setup.cfg").is_file() and str(_ROOT) not in __path__:
    __path__.append(str(_ROOT))

from xagents_ray.algorithms.definition import AgentName  # noqa: E402
from xagents_ray.algorithms.table import register  # noqa: E402
from xagents_ray.commands.episodes import evaluate, play  # noqa: E402
from xagents_ray.commands.load import load  # noqa: E402
from xagents_ray.commands.plot import plot_history, plot_seeds  # noqa: E402
from xagents_ray.commands.runs import runs  # noqa: E402
from xagents_ray.core.errors import Broken, Diverged, UserError  # noqa: E402
from xagents_ray.core.version import __version__  # noqa: E402
from xagents_ray.networks.kinds import register_layer  # noqa: E402
from xagents_ray.policy.episodes import Evaluation  # noqa: E402
from xagents_ray.policy.policy import Policy  # noqa: E402
from xagents_ray.tuning.seeds_result import SeedsResult  # noqa: E402
from xagents_ray.tuning.space import categorical, integer, log_uniform  # noqa: E402
from xagents_ray.tuning.sweep import TuneResult  # noqa: E402
from xagents_ray.watch.callbacks import Callback, RunContext  # noqa: E402
from xagents_ray.watch.result import Result  # noqa: E402

if TYPE_CHECKING:  # stubs with the settings of each agent
    from xagents_ray.commands.public import *  # noqa: F403
    from xagents_ray.commands.public import train, tune
    from xagents_ray.policy.own_loop import Agent
else:
    from xagents_ray.commands.train import train
    from xagents_ray.commands.tune import tune

    def __getattr__(name: str) -> Any:
        """Return `Agent`, or a name that scripts for xagents use, such as `PPO`."""
        if name == "Agent":
            from xagents_ray.policy.own_loop import Agent

            return Agent
        if name == "agents" or name.isupper():
            from xagents_ray.compat.agents import xagents_attribute

            return xagents_attribute(name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


plot = plot_history

__all__ = [
    "Agent",
    "AgentName",
    "Broken",
    "Callback",
    "Diverged",
    "Evaluation",
    "Policy",
    "Result",
    "RunContext",
    "SeedsResult",
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
    "runs",
    "train",
    "tune",
]
