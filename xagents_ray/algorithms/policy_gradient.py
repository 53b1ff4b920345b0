"""Settings and networks of algorithms that learn a stochastic policy from rollouts."""

from dataclasses import dataclass
from typing import ClassVar

from xagents_ray.algorithms.row import Model
from xagents_ray.algorithms.state_dependent import StateDependentConfig
from xagents_ray.core.errors import UserError
from xagents_ray.networks import keras_files
from xagents_ray.networks.layout import Layout
from xagents_ray.settings.algorithm import AlgorithmConfig, OneModel
from xagents_ray.settings.options import (
    changed,
    coefficient,
    count,
    fraction,
    option,
    positive,
)


@dataclass(frozen=True, kw_only=True)
class PolicyAndValue(OneModel, AlgorithmConfig):
    """One network with two outputs: the policy and the value."""

    separate_networks: bool = option(
        False,
        "If specified, the policy and the value share no layers: the value has copies "
        "of those before the policy's output",
        acts=True,
        known_as=("share_features_extractor", "vf_share_layers"),
    )


def _adapt(layout: Layout, config: AlgorithmConfig) -> Layout:
    if isinstance(config, PolicyAndValue) and config.separate_networks:
        if keras_files.content(config.model) is not None:
            raise UserError(
                "--separate-networks copies the layers of .cfg files, not of Keras "
                "models: drop it, and give each output layers of its own in the model."
            )
        layout = layout.separated()
    if isinstance(config, PolicyAndValue) and isinstance(config, GaussianConfig):
        layout = config.with_log_std(layout, config.model)
    return layout


ACTOR_CRITIC = Model(
    "policy",
    "actor-critic-{kind}.cfg",
    ("actions", "value"),
    has_log_std=True,
    gives_logits=True,
    adapt=_adapt,
)
"""One network with two outputs: the policy and the value."""


@dataclass(frozen=True, kw_only=True)
class PolicyGradientConfig(AlgorithmConfig):
    """Settings of algorithms with a stochastic policy."""

    # Whether it learns from the values of the network that acted, if that has any.
    reads_values: ClassVar[bool] = True
    n_steps: int = count(
        5,
        "Transition steps of each environment per update",
        unit="vector steps",
        hp_type="categorical",
        known_as=("num_steps", "rollout_steps"),
        remedy_for="transport",
    )
    entropy_coef: float = coefficient(
        0.01,
        "Entropy coefficient for loss calculation",
        known_as=("ent_coef", "entropy_coeff"),
    )
    grad_norm: float = positive(
        0.5,
        "Largest global norm of the gradient; larger ones are scaled to it",
        known_as=("max_grad_norm", "grad_clip"),
    )

    @property
    def batch_steps(self) -> int:
        """Vector steps of one rollout."""
        return self.n_steps


@dataclass(frozen=True, kw_only=True)
class ActorCriticConfig(PolicyGradientConfig):
    """Settings of algorithms with a stochastic policy and a critic of observations."""

    value_loss_coef: float = coefficient(
        0.5,
        "Value loss coefficient for value loss calculation",
        known_as=("vf_coef", "value_coef", "vf_loss_coeff"),
    )


@dataclass(frozen=True, kw_only=True)
class GaussianConfig(StateDependentConfig, ActorCriticConfig):
    """Settings of algorithms that draw continuous actions from a Gaussian."""


@dataclass(frozen=True, kw_only=True)
class AdvantageConfig(GaussianConfig):
    """Settings of algorithms that learn from mini-batches with advantages."""

    lam: float = fraction(
        0.95, "GAE-Lambda for advantage estimation", known_as=("gae_lambda", "lambda_")
    )
    mini_batches: int = count(
        4,
        "Number of mini-batches to use per pass",
        hp_type="categorical",
        known_as=("num_minibatches", "n_minibatches"),
    )
    normalize_advantages: bool = option(
        True,
        "Shift and scale the policy's advantages to a mean of 0 and a deviation of 1; "
        "--no-normalize-advantages learns from them as they are",
        known_as=("normalize_advantage", "norm_adv", "standardize_advantages"),
    )
    advantage_epsilon: float = positive(
        1e-8,
        "Value added to the standard deviation that advantages are divided by",
        needs=("normalize_advantages",),
    )

    def update_rows(self, n_envs: int) -> int:
        """Return the rows of one mini-batch."""
        return -(-super().update_rows(n_envs) // self.mini_batches)

    def check_batch(self, n_envs: int) -> None:
        """Raise UserError when there are more mini-batches than samples."""
        if self.mini_batches > self.n_steps * n_envs:
            raise UserError(
                f"--mini-batches {self.mini_batches} is more than the batch of "
                f"{self.n_steps * n_envs} samples (--n-steps x --n-envs): lower it."
            )


@dataclass(frozen=True, kw_only=True)
class OneStepConfig(PolicyAndValue, GaussianConfig):
    """Settings of algorithms that take one gradient step on each round."""

    reads_values: ClassVar[bool] = False  # they compute newer ones
    lam: float = changed(AdvantageConfig, "lam", 1.0)
    normalize_advantages: bool = changed(
        AdvantageConfig,
        "normalize_advantages",
        False,
        help="If specified, the policy's advantages are shifted and scaled to a mean "
        "of 0 and a deviation of 1",
    )
    advantage_epsilon: float = changed(AdvantageConfig, "advantage_epsilon")
