"""The settings of each algorithm. A default is written here and nowhere else."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from xagents_ray.errors import UserError
from xagents_ray.options import Checked, option


@dataclass(frozen=True, kw_only=True)
class AlgorithmConfig(Checked):
    """What every algorithm has.

    Attributes:
        replaced: names of another algorithm's settings, or of xagents', that users may
            expect here, and what to do without them.
    """

    replaced: ClassVar[Mapping[str, str]] = {}
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

    @classmethod
    def check_names(cls, names: Iterable[str]) -> None:
        """Raise UserError when one is of a setting that something else replaced."""
        for name in names:
            if name in cls.replaced:
                flag = name.replace("_", "-")
                raise UserError(
                    f"--{flag} is no setting of this agent: {cls.replaced[name]}."
                )

    @property
    def batch_steps(self) -> int:
        """Vector steps of one rollout."""
        raise NotImplementedError

    def check_batch(self, n_envs: int) -> None:
        """Raise UserError when rollouts of that many environments don't fit."""


@dataclass(frozen=True, kw_only=True)
class OneModel(Checked):
    """One network with all outputs."""

    model: str | None = option(None, help="Path to model .cfg file")


@dataclass(frozen=True, kw_only=True)
class ActorAndCritic(Checked):
    """A network that acts, and one or two that judge."""

    actor_model: str | None = option(None, help="Path to actor model .cfg file")
    critic_model: str | None = option(None, help="Path to critic model .cfg file")


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
class A2CConfig(OneModel, AlgorithmConfig):
    """Advantage actor-critic, arXiv:1602.01783."""

    n_steps: int = option(
        5,
        low=1,
        unit="vector steps",
        hp_type="categorical",
        help="Transition steps of each environment per update",
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

    @property
    def batch_steps(self) -> int:
        """Vector steps of one rollout."""
        return self.n_steps


@dataclass(frozen=True, kw_only=True)
class PPOConfig(OneModel, AlgorithmConfig):
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
        check_mini_batches(self.mini_batches, self.n_steps, n_envs)


@dataclass(frozen=True, kw_only=True)
class DQNConfig(OneModel, OffPolicyConfig):
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


@dataclass(frozen=True, kw_only=True)
class TRPOConfig(ActorAndCritic, AlgorithmConfig):
    """Trust region policy optimisation, arXiv:1502.05477."""

    replaced: ClassVar[Mapping[str, str]] = {
        "clip_norm": "bound the policy's step with --max-kl and set the critic's "
        "passes with --critic-iterations",
        "ppo_epochs": "the policy takes one step for each batch; set the critic's "
        "passes with --critic-iterations",
    }
    n_steps: int = option(
        512,
        low=1,
        unit="vector steps",
        hp_type="categorical",
        help="Transition steps of each environment per update",
    )
    lam: float = option(
        1.0,
        low=0,
        high=1,
        hp_type="log_uniform",
        help="GAE-Lambda for advantage estimation",
    )
    max_kl: float = option(
        0.001,
        low=0,
        exclusive=True,
        hp_type="log_uniform",
        help="Maximum KL divergence used for calculating Lagrange multiplier",
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
    mini_batches: int = option(
        4,
        low=1,
        hp_type="categorical",
        help="Number of mini-batches to use per pass of the critic",
    )
    entropy_coef: float = option(
        0.0,
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
        help="Largest global norm of the critic's gradient",
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
        check_mini_batches(self.mini_batches, self.n_steps, n_envs)


@dataclass(frozen=True, kw_only=True)
class DeterministicConfig(ActorAndCritic, OffPolicyConfig):
    """What algorithms with a deterministic actor have."""

    train_frequency: int = option(
        1,
        low=1,
        unit="env steps",
        hp_type="categorical",
        help="Env steps of all environments together per --gradient-steps",
    )
    step_noise_coef: float = option(
        0.1,
        low=0,
        hp_type="log_uniform",
        help="Standard deviation of the noise added to actions, which span -1 to 1",
    )
    tau: float = option(
        0.005,
        low=0,
        high=1,
        exclusive=True,
        hp_type="log_uniform",
        help="Value used for syncing target model weights",
    )


@dataclass(frozen=True, kw_only=True)
class DDPGConfig(DeterministicConfig):
    """Deep deterministic policy gradient, arXiv:1509.02971."""


@dataclass(frozen=True, kw_only=True)
class TD3Config(DeterministicConfig):
    """Twin delayed DDPG, arXiv:1802.09477."""

    policy_noise_coef: float = option(
        0.2,
        low=0,
        hp_type="log_uniform",
        help="Standard deviation of the noise added to target actions",
    )
    noise_clip: float = option(
        0.5, low=0, hp_type="log_uniform", help="Target noise clipping value"
    )
    policy_delay: int = option(
        2,
        low=1,
        unit="updates",
        hp_type="categorical",
        help="Delay after which, actor weights and target models will be updated",
    )


def check_mini_batches(mini_batches: int, n_steps: int, n_envs: int) -> None:
    """Raise UserError when there are more mini-batches than samples."""
    if mini_batches > n_steps * n_envs:
        raise UserError(
            f"--mini-batches {mini_batches} is more than the batch of "
            f"{n_steps * n_envs} samples (--n-steps x --n-envs): lower it."
        )
