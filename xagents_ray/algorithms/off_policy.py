"""Settings and networks of algorithms that learn from single transitions."""

from dataclasses import dataclass, replace

import numpy as np

from xagents_ray.algorithms.prioritized import PrioritizedConfig
from xagents_ray.algorithms.row import Model
from xagents_ray.core.errors import UserError
from xagents_ray.networks import keras_files
from xagents_ray.networks.layer_norm import with_layer_norm
from xagents_ray.networks.layout import Layout
from xagents_ray.settings.algorithm import ActorAndCritic, AlgorithmConfig
from xagents_ray.settings.options import (
    changed,
    coefficient,
    count,
    fraction,
    option,
    positive,
)


def _normalized(layout: Layout, config: AlgorithmConfig) -> Layout:
    """Return a critic's network with the layers that the config asks for.

    Raises:
        UserError: the network is from a Keras file, which has its own layers.
    """
    if not (isinstance(config, ActionCriticConfig) and config.layer_norm):
        return layout
    file = config.critic_model
    if keras_files.content(file) is not None:
        raise UserError(
            f"--layer-norm adds layers to a network of a .cfg file and {file} is a "
            "Keras model: drop --layer-norm, and add the layers to the model."
        )
    return with_layer_norm(layout)


def critic_of_actions(networks: str) -> Model:
    """Return the value of an observation and an action; see `Model.networks`."""
    return Model(
        "critic",
        networks,
        ("value",),
        "critic_model",
        reads_actions=True,
        adapt=_normalized,
    )


DETERMINISTIC_MODELS = (
    Model(
        "actor",
        "deterministic-{kind}.cfg",
        ("actions",),
        "actor_model",
        is_bounded=True,
    ),
    critic_of_actions("critic-{kind}.cfg"),
)
"""An actor, and the value of an observation and an action."""


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
    layer_norm: bool = option(
        False,
        "If specified, hidden layers of critics are normalized before their "
        "activations (layer norm), which keeps values from running away where "
        "--gradient-steps makes many updates of few env steps",
        known_as=("use_layer_norm", "layer_normalization", "critic_layer_norm"),
    )


@dataclass(frozen=True, kw_only=True)
class CriticsConfig(ActionCriticConfig):
    """Settings of algorithms with as many critics as the user wants."""

    critics: int = count(
        2,
        "Number of critics. Targets take the smaller value of two of them; with more, "
        "each update draws which two, as in REDQ (5 to 10, with --gradient-steps 20)",
        hp_type="categorical",
        known_as=("n_critics", "num_critics", "num_qs", "ensemble_size"),
    )


def with_critics(models: tuple[Model, ...], config: CriticsConfig) -> tuple[Model, ...]:
    """Return an actor and as many critics as the config has: `critic`, `critic-2`."""
    actor, critic, *_ = models
    more = range(2, config.critics + 1)
    return actor, critic, *(replace(critic, name=f"critic-{i}") for i in more)


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
