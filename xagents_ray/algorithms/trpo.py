"""Trust region policy optimization."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from xagents_ray.algorithms import (
    critic_inputs,
    noisy_layers,
    policy_gradient,
    recurrent_layers,
    state_dependent,
)
from xagents_ray.algorithms.definition import Algorithm, Model, add_algorithm
from xagents_ray.networks.layout import Layout
from xagents_ray.settings import learning, models
from xagents_ray.settings.algorithm import AlgorithmConfig
from xagents_ray.settings.options import coefficient, count, positive


@dataclass(frozen=True, kw_only=True)
class TRPOConfig(AlgorithmConfig):
    """Trust region policy optimization, arXiv:1502.05477."""

    replaced: ClassVar[Mapping[str, str]] = {
        "clip_norm": "bound the policy's step with --max-kl and set the critic's "
        "passes with --critic-iterations",
        "ppo_epochs": "the policy takes one step for each batch; set the critic's "
        "passes with --critic-iterations",
        "replay_ratio": "its trust region bounds the KL divergence from one policy at "
        "the states that this policy visited, and replayed steps come from many; use "
        "a2c, ppo or impala",
    }

    gamma: float = learning.gamma(0.99)
    optimizer: str = learning.optimizer("adam")
    lr: float | str = learning.lr(
        7e-4, help="Learning rate of the critic; --max-kl bounds the policy's step"
    )
    beta1: float = learning.beta1(0.9)
    beta2: float = learning.beta2(0.999)
    opt_epsilon: float = learning.opt_epsilon(1e-7)
    precision: str = learning.precision("float32")
    lr_decay: bool = learning.lr_decay(False)
    normalize_observations: bool = learning.normalize_observations(False)
    normalize_rewards: bool = learning.normalize_rewards(False)

    feature_maker: str | None = models.feature_maker(None)
    actor_model: str | None = models.actor_model(None)
    critic_model: str | None = models.critic_model(None)
    critic_lr: float | None = models.critic_lr(
        None,
        help="Learning rate of the critic, which replaces --lr",
        replaces=("lr",),
    )
    critic_inputs: str | None = critic_inputs.critic_inputs(None)
    memory: str | None = recurrent_layers.memory(None)

    n_steps: int = policy_gradient.n_steps(512)
    entropy_coef: float | str = policy_gradient.entropy_coef(0.0)
    grad_norm: float = policy_gradient.grad_norm(
        0.5, help="Largest global norm of the critic's gradient"
    )
    value_loss_coef: float = policy_gradient.value_loss_coef(0.5)
    lam: float = policy_gradient.lam(1.0)
    mini_batches: int = policy_gradient.mini_batches(
        4, help="Number of mini-batches to use per pass of the critic"
    )
    normalize_advantages: bool = policy_gradient.normalize_advantages(
        True, help=policy_gradient.NORMALIZED
    )
    advantage_epsilon: float = policy_gradient.advantage_epsilon(1e-8)
    action_scaling: bool = policy_gradient.action_scaling(True)
    init_log_std: float = state_dependent.init_log_std(0.0)
    sde_frequency: int | None = state_dependent.sde_frequency(None)
    noisy: str | None = noisy_layers.noisy(None)
    noisy_sigma: float | None = noisy_layers.noisy_sigma(None)

    max_kl: float = positive(
        0.001,
        "KL divergence that a step aims at; the line search accepts 1.5 times this",
        known_as=("target_kl",),
        common=True,
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
        3,
        "Passes of the critic over the batch",
        hp_type="int",
        remedy_for="learning",
        common=True,
    )


def _adapt(layout: Layout, config: TRPOConfig) -> Layout:
    layout = noisy_layers.add_noise(layout, config)
    return state_dependent.add_log_std(layout, config, config.actor_model)


add_algorithm(
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
        action_masks=True,
        recurrent=True,
        multi_discrete=True,
    )
)
