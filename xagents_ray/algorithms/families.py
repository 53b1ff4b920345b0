"""Settings and networks that algorithms of one family share."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from xagents_ray.algorithms.prioritized import PrioritizedConfig
from xagents_ray.algorithms.row import Model
from xagents_ray.core.errors import UserError
from xagents_ray.networks.layout import Layout
from xagents_ray.settings.algorithm import (
    ActorAndCritic,
    AlgorithmConfig,
    OneModel,
)
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

    def __post_init__(self) -> None:
        super().__post_init__()
        own = self.feature_maker or Path(self.model or ".cfg").suffix
        if self.separate_networks and own not in (".cfg", ""):
            raise UserError(
                "--separate-networks copies the layers of .cfg files, not of Keras "
                "models: drop it, and give each output layers of its own in the model."
            )


def _adapt(layout: Layout, config: AlgorithmConfig) -> Layout:
    separate = isinstance(config, PolicyAndValue) and config.separate_networks
    return layout.separated() if separate else layout


ACTOR_CRITIC = Model(
    "policy",
    "actor-critic-{kind}.cfg",
    ("actions", "value"),
    has_log_std=True,
    adapt=_adapt,
)
"""One network with two outputs: the policy and the value."""
DETERMINISTIC_MODELS = (
    Model("actor", "deterministic-{kind}.cfg", ("actions",), "actor_model"),
    Model(
        "critic", "critic-{kind}.cfg", ("value",), "critic_model", reads_actions=True
    ),
)
"""An actor, and the value of an observation and an action."""


@dataclass(frozen=True, kw_only=True)
class PolicyGradientConfig(AlgorithmConfig):
    """Settings of algorithms with a stochastic policy."""

    # Whether it learns from what the acting network's critic said, if that has one.
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
class GaussianConfig(ActorCriticConfig):
    """Settings of algorithms that draw continuous actions from a Gaussian."""

    init_log_std: float = option(
        0.0,
        "Logarithm of the standard deviation that continuous actions start with, in "
        "the units of the environment's actions; it is learned from then on",
        low=-20,
        high=20,
        hp_type="categorical",
        known_as=("log_std_init", "initial_log_std", "log_std"),
    )


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
        1e-8, "Value added to the standard deviation that advantages are divided by"
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


@dataclass(frozen=True, kw_only=True)
class OffPolicyConfig(PrioritizedConfig):
    """Settings of algorithms that learn from single transitions."""

    rollout_length: int = count(
        16,
        "Steps of all environments between two learning phases",
        unit="vector steps",
        hp_type="categorical",
        remedy_for="transport",
    )
    train_frequency: int = count(
        4,
        "Env steps of all environments together per --gradient-steps",
        unit="env steps",
        hp_type="categorical",
        known_as=("train_freq",),
        remedy_for="learning",
    )
    gradient_steps: int = count(
        1, "Updates per --train-frequency", unit="updates", hp_type="categorical"
    )
    n_step: int = count(
        1,
        "Steps of an environment whose rewards a target sums before it takes a "
        "value from the target network",
        high=1000,
        unit="steps",
        hp_type="categorical",
        known_as=("multi_step", "nstep"),
    )
    grad_norm: float | None = positive(
        None,
        "Largest global norm of each network's gradient; larger ones are scaled "
        "to it; default: no limit",
    )

    her: str | None = option(
        None,
        "Hindsight experience replay, for goal environments: most sampled transitions "
        "get a goal that their episode achieved at this or a later step (future), at "
        "its last step (final), or at any step (episode)",
        choices=("future", "final", "episode"),
        bare="future",
        known_as=("hindsight", "goal_selection_strategy"),
    )
    her_goals: int = count(
        4,
        "Sampled transitions with an achieved goal, for each one that keeps its own",
        known_as=("n_sampled_goal",),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.her is None and self.not_default("her_goals"):
            raise UserError(
                f"--her-goals {self.her_goals} is for hindsight experience replay: "
                "add --her future, or leave it out."
            )

    @property
    def batch_steps(self) -> int:
        """Vector steps of one rollout."""
        return self.rollout_length

    @property
    def relabels_goals(self) -> bool:
        """Whether its replay puts achieved goals in the place of desired ones."""
        return self.her is not None

    @property
    def replay_settings(
        self,
    ) -> tuple[int, float, tuple[str, int] | None, float | None]:
        """Steps of a transition, the discount factor, HER's settings, and PER's alpha.

        The last two are None without HER, and where it samples uniformly.
        """
        relabeling = None if self.her is None else (self.her, self.her_goals)
        return self.n_step, self.gamma, relabeling, self.replay_alpha

    def update_rows(self, n_envs: int) -> int:
        """Return the rows of one minibatch."""
        return self.buffer_batch_size

    def due(self, steps: int, generator: np.random.Generator) -> tuple[int, int]:
        """Return the batches due, and the env steps left for the next ones."""
        periods, rest = divmod(steps, self.train_frequency)
        return periods * self.gradient_steps, rest

    def sampled_rows(self, n_envs: int, stack: int) -> int:
        """Return the most observations that one learning phase samples."""
        periods = self.rollout_length * n_envs // self.train_frequency + 1
        batches = periods * self.gradient_steps
        frames = stack + (1 if self.n_step == 1 else stack)
        return batches * self.buffer_batch_size * frames


@dataclass(frozen=True, kw_only=True)
class ActionCriticConfig(ActorAndCritic, OffPolicyConfig):
    """Settings of algorithms with an actor and critics of its actions."""

    train_frequency: int = changed(OffPolicyConfig, "train_frequency", 1)
    random_steps: int | None = count(
        None,
        "Env steps of all environments together whose actions are uniformly random, at "
        "the beginning; default: those before learning starts",
        low=0,
        unit="env steps",
        hp_type="int",
        known_as=("start_steps", "start_timesteps"),
    )
    tau: float = fraction(
        0.005,
        "Value used for syncing target model weights",
        exclusive=True,
        known_as=("polyak",),
    )


@dataclass(frozen=True, kw_only=True)
class DeterministicConfig(ActionCriticConfig):
    """Settings of algorithms with a deterministic actor."""

    step_noise_coef: float = coefficient(
        0.1,
        "Standard deviation of the noise added to actions, which span -1 to 1",
        explores=True,
    )
    noise: str = option(
        "normal",
        "Independent noise at each step, Ornstein-Uhlenbeck noise (theta 0.15, dt "
        "0.01, sigma --step-noise-coef) that starts at 0 in each episode, or noise on "
        "the actor's weights that lasts for an episode and adapts until actions "
        "differ by --step-noise-coef",
        choices=("normal", "ou", "parameter"),
        known_as=("action_noise", "noise_type"),
        hp_type="categorical",
        explores=True,
    )
