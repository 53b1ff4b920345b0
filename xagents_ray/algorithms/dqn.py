"""Deep Q-learning and the components of Rainbow."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from xagents_ray.algorithms import (
    noisy_layers,
    off_policy,
    recurrent_layers,
    sequence_replay,
)
from xagents_ray.algorithms.definition import Algorithm, Model, add_algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.core.trajectory import FloatArray
from xagents_ray.networks import keras_files
from xagents_ray.networks.heads import with_atoms, with_expectations, with_streams
from xagents_ray.networks.layout import Layout, check_parameters
from xagents_ray.networks.noisy import with_noise
from xagents_ray.settings import learning, models, replay
from xagents_ray.settings.algorithm import AlgorithmConfig
from xagents_ray.settings.options import count, flag, fraction, option

_CLIPPED = 0.05
"""Fraction of targets outside the distributions' support that triggers a warning."""


@dataclass(frozen=True, kw_only=True)
class DQNConfig(AlgorithmConfig):
    """Deep Q-learning, doi:10.1038/nature14236; double, arXiv:1509.06461."""

    gamma: float = learning.gamma(0.99)
    optimizer: str = learning.optimizer("adam")
    lr: float | str = learning.lr(7e-4)
    beta1: float = learning.beta1(0.9)
    beta2: float = learning.beta2(0.999)
    opt_epsilon: float = learning.opt_epsilon(1e-7)
    precision: str = learning.precision("float32")
    lr_decay: bool = learning.lr_decay(False)
    normalize_observations: bool = learning.normalize_observations(False)
    normalize_rewards: bool = learning.normalize_rewards(False)

    feature_maker: str | None = models.feature_maker(None)
    model: str | None = models.model(None)
    memory: str | None = recurrent_layers.memory(None)

    rollout_length: int = off_policy.rollout_length(16)
    burn_in: int = sequence_replay.burn_in(0)
    train_frequency: int = off_policy.train_frequency(4)
    gradient_steps: int = off_policy.gradient_steps(1)
    n_step: int = off_policy.n_step(1)
    grad_norm: float | None = off_policy.network_grad_norm(None)

    buffer_max_size: int = replay.buffer_max_size(10_000)
    buffer_initial_size: int | None = replay.buffer_initial_size(None)
    buffer_batch_size: int = replay.buffer_batch_size(32)
    replay_shards: int = replay.replay_shards(1)
    prioritized: bool = off_policy.prioritized(False)
    priority_alpha: float = off_policy.priority_alpha(0.6)
    priority_beta: float = off_policy.priority_beta(0.4)
    her: str | None = off_policy.her(None)
    her_goals: int = off_policy.her_goals(4)

    double: bool = option(False, "If specified, DDQN will be used", common=True)
    epsilon_start: float = fraction(
        1.0,
        "Starting epsilon value which is used to control random exploration",
        known_as=("exploration_initial_eps",),
    )
    epsilon_end: float = fraction(
        0.02,
        "Epsilon end value (minimum exploration rate)",
        explores=True,
        known_as=("exploration_final_eps",),
        common=True,
    )
    epsilon_decay_steps: int = count(
        150_000,
        "Number of steps for `epsilon-start` to reach `epsilon-end`",
        unit="env steps",
        hp_type="int",
        common=True,
    )
    target_sync_steps: int = count(
        1_000,
        "Sync target models every n steps",
        unit="env steps",
        hp_type="int",
        known_as=("target_update_interval", "target_network_frequency"),
        common=True,
    )
    tau: float = fraction(
        1.0,
        "Fraction of the distance to the online model that the target model moves at "
        "each sync; 1 copies it",
        exclusive=True,
    )
    epsilon_ladder: bool = option(
        False,
        "If specified, each of the N environments has a constant epsilon of its own: "
        "0.4^(1 + 7i/(N - 1)) for environment i, counted from 0",
        replaces=("epsilon_start", "epsilon_decay_steps"),
    )
    dueling: bool = option(
        False,
        "If specified, the network ends in two streams, of values and advantages",
        acts=True,
    )
    noisy: str | None = noisy_layers.noisy(
        None,
        help="Noise on the weights of dense layers, with a learned standard deviation, "
        "which explores in place of epsilon once learning begins; before, actions are "
        "random",
        replaces=("epsilon_start", "epsilon_end", "epsilon_decay_steps"),
    )
    noisy_sigma: float | None = noisy_layers.noisy_sigma(None)
    distributional: bool = option(
        False,
        "If specified, learns the distribution of returns (C51), not only its mean",
        acts=True,
        known_as=("c51", "categorical"),
    )
    atoms: int = count(
        51,
        "Number of equally spaced returns in a distribution",
        low=2,
        acts=True,
        known_as=("n_atoms", "num_atoms"),
    )
    v_min: float = option(
        -10.0, "Smallest return of a distribution", acts=True, known_as=("vmin",)
    )
    v_max: float = option(
        10.0, "Largest return of a distribution", acts=True, known_as=("vmax",)
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.v_min >= self.v_max:
            raise UserError(
                f"--v-min {self.v_min:g} is not below --v-max {self.v_max:g}: give "
                "the smallest and the largest return to expect."
            )
        if self.noisy is not None and self.epsilon_ladder:
            raise UserError(
                "--noisy explores in place of epsilon: drop it or --epsilon-ladder."
            )
        unused = self.not_default("atoms", "v_min", "v_max")
        if unused and not self.distributional:
            raise UserError(f"{flag(unused[0])} is for --distributional: add that.")

    @property
    def support(self) -> FloatArray:
        """Support of the return distributions, float32 [atoms]."""
        return np.linspace(self.v_min, self.v_max, self.atoms, dtype=np.float32)

    def epsilon_at(self, env_steps: int) -> float:
        """Return epsilon, as it falls, after the given env steps."""
        part = min(1.0, env_steps / self.epsilon_decay_steps)
        return self.epsilon_start + (self.epsilon_end - self.epsilon_start) * part

    def exploration_rate(self, env_steps: int) -> float | None:
        """Return epsilon; None if environments differ, or noisy layers explore."""
        is_shared = self.noisy is None and not self.epsilon_ladder
        return self.epsilon_at(env_steps) if is_shared else None

    def warning(self, metrics: Mapping[str, float]) -> str | None:
        """Return a warning if the support of the distributions is too narrow."""
        share = metrics.get("clipped", 0.0)
        if share <= _CLIPPED:
            return None
        return (
            f"{share:.0%} of the targets are outside --v-min {self.v_min:g} and "
            f"--v-max {self.v_max:g} and are clipped: widen them to the returns that "
            "are possible, or the agent can't tell good from better."
        )


def add_dqn_layers(layout: Layout, config: DQNConfig) -> Layout:
    """Return the network with the layers that the config requires.

    Raises:
        UserError: the network is a Keras model, whose layers can't be changed, or
            memory can't hold them.
    """
    is_plain = not (config.dueling or config.noisy or config.distributional)
    if is_plain:
        return layout
    if keras_files.content(config.model) is not None:
        raise UserError(
            "--dueling, --noisy and --distributional change layers of a network and "
            f"{config.model} is a Keras model: give --model a .cfg file, or drop them."
        )
    atoms = config.atoms if config.distributional else 1
    layout = with_atoms(layout, atoms)
    if config.noisy is not None:
        layout = with_noise(layout, config.noisy, config.noisy_sigma)
    if config.dueling:
        layout = with_streams(layout, atoms)
    name = config.model or "The default network"
    check_parameters(layout, name, "fewer units or atoms")
    if config.distributional:
        layout = with_expectations(layout, config.support)
    return layout


add_algorithm(
    Algorithm(
        name="dqn",
        config=DQNConfig,
        learner="xagents_ray.learners.dqn:DQN",
        policy="xagents_ray.actors.policies.exploring:EpsilonGreedyPolicy",
        models=(Model("q", "q-{kind}.cfg", ("actions",), adapt=add_dqn_layers),),
        on_policy=False,
        action_masks=True,
        recurrent=True,
        replay="xagents_ray.replay.transitions:TransitionReplay",
        continuous=False,
    )
)
