"""What the settings of all algorithms share."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from xagents_ray.core.errors import UserError
from xagents_ray.settings.options import Checked, option


@dataclass(frozen=True, kw_only=True)
class AlgorithmConfig(Checked):
    """What every algorithm has.

    Attributes:
        replaced: names of another algorithm's settings, or of xagents', that users may
            expect here, and what to do without them.
    """

    replaced: ClassVar[Mapping[str, str]] = {}
    gamma: float = option(
        0.99,
        low=0,
        high=1,
        hp_type="log_uniform",
        help="Discount factor",
        known_as=("discount", "discount_factor"),
    )
    optimizer: str = option(
        "adam",
        choices=("adam", "rmsprop"),
        hp_type="categorical",
        help="Optimizer of all networks; rmsprop averages squared gradients by --beta2",
    )
    lr: float = option(
        7e-4,
        low=0,
        exclusive=True,
        hp_type="log_uniform",
        help="Learning rate passed to a tensorflow.keras.optimizers.Optimizer",
        known_as=("learning_rate", "step_size"),
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
        known_as=("adam_eps", "adam_epsilon"),
    )
    lr_decay: bool = option(
        False, help="If specified, learning rates fall linearly to 0 over --max-steps"
    )
    normalize_observations: bool = option(
        False,
        help="If specified, observation vectors are shifted and scaled by the running "
        "mean and deviation of each number, and clipped to 10",
        known_as=("normalize_obs", "norm_obs"),
    )
    normalize_rewards: bool = option(
        False,
        help="If specified, rewards for learning are divided by the running deviation "
        "of discounted returns, and clipped to 10",
        known_as=("normalize_reward", "norm_reward"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.optimizer == "rmsprop" and self.beta1 != type(self).beta1:
            raise UserError(
                "--beta1 is Adam's and --optimizer rmsprop has none: drop one of them."
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
    critic_lr: float | None = option(
        None,
        low=0,
        exclusive=True,
        hp_type="log_uniform",
        help="Learning rate of the critic; default: that of --lr",
    )


FILES = {"model", "actor_model", "critic_model"}
"""Settings that are paths of network files."""
