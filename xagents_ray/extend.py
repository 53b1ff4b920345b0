"""What an algorithm, a replay buffer or a kind of layer of one's own is made from.

`examples/own_algorithm` is an algorithm in a package of its own: a module of settings
and its `Algorithm`, one of losses and steps, and an entry point. These names
suffice for the first and need no TensorFlow. What learns is a class like those in
`xagents_ray.learners`, made from a `xagents_ray.learners.setup.LearnerSetup`, with what
`xagents_ray.learners.learner.LearningAlgorithm` lists. What acts extends
`xagents_ray.actors.policies.base.ActorPolicy`, or is one of those beside it, and a
replay buffer extends `Replay`.

Settings are a dataclass that extends `AlgorithmConfig`. Its fields are options of your
own (`option`, `count`, …) and options that other algorithms have too, with their checks
and what follows from them, from the modules `learning`, `models`, `policy_gradient`,
`state_dependent`, `replay`, `trajectory_replay` and `off_policy`:
`n_steps: int = policy_gradient.n_steps(256)`.

`xagents_ray.compat` is written with these names and those of `xagents_ray` alone.
"""

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from xagents_ray.algorithms import (
    off_policy,
    policy_gradient,
    state_dependent,
    trajectory_replay,
)
from xagents_ray.algorithms.definition import Algorithm, Model
from xagents_ray.algorithms.off_policy import DETERMINISTIC_MODELS
from xagents_ray.algorithms.policy_gradient import ACTOR_CRITIC
from xagents_ray.algorithms.table import ALGORITHMS, find_algorithm, register
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Fill
from xagents_ray.networks.kinds import register_layer
from xagents_ray.networks.layers import Dense, Layer
from xagents_ray.networks.layout import Layout, read_layout
from xagents_ray.networks.section import Section
from xagents_ray.policy.conversion import make_env
from xagents_ray.policy.loading import check_weights_file
from xagents_ray.replay.base import Replay
from xagents_ray.replay.trajectories import TrajectoryReplay
from xagents_ray.replay.transitions import TransitionReplay
from xagents_ray.settings import learning, models, replay
from xagents_ray.settings.algorithm import (
    AlgorithmConfig,
    Group,
    ReplayGroup,
    RolloutGroup,
)
from xagents_ray.settings.options import (
    coefficient,
    count,
    fraction,
    option,
    options,
    positive,
    replaced_settings,
    shared,
)
from xagents_ray.settings.training import EnvConfig, TrainingConfig

if TYPE_CHECKING:
    build_model: Any
else:

    def __getattr__(name: str) -> Any:
        if name == "build_model":  # which imports TensorFlow
            return resolve_name("xagents_ray.networks.keras:build_model")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "ACTOR_CRITIC",
    "ALGORITHMS",
    "DETERMINISTIC_MODELS",
    "Algorithm",
    "AlgorithmConfig",
    "Dense",
    "EnvConfig",
    "EnvSpec",
    "Fill",
    "Group",
    "Layer",
    "Layout",
    "Model",
    "Replay",
    "ReplayGroup",
    "RolloutGroup",
    "Section",
    "TrainingConfig",
    "TrajectoryReplay",
    "TransitionReplay",
    "UserError",
    "build_model",
    "check_weights_file",
    "coefficient",
    "count",
    "find_algorithm",
    "fraction",
    "learning",
    "make_env",
    "models",
    "off_policy",
    "option",
    "options",
    "policy_gradient",
    "positive",
    "read_layout",
    "register",
    "register_layer",
    "replaced_settings",
    "replay",
    "shared",
    "state_dependent",
    "trajectory_replay",
]
