"""The settings of each algorithm. A default is written here and nowhere else."""

from dataclasses import dataclass

from xagents_ray.errors import UserError
from xagents_ray.options import Checked, option


@dataclass(frozen=True, kw_only=True)
class AlgorithmConfig(Checked):
    """What every algorithm has."""

    gamma: float = option(
        0.99, low=0, high=1, hp_type="log_uniform", help="Discount factor"
    )
    lr: float = option(
        7e-4,
        low=0,
        exclusive=True,
        hp_type="log_uniform",
        help="Learning rate passed to a tensorflow.keras.optimizers.Optimizer",
    )
    beta1: float = option(
        0.9,
        low=0,
        high=0.999999,
        hp_type="log_uniform",
        help="Beta1 passed to a tensorflow.keras.optimizers.Optimizer",
    )
    beta2: float = option(
        0.999,
        low=0,
        high=0.9999999,
        hp_type="log_uniform",
        help="Beta2 passed to a tensorflow.keras.optimizers.Optimizer",
    )
    opt_epsilon: float = option(
        1e-7,
        low=0,
        exclusive=True,
        hp_type="log_uniform",
        help="Epsilon passed to a tensorflow.keras.optimizers.Optimizer",
    )
    model: str | None = option(None, help="Path to model .cfg file")

    @property
    def batch_steps(self) -> int:
        """Vector steps of one rollout."""
        raise NotImplementedError

    def check_batch(self, n_envs: int) -> None:
        """Raise UserError when rollouts of that many environments don't fit."""


@dataclass(frozen=True, kw_only=True)
class OffPolicyConfig(AlgorithmConfig):
    """What every algorithm with a replay buffer has."""

    buffer_max_size: int = option(
        10_000,
        low=1,
        unit="transitions",
        hp_type="int",
        help="Maximum replay buffer size, of all environments together",
    )
    buffer_initial_size: int | None = option(
        None,
        low=1,
        unit="transitions",
        hp_type="int",
        help="Replay buffer size at which learning starts; "
        "default: a tenth of the maximum",
    )
    buffer_batch_size: int = option(
        32, low=1, hp_type="categorical", help="Replay buffer batch size"
    )
    rollout_length: int = option(
        16,
        low=1,
        unit="vector steps",
        hp_type="categorical",
        help="Steps of all environments between two learning phases",
    )
    train_frequency: int = option(
        4,
        low=1,
        unit="env steps",
        hp_type="categorical",
        help="Env steps of all environments together per --gradient-steps",
    )
    gradient_steps: int = option(
        1,
        low=1,
        unit="updates",
        hp_type="categorical",
        help="Updates owed per --train-frequency",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        largest = max(self.initial_size, self.buffer_batch_size)
        if largest > self.buffer_max_size:
            raise UserError(
                f"--buffer-max-size {self.buffer_max_size} is smaller than the "
                f"{largest} transitions of --buffer-initial-size or "
                "--buffer-batch-size; raise it to at least that."
            )

    @property
    def initial_size(self) -> int:
        """Transitions at which learning starts."""
        return self.buffer_initial_size or max(1, self.buffer_max_size // 10)

    @property
    def batch_steps(self) -> int:
        """Vector steps of one rollout."""
        return self.rollout_length


@dataclass(frozen=True, kw_only=True)
class PPOConfig(AlgorithmConfig):
    """Proximal policy optimisation, arXiv:1707.06347."""

    n_steps: int = option(
        128,
        low=1,
        unit="vector steps",
        hp_type="categorical",
        help="Transition steps of each environment per update",
    )
    lam: float = option(
        0.95,
        low=0,
        high=1,
        hp_type="log_uniform",
        help="GAE-Lambda for advantage estimation",
    )
    ppo_epochs: int = option(
        4,
        low=1,
        hp_type="categorical",
        help="Passes over the batch per training step",
    )
    mini_batches: int = option(
        4,
        low=1,
        hp_type="categorical",
        help="Number of mini-batches to use per pass",
    )
    clip_norm: float = option(
        0.1,
        low=0,
        exclusive=True,
        hp_type="log_uniform",
        help="Clipping of the importance ratio and of the value's change",
    )
    entropy_coef: float = option(
        0.01,
        low=0,
        hp_type="log_uniform",
        help="Entropy coefficient for loss calculation",
    )
    value_loss_coef: float = option(
        0.5,
        low=0,
        hp_type="log_uniform",
        help="Value loss coefficient for value loss calculation",
    )
    grad_norm: float = option(
        0.5,
        low=0,
        exclusive=True,
        hp_type="log_uniform",
        help="Largest global norm of the gradient; larger ones are scaled to it",
    )
    advantage_epsilon: float = option(
        1e-8,
        low=0,
        exclusive=True,
        hp_type="log_uniform",
        help="Value added to the standard deviation that advantages are divided by",
    )

    @property
    def batch_steps(self) -> int:
        """Vector steps of one rollout."""
        return self.n_steps

    def check_batch(self, n_envs: int) -> None:
        """Raise UserError when there are more mini-batches than samples."""
        if self.mini_batches > self.n_steps * n_envs:
            raise UserError(
                f"--mini-batches {self.mini_batches} is more than the batch of "
                f"{self.n_steps * n_envs} samples (--n-steps x --n-envs): lower it."
            )


@dataclass(frozen=True, kw_only=True)
class DQNConfig(OffPolicyConfig):
    """Deep Q-learning, doi:10.1038/nature14236; double, arXiv:1509.06461."""

    double: bool = option(False, help="If specified, DDQN will be used")
    epsilon_start: float = option(
        1.0,
        low=0,
        high=1,
        hp_type="log_uniform",
        help="Starting epsilon value which is used to control random exploration",
    )
    epsilon_end: float = option(
        0.02,
        low=0,
        high=1,
        hp_type="log_uniform",
        help="Epsilon end value (minimum exploration rate)",
    )
    epsilon_decay_steps: int = option(
        150_000,
        low=1,
        unit="env steps",
        hp_type="int",
        help="Number of steps for `epsilon-start` to reach `epsilon-end`",
    )
    target_sync_steps: int = option(
        1_000,
        low=1,
        unit="env steps",
        hp_type="int",
        help="Sync target models every n steps; tested once per learning phase",
    )
