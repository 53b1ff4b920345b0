"""Trust region policy optimization."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from xagents_ray.algorithms.families import AdvantageConfig
from xagents_ray.algorithms.row import Algorithm, Model, register
from xagents_ray.settings.algorithm import ActorAndCritic
from xagents_ray.settings.options import changed, option


@dataclass(frozen=True, kw_only=True)
class TRPOConfig(ActorAndCritic, AdvantageConfig):
    """Trust region policy optimization, arXiv:1502.05477."""

    replaced: ClassVar[Mapping[str, str]] = {
        "clip_norm": "bound the policy's step with --max-kl and set the critic's "
        "passes with --critic-iterations",
        "ppo_epochs": "the policy takes one step for each batch; set the critic's "
        "passes with --critic-iterations",
    }
    n_steps: int = changed(AdvantageConfig, "n_steps", 512)
    lam: float = changed(AdvantageConfig, "lam", 1.0)
    entropy_coef: float = changed(AdvantageConfig, "entropy_coef", 0.0)
    mini_batches: int = changed(
        AdvantageConfig,
        "mini_batches",
        help="Number of mini-batches to use per pass of the critic",
    )
    grad_norm: float = changed(
        AdvantageConfig,
        "grad_norm",
        help="Largest global norm of the critic's gradient",
    )
    max_kl: float = option(
        0.001,
        low=0,
        exclusive=True,
        hp_type="log_uniform",
        help="Maximum KL divergence used for calculating Lagrange multiplier",
        known_as=("target_kl",),
    )
    cg_iterations: int = option(
        10, low=1, help="Gradient conjugation iterations per train step"
    )
    cg_damping: float = option(
        0.001,
        low=0,
        hp_type="log_uniform",
        help="Gradient conjugation damping parameter",
    )
    cg_residual_tolerance: float = option(
        1e-10,
        low=0,
        hp_type="log_uniform",
        help="Gradient conjugation residual tolerance parameter",
    )
    fvp_n_steps: int = option(
        5,
        low=1,
        hp_type="int",
        help="Every n-th sample is used to calculate the Fisher-vector product",
    )
    actor_iterations: int = option(
        10,
        low=1,
        hp_type="int",
        help="Steps that the line search tries per train step, each half of the last",
    )
    critic_iterations: int = option(
        3,
        low=1,
        hp_type="int",
        help="Passes of the critic over the batch",
        remedy_for="learning",
    )


register(
    Algorithm(
        name="trpo",
        config=TRPOConfig,
        learner="xagents_ray.learners.trpo:TRPO",
        policy="xagents_ray.actors.policies.actor_critic:ActorCriticPolicy",
        models=(
            Model(
                "actor",
                "trpo-actor-{kind}.cfg",
                ("actions",),
                "actor_model",
                has_log_std=True,
            ),
            Model("critic", "trpo-critic-{kind}.cfg", ("value",), "critic_model"),
        ),
        on_policy=True,
    )
)
