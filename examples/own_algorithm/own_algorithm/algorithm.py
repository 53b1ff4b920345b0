"""REINFORCE: settings and networks. Imports no TensorFlow, so that help stays quick."""

from dataclasses import dataclass
from pathlib import Path

from xagents_ray.extend import (
    Algorithm,
    AlgorithmConfig,
    Model,
    models,
    option,
    policy_gradient,
)


@dataclass(frozen=True, kw_only=True)
class ReinforceConfig(AlgorithmConfig):
    """REINFORCE, doi:10.1007/BF00992696."""

    model: str | None = models.model(None)
    n_steps: int = policy_gradient.n_steps(256)
    entropy_coef: float = policy_gradient.entropy_coef(0.01)
    grad_norm: float = policy_gradient.grad_norm(0.5)
    baseline: bool = option(True, "Subtract the mean return", hp_type="categorical")


ROW = Algorithm(
    name="reinforce",
    config=ReinforceConfig,
    learner="own_algorithm.learner:Reinforce",
    policy="xagents_ray.actors.policies.actor_critic:ActorCriticPolicy",
    models=(Model("policy", "trpo-actor-{kind}.cfg", ("actions",), has_log_std=True),),
    on_policy=True,
    presets=Path(__file__).with_name("presets.yaml"),
)
