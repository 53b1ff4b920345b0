"""The API for custom algorithms, replay buffers and kinds of layers.

`examples/own_algorithm` is an algorithm in a separate package: a module with the
settings and the `Algorithm`, one with the learner, and an entry point. The first module
only uses names from here and doesn't load TensorFlow. The learner is a class like those
in `xagents_ray.learners`: it is constructed from a
`xagents_ray.learners.setup.LearnerSetup` and implements
`xagents_ray.learners.learning_algorithm.LearningAlgorithm`. The policy extends
`xagents_ray.actors.policies.base.ActorPolicy` or is an existing one, and a replay
buffer extends `Replay`.

Settings are a dataclass that extends `AlgorithmConfig`. Its fields are custom options
(`option`, `count`, …) and shared options, with their checks, from the modules
`learning`, `models`, `policy_gradient`, `state_dependent`, `noisy_layers`, `replay`,
`trajectory_replay` and `off_policy`: `n_steps: int = policy_gradient.n_steps(256)`.

`xagents_ray.compat` only uses these names and those of `xagents_ray`.
"""

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from xagents_ray.algorithms import (
    noisy_layers,
    off_policy,
    policy_gradient,
    state_dependent,
    trajectory_replay,
)
from xagents_ray.algorithms.definition import Algorithm, Model
from xagents_ray.algorithms.off_policy import DETERMINISTIC_MODELS
from xagents_ray.algorithms.policy_gradient import ACTOR_CRITIC
from xagents_ray.algorithms.presets import apply as apply_preset
from xagents_ray.algorithms.table import (
    ALGORITHMS,
    find_algorithm,
    plain_settings,
    register,
)
from xagents_ray.commands.train import train_with_listeners
from xagents_ray.core.errors import Mistakes, UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Fill, Trajectory
from xagents_ray.networks.kinds import register_initializer, register_layer
from xagents_ray.networks.layers import Dense, Layer
from xagents_ray.networks.layout import Layout
from xagents_ray.networks.reading import read_layout
from xagents_ray.networks.section import INITIALIZERS, Section
from xagents_ray.policy.conversion import make_env
from xagents_ray.policy.model_weights import (
    check_weights_file,
    newest_arrays,
    read_weights,
    write_weights,
)
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
from xagents_ray.settings.config import replaced_settings
from xagents_ray.settings.options import (
    coefficient,
    count,
    fraction,
    option,
    options,
    positive,
    shared,
)
from xagents_ray.settings.training import EnvConfig, TrainingConfig
from xagents_ray.watch.hooks import Hooks

_TENSORFLOW = {
    "build_model": "xagents_ray.networks.keras:build_model",
    "named_weights": "xagents_ray.networks.keras:named_weights",
    "redrawn_model": "xagents_ray.networks.keras_models:redrawn_model",
    "set_threads": "xagents_ray.networks.keras_whole:set_threads",
    "user_variables": "xagents_ray.networks.keras_models:user_variables",
}
"""Import paths of functions that import TensorFlow when they are first used."""

if TYPE_CHECKING:
    build_model: Any
    named_weights: Any
    redrawn_model: Any
    set_threads: Any
    user_variables: Any
else:

    def __getattr__(name: str) -> Any:
        if name in _TENSORFLOW:
            return resolve_name(_TENSORFLOW[name])
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "ACTOR_CRITIC",
    "ALGORITHMS",
    "DETERMINISTIC_MODELS",
    "INITIALIZERS",
    "Algorithm",
    "AlgorithmConfig",
    "Dense",
    "EnvConfig",
    "EnvSpec",
    "Fill",
    "Group",
    "Hooks",
    "Layer",
    "Layout",
    "Mistakes",
    "Model",
    "Replay",
    "ReplayGroup",
    "RolloutGroup",
    "Section",
    "TrainingConfig",
    "Trajectory",
    "TrajectoryReplay",
    "TransitionReplay",
    "UserError",
    "apply_preset",
    "build_model",
    "check_weights_file",
    "coefficient",
    "count",
    "find_algorithm",
    "fraction",
    "learning",
    "make_env",
    "models",
    "named_weights",
    "newest_arrays",
    "noisy_layers",
    "off_policy",
    "option",
    "options",
    "plain_settings",
    "policy_gradient",
    "positive",
    "read_layout",
    "read_weights",
    "redrawn_model",
    "register",
    "register_initializer",
    "register_layer",
    "replaced_settings",
    "replay",
    "set_threads",
    "shared",
    "state_dependent",
    "train_with_listeners",
    "trajectory_replay",
    "user_variables",
    "write_weights",
]
