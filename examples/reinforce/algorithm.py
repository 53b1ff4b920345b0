"""REINFORCE: settings and row. Copy it to xagents_ray/algorithms/reinforce.py."""

from dataclasses import dataclass

from xagents_ray.algorithms.families import PolicyGradientConfig
from xagents_ray.algorithms.row import Algorithm, Model, register
from xagents_ray.settings.algorithm import OneModel
from xagents_ray.settings.options import changed, option


@dataclass(frozen=True, kw_only=True)
class ReinforceConfig(OneModel, PolicyGradientConfig):
    """REINFORCE, doi:10.1007/BF00992696."""

    n_steps: int = changed(PolicyGradientConfig, "n_steps", 256)
    baseline: bool = option(
        True,
        "Subtract the mean return of a batch from its returns",
        hp_type="categorical",
    )


register(
    Algorithm(
        name="reinforce",
        config=ReinforceConfig,
        learner="xagents_ray.learners.reinforce:Reinforce",
        policy="xagents_ray.actors.policies.actor_critic:ActorCriticPolicy",
        models=(
            Model("policy", "trpo-actor-{kind}.cfg", ("actions",), has_log_std=True),
        ),
        on_policy=True,
    )
)
