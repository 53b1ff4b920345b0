"""Options and networks of off-policy algorithms that learn from single transitions."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xagents_ray.algorithms.definition import Model
from xagents_ray.core.errors import UserError
from xagents_ray.networks import keras_files
from xagents_ray.networks.layer_norm import with_layer_norm
from xagents_ray.networks.layout import Layout
from xagents_ray.settings.algorithm import (
    AlgorithmConfig,
    Group,
    ReplayGroup,
    RolloutGroup,
)
from xagents_ray.settings.options import (
    coefficient,
    count,
    flag,
    fraction,
    option,
    positive,
    shared,
)


@dataclass(frozen=True, kw_only=True)
class Minibatches(RolloutGroup):
    """Settings of algorithms that learn from minibatches between rollouts."""

    rollout_length: int
    buffer_batch_size: int

    @property
    def batch_steps(self) -> int:
        return self.rollout_length

    def update_rows(self, n_envs: int) -> int:
        return self.buffer_batch_size


@dataclass(frozen=True, kw_only=True)
class TransitionReplayGroup(ReplayGroup):
    """Settings of a replay buffer of single transitions."""

    gamma: float
    rollout_length: int
    train_frequency: int
    gradient_steps: int
    prioritized: bool
    priority_alpha: float
    her: str | None
    her_goals: int
    n_step_entropy: bool = False

    def check_settings(self) -> None:
        """Raise UserError when PER or HER is configured but not enabled."""
        super().check_settings()
        unused = self.config.not_default("priority_alpha", "priority_beta")
        if unused and not self.prioritized:
            raise UserError(
                f"{flag(unused[0])} {getattr(self.config, unused[0])} is for "
                "prioritized replay: add --prioritized, or leave it out."
            )
        if self.her is None and self.config.not_default("her_goals"):
            raise UserError(
                f"--her-goals {self.her_goals} is for hindsight experience replay: "
                "add --her future, or leave it out."
            )

    @property
    def takes_errors(self) -> bool:
        """Whether the replay needs the TD errors of sampled transitions."""
        return self.prioritized

    @property
    def relabels_goals(self) -> bool:
        """Whether achieved goals replace desired ones in sampled transitions."""
        return self.her is not None

    @property
    def sums_log_probs(self) -> bool:
        """Whether samples have log-densities of actions under the behavior policy."""
        return self.n_step_entropy and self.n_step > 1

    @property
    def alpha(self) -> float | None:
        """Exponent of errors in priorities; None for uniform sampling."""
        return self.priority_alpha if self.prioritized else None

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Steps per transition, discount factor, HER's settings and PER's alpha.

        The last two are None without HER and PER, respectively. With `sums_log_probs`,
        True follows.
        """
        relabeling = None if self.her is None else (self.her, self.her_goals)
        more = (True,) if self.sums_log_probs else ()
        return self.n_step, self.gamma, relabeling, self.alpha, *more

    def due(self, steps: int, generator: np.random.Generator) -> tuple[int, int]:
        """Return the number of batches due, and the env steps left over."""
        periods, rest = divmod(steps, self.train_frequency)
        return periods * self.gradient_steps, rest

    def sampled_rows(self, n_envs: int, stack: int) -> int:
        """Return the maximum number of observations that a learning phase samples."""
        return self._samples(n_envs) * self.sample_rows(stack)

    def sample_rows(self, stack: int) -> int:
        """Return the number of observations in a sampled transition."""
        return stack + (1 if self.n_step == 1 else stack)

    def sequence_rows(self, n_envs: int, stack: int) -> int:
        """Return the same number for sequences, which networks with memory need."""
        return self._samples(n_envs) * (self.rollout_length + stack)

    def _samples(self, n_envs: int) -> int:
        """Return the maximum number of transitions or sequences per learning phase."""
        periods = self.rollout_length * n_envs // self.train_frequency + 1
        return periods * self.gradient_steps * self.buffer_batch_size


@dataclass(frozen=True, kw_only=True)
class Critics(Group):
    """Settings of the action-value critics."""

    critic_model: str | None
    layer_norm: bool
    critics: int = 1

    def normalized(self, layout: Layout) -> Layout:
        """Return a critic's network, with layer normalization if enabled.

        Raises:
            UserError: the network is a Keras model, whose layers can't be changed.
        """
        if not self.layer_norm:
            return layout
        if keras_files.content(self.critic_model) is not None:
            raise UserError(
                "--layer-norm adds layers to a network of a .cfg file and "
                f"{self.critic_model} is a Keras model: drop --layer-norm, and add the "
                "layers to the model."
            )
        return with_layer_norm(layout)


rollout_length = shared(
    count,
    "Steps of all environments between two learning phases",
    unit="vector steps",
    hp_type="categorical",
    remedy_for="transport",
    group=Minibatches,
)
train_frequency = shared(
    count,
    "Env steps of all environments together per --gradient-steps",
    unit="env steps",
    hp_type="categorical",
    known_as=("train_freq",),
    remedy_for="learning",
    group=TransitionReplayGroup,
)
gradient_steps = shared(
    count,
    "Updates per --train-frequency",
    unit="updates",
    hp_type="categorical",
)
n_step = shared(
    count,
    "Steps of an environment whose rewards a target sums before it takes a "
    "value from the target network",
    high=1000,
    unit="steps",
    hp_type="categorical",
    known_as=("multi_step", "nstep"),
)
network_grad_norm = shared(
    positive,
    "Largest global norm of each network's gradient; larger ones are scaled "
    "to it; default: no limit",
)
prioritized = shared(
    option,
    "If specified, transitions are sampled in proportion to a power of their last "
    "errors, and their losses weighted to correct for that",
    known_as=("prioritized_replay", "per", "use_per"),
)
priority_alpha = shared(
    fraction,
    "Power of a transition's error in its priority; 0 samples uniformly",
    known_as=("prioritized_replay_alpha", "per_alpha"),
)
priority_beta = shared(
    fraction,
    "Power of the weights that correct for --prioritized; rises to 1 over "
    "--max-steps, if given",
    known_as=("prioritized_replay_beta", "per_beta"),
)
her = shared(
    option,
    "Hindsight experience replay, for goal environments: most sampled transitions "
    "get a goal that their episode achieved at this or a later step (future), at "
    "its last step (final), or at any step (episode)",
    choices=("future", "final", "episode"),
    bare="future",
    known_as=("hindsight", "goal_selection_strategy"),
)
her_goals = shared(
    count,
    "Sampled transitions with an achieved goal, for each one that keeps its own",
    known_as=("n_sampled_goal",),
)
random_steps = shared(
    count,
    "Env steps of all environments together whose actions are uniformly random, at "
    "the beginning; default: those before learning starts",
    low=0,
    unit="env steps",
    hp_type="int",
    known_as=("start_steps", "start_timesteps"),
)
tau = shared(
    fraction,
    "Value used for syncing target model weights",
    exclusive=True,
    known_as=("polyak",),
    common=True,
)
layer_norm = shared(
    option,
    "If specified, hidden layers of critics are normalized before their "
    "activations (layer norm), which keeps values from running away where "
    "--gradient-steps makes many updates of few env steps",
    known_as=("use_layer_norm", "layer_normalization", "critic_layer_norm"),
    group=Critics,
)
critics = shared(
    count,
    "Number of critics. Targets take the smaller value of two of them; with more, "
    "each update draws which two, as in REDQ (5 to 10, with --gradient-steps 20)",
    hp_type="categorical",
    known_as=("n_critics", "num_critics", "num_qs", "ensemble_size"),
)
policy_delay = shared(
    count,
    "Critic updates for each update of the actor and the target networks",
    unit="updates",
    hp_type="categorical",
    known_as=("policy_frequency", "policy_update_delay"),
)
step_noise_coef = shared(
    coefficient,
    "Standard deviation of the noise added to actions, which span -1 to 1",
    explores=True,
    common=True,
)
noise = shared(
    option,
    "Independent noise at each step, Ornstein-Uhlenbeck noise (theta 0.15, dt "
    "0.01, sigma --step-noise-coef) that starts at 0 in each episode, or noise on "
    "the actor's weights that lasts for an episode and adapts until actions "
    "differ by --step-noise-coef",
    choices=("normal", "ou", "parameter"),
    known_as=("action_noise", "noise_type"),
    hp_type="categorical",
    explores=True,
)


def critic_of_actions(networks: str) -> Model:
    """Return the model of an action-value critic; see `Model.networks`."""
    return Model(
        "critic",
        networks,
        ("value",),
        "critic_model",
        reads_actions=True,
        adapt=_adapt_critic,
    )


def _adapt_critic(layout: Layout, config: AlgorithmConfig) -> Layout:
    critics = config.part(Critics)
    return layout if critics is None else critics.normalized(layout)


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
"""A deterministic actor and an action-value critic."""


def with_critics(
    models: tuple[Model, ...], config: AlgorithmConfig
) -> tuple[Model, ...]:
    """Return the actor and the configured number of critics, `critic`, `critic-2`."""
    actor, critic, *_ = models
    group = config.part(Critics)
    count = 1 if group is None else group.critics
    return (
        actor,
        critic,
        *(replace(critic, name=f"critic-{i}") for i in range(2, count + 1)),
    )
