"""The settings of the algorithms that learn from each rollout once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from xagents_ray.errors import UserError
from xagents_ray.hyperparameters.common import (
    ActorAndCritic,
    AlgorithmConfig,
    OneModel,
)
from xagents_ray.options import changed, option


@dataclass(frozen=True, kw_only=True)
class PolicyGradientConfig(AlgorithmConfig):
    """What every algorithm with a stochastic policy has."""

    n_steps: int = option(
        5,
        low=1,
        unit="vector steps",
        hp_type="categorical",
        help="Transition steps of each environment per update",
        known_as=("num_steps", "rollout_steps"),
    )
    entropy_coef: float = option(
        0.01,
        low=0,
        hp_type="log_uniform",
        help="Entropy coefficient for loss calculation",
        known_as=("ent_coef", "entropy_coeff"),
    )
    value_loss_coef: float = option(
        0.5,
        low=0,
        hp_type="log_uniform",
        help="Value loss coefficient for value loss calculation",
        known_as=("vf_coef", "value_coef", "vf_loss_coeff"),
    )
    grad_norm: float = option(
        0.5,
        low=0,
        exclusive=True,
        hp_type="log_uniform",
        help="Largest global norm of the gradient; larger ones are scaled to it",
        known_as=("max_grad_norm", "grad_clip"),
    )

    @property
    def batch_steps(self) -> int:
        """Vector steps of one rollout."""
        return self.n_steps


@dataclass(frozen=True, kw_only=True)
class AdvantageConfig(PolicyGradientConfig):
    """What learning from mini-batches of one rollout's advantages has."""

    lam: float = option(
        0.95,
        low=0,
        high=1,
        hp_type="log_uniform",
        help="GAE-Lambda for advantage estimation",
        known_as=("gae_lambda", "lambda_"),
    )
    mini_batches: int = option(
        4,
        low=1,
        hp_type="categorical",
        help="Number of mini-batches to use per pass",
        known_as=("num_minibatches", "n_minibatches"),
    )
    advantage_epsilon: float = option(
        1e-8,
        low=0,
        exclusive=True,
        hp_type="log_uniform",
        help="Value added to the standard deviation that advantages are divided by",
    )

    def check_batch(self, n_envs: int) -> None:
        """Raise UserError when there are more mini-batches than samples."""
        if self.mini_batches > self.n_steps * n_envs:
            raise UserError(
                f"--mini-batches {self.mini_batches} is more than the batch of "
                f"{self.n_steps * n_envs} samples (--n-steps x --n-envs): lower it."
            )


@dataclass(frozen=True, kw_only=True)
class A2CConfig(OneModel, PolicyGradientConfig):
    """Advantage actor-critic, arXiv:1602.01783."""


@dataclass(frozen=True, kw_only=True)
class PPOConfig(OneModel, AdvantageConfig):
    """Proximal policy optimisation, arXiv:1707.06347."""

    n_steps: int = changed(AdvantageConfig, "n_steps", 128)
    ppo_epochs: int = option(
        4,
        low=1,
        hp_type="categorical",
        help="Passes over the batch per training step",
        known_as=("n_epochs", "num_epochs", "epochs", "update_epochs"),
    )
    clip_norm: float = option(
        0.1,
        low=0,
        exclusive=True,
        hp_type="log_uniform",
        help="Clipping of the importance ratio",
        known_as=("clip_range", "clip_coef", "clip_param", "clip_ratio"),
    )
    clip_decay: bool = option(
        False, help="If specified, --clip-norm falls linearly to 0 over --max-steps"
    )
    clip_value: float | None = option(
        None,
        low=0,
        unit="reward",
        hp_type="log_uniform",
        help="Clipping of the value's change, in units of the rewards learnt from; 0 "
        "for none; default: that of --clip-norm, with its decay",
        known_as=("clip_range_vf", "vf_clip_param"),
    )


@dataclass(frozen=True, kw_only=True)
class TRPOConfig(ActorAndCritic, AdvantageConfig):
    """Trust region policy optimisation, arXiv:1502.05477."""

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
        3, low=1, hp_type="int", help="Passes of the critic over the batch"
    )
