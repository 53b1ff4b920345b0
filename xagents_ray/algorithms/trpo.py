"""Trust region policy optimization."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from xagents_ray.algorithms.policy_gradient import AdvantageConfig
from xagents_ray.algorithms.row import Algorithm, Model, add
from xagents_ray.networks.layout import Layout
from xagents_ray.settings.algorithm import ActorAndCritic
from xagents_ray.settings.options import changed, coefficient, count, positive


@dataclass(frozen=True, kw_only=True)
class TRPOConfig(ActorAndCritic, AdvantageConfig):
    """Trust region policy optimization, arXiv:1502.05477."""

    replaced: ClassVar[Mapping[str, str]] = {
        **AdvantageConfig.replaced,
        "clip_norm": "bound the policy's step with --max-kl and set the critic's "
        "passes with --critic-iterations",
        "ppo_epochs": "the policy takes one step for each batch; set the critic's "
        "passes with --critic-iterations",
        "replay_ratio": "its trust region bounds the KL divergence from one policy at "
        "the states that this policy visited, and replayed steps come from many; use "
        "a2c, ppo or impala",
    }
    lr: float = changed(
        AdvantageConfig,
        "lr",
        help="Learning rate of the critic; --max-kl bounds the policy's step",
    )
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
    critic_lr: float | None = changed(
        ActorAndCritic,
        "critic_lr",
        help="Learning rate of the critic, which replaces --lr",
        replaces=("lr",),
    )
    max_kl: float = positive(
        0.001,
        "KL divergence that a step aims at; the line search accepts 1.5 times this",
        known_as=("target_kl",),
    )
    cg_iterations: int = count(10, "Conjugate gradient iterations per train step")
    cg_damping: float = coefficient(0.001, "Damping that is added to the Fisher matrix")
    cg_residual_tolerance: float = coefficient(
        1e-10, "Squared residual at which conjugate gradients stop"
    )
    fvp_n_steps: int = count(
        5,
        "Every n-th sample is used to calculate the Fisher-vector product",
        hp_type="int",
    )
    actor_iterations: int = count(
        10,
        "Steps that the line search tries per train step, each half of the last",
        hp_type="int",
    )
    critic_iterations: int = count(
        3, "Passes of the critic over the batch", hp_type="int", remedy_for="learning"
    )


def _adapt(layout: Layout, config: TRPOConfig) -> Layout:
    return config.with_log_std(layout, config.actor_model)


add(
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
                gives_logits=True,
                adapt=_adapt,
            ),
            Model("critic", "trpo-critic-{kind}.cfg", ("value",), "critic_model"),
        ),
        on_policy=True,
        multi_discrete=True,
    )
)
