"""Every setting of a run. A default is written here and nowhere else."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from xagents_ray.errors import UserError, near
from xagents_ray.options import Checked, option, options


@dataclass(frozen=True, kw_only=True)
class EnvConfig(Checked):
    """The environments."""

    env: str | None = option(
        None,
        help="Gymnasium environment id, or package.module:factory for an own one",
    )
    n_envs: int = option(
        1, low=1, hp_type="categorical", help="Number of environments to create"
    )
    preprocess: bool = option(
        False,
        help="If specified, observations are treated as Atari frames: every 4th "
        "frame, grey, 84x84; rewards are clipped for learning and reported raw",
    )
    max_frame: bool = option(
        False,
        hp_type="categorical",
        help="If specified, preprocessing takes the maximum of the last two frames",
    )
    frame_stack: int = option(
        4,
        low=1,
        high=16,
        unit="frames",
        hp_type="categorical",
        help="Newest frames that one image observation shows",
    )
    vectorization: str = option(
        "auto",
        choices=("auto", "vector", "sync", "async", "envpool"),
        help="How environments are stepped together; auto picks the fastest right one",
    )


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(Checked):
    """When training ends, and what is random in it."""

    target_reward: float | None = option(
        None,
        help="Target mean reward over a full reward buffer when reached, "
        "training is stopped",
    )
    max_steps: int | None = option(
        None,
        low=1,
        unit="env steps",
        help="Maximum number of environment steps, when reached, training is stopped",
    )
    reward_buffer_size: int = option(
        100,
        low=1,
        unit="games",
        help="Size of the total reward buffer, used for calculating the mean reward",
    )
    seed: int | None = option(
        None,
        low=0,
        high=2**31 - 1,
        help="Random seed; makes the run reproducible on this machine",
    )


@dataclass(frozen=True, kw_only=True)
class DisplayConfig(Checked):
    """What is printed."""

    quiet: bool = option(
        False,
        help="If specified, no messages by the agent will be displayed to the console",
    )
    log_frequency: int | None = option(
        None, low=1, unit="games", help="Log progress every n games"
    )
    display_precision: int = option(
        2, low=0, high=10, help="Number of decimals to be displayed"
    )


@dataclass(frozen=True, kw_only=True)
class PlacementConfig(Checked):
    """Where the parts of a run live."""

    local: bool = option(
        False, help="If specified, everything runs in this process, without Ray"
    )
    address: str | None = option(
        None, help="host:port of a running Ray cluster to train on"
    )
    n_actors: int | None = option(
        None,
        low=1,
        help="Env actors that share out the environments; "
        "default: one per core, at most one per environment",
    )
    dashboard: bool = option(
        False, help="If specified, Ray's dashboard is served on 127.0.0.1:8265"
    )


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


@dataclass(frozen=True, kw_only=True)
class Config:
    """All settings of one run."""

    algorithm: AlgorithmConfig
    env: EnvConfig = field(default_factory=EnvConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    display: DisplayConfig = field(default_factory=DisplayConfig)
    placement: PlacementConfig = field(default_factory=PlacementConfig)

    def __post_init__(self) -> None:
        if self.env.env is None:
            raise UserError("--env is missing: name one, as in --env CartPole-v1.")
        if self.training.target_reward is None and self.training.max_steps is None:
            raise UserError(
                "Training needs an end: give --target-reward, --max-steps or both."
            )
        actors, envs = self.placement.n_actors, self.env.n_envs
        if actors is not None and actors > envs:
            raise UserError(
                f"--n-actors {actors} is more than --n-envs {envs}: each env actor "
                "needs an environment, so lower the one or raise the other."
            )
        if self.placement.local:
            for name in ("address", "n_actors", "dashboard"):
                if getattr(self.placement, name):
                    raise UserError(
                        f"--{name.replace('_', '-')} is for Ray and --local runs "
                        "without it: drop one of the two."
                    )
        self.algorithm.check_batch(envs)

    @classmethod
    def of(
        cls, algorithm: type[AlgorithmConfig], values: Mapping[str, Any]
    ) -> "Config":
        """Return the config with these field values, by their flat names.

        Raises:
            UserError: a name is unknown, or a value is not allowed.
        """
        rest = dict(values)

        def make(config: type) -> Any:
            names = [f.name for f in dataclasses.fields(config)]
            return config(**{n: rest.pop(n) for n in names if n in rest})

        parts = {name: make(config) for name, config in GROUPS.items()}
        made = make(algorithm)
        if rest:
            known = [o.name for g in (*GROUPS.values(), algorithm) for o in options(g)]
            name = next(iter(rest))
            raise UserError(f"There is no setting {name!r}{near(name, known) or '.'}")
        return cls(algorithm=made, **parts)


GROUPS: dict[str, type] = {
    "env": EnvConfig,
    "training": TrainingConfig,
    "display": DisplayConfig,
    "placement": PlacementConfig,
}
"""The fields of `Config` that every algorithm shares."""
