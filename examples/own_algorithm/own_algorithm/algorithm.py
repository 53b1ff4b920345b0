"""REINFORCE: settings and row. Imports no TensorFlow, so that help stays quick."""

from dataclasses import dataclass
from pathlib import Path

from xagents_ray.extend import (
    Algorithm,
    Model,
    OneModel,
    PolicyGradientConfig,
    changed,
    option,
)


@dataclass(frozen=True, kw_only=True)
class ReinforceConfig(OneModel, PolicyGradientConfig):
    """REINFORCE, doi:10.1007/BF00992696."""

    n_steps: int = changed(PolicyGradientConfig, "n_steps", 256)
    baseline: bool = option(
        True,
        "Subtract the mean return of a batch from its returns",
        hp_type="categorical",
    )


ROW = Algorithm(
    name="reinforce",
    config=ReinforceConfig,
    learner="own_algorithm.learner:Reinforce",
    policy="xagents_ray.actors.policies.actor_critic:ActorCriticPolicy",
    models=(Model("policy", "trpo-actor-{kind}.cfg", ("actions",), has_log_std=True),),
    on_policy=True,
    presets=Path(__file__).with_name("presets.yaml"),
)
