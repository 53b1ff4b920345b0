"""Settings that algorithms share: of all, of those with a replay, of networks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.settings import from_python
from xagents_ray.settings.options import (
    Checked,
    count,
    flag,
    fraction,
    option,
    options,
    positive,
)


@dataclass(frozen=True, kw_only=True)
class AlgorithmConfig(Checked):
    """Settings that every algorithm has.

    Attributes:
        replaced: settings of other algorithms, of xagents or of other libraries, that
            users may expect here, and what to use in their place.
        runs_free: on Ray its env actors run free, as with `--asynchronous`, unless
            the user says how far they may be ahead.
        learns_each_rollout: each rollout of an env actor that runs free is an update
            of its own.
    """

    replaced: ClassVar[Mapping[str, str]] = {
        "verbose": "a run prints its progress anyway, and --quiet turns that off",
        "policy_kwargs": "write the layers into a .cfg file for --model, or for "
        "--actor-model and --critic-model, or pass a function that makes a Keras model",
    }
    runs_free: ClassVar[bool] = False
    learns_each_rollout: ClassVar[bool] = False
    gamma: float = fraction(
        0.99, "Discount factor", known_as=("discount", "discount_factor")
    )
    optimizer: str = option(
        "adam",
        "Optimizer of all networks; rmsprop averages squared gradients by --beta2",
        choices=("adam", "rmsprop"),
        takes="KerasOptimizer",
        to_plain=from_python.optimizer,
        hp_type="categorical",
    )
    lr: float = positive(
        7e-4,
        "Learning rate passed to a tensorflow.keras.optimizers.Optimizer",
        known_as=("learning_rate", "step_size"),
    )
    beta1: float = fraction(
        0.9, "Beta1 passed to a tensorflow.keras.optimizers.Optimizer", high=0.999999
    )
    beta2: float = fraction(
        0.999, "Beta2 passed to a tensorflow.keras.optimizers.Optimizer", high=0.9999999
    )
    opt_epsilon: float = positive(
        1e-7,
        "Epsilon passed to a tensorflow.keras.optimizers.Optimizer",
        known_as=("adam_eps", "adam_epsilon"),
    )
    feature_maker: str | None = option(
        None,
        "module:function of the environment that makes a Keras model of features, from "
        "Python the function; networks that have no file and read observations get "
        "their outputs after it",
        takes="Callable[..., Any]",
        expected="module:function, or from Python the function",
        to_plain=from_python.network,
        known_as=("features_extractor", "features_extractor_class"),
        replaces=("model",),
    )
    precision: str = option(
        "float32",
        "Numbers that the learner's networks compute in; weights, losses and what "
        "acts stay float32. Faster only on CPUs and GPUs made for bfloat16",
        choices=("float32", "bfloat16"),
        known_as=("dtype", "mixed_precision", "bf16"),
    )
    lr_decay: bool = option(
        False,
        "If specified, learning rates fall linearly to 0 over --max-steps",
        needs_max_steps=True,
    )
    normalize_observations: bool = option(
        False,
        "If specified, observation vectors are shifted and scaled by the running "
        "mean and deviation of each number, and clipped to 10",
        known_as=("normalize_obs", "norm_obs"),
        acts=True,
    )
    normalize_rewards: bool = option(
        False,
        "If specified, rewards for learning are divided by the running deviation "
        "of discounted returns, and clipped to 10",
        known_as=("normalize_reward", "norm_reward"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if from_python.is_json(self.optimizer):
            if set_here := self.not_default("lr", "beta1", "beta2", "opt_epsilon"):
                raise UserError(
                    f"{flag(set_here[0])} is set by the optimizer that was passed: "
                    "give it there and leave it out here."
                )
        if self.optimizer == "rmsprop" and self.not_default("beta1"):
            raise UserError(
                "--beta1 is Adam's and --optimizer rmsprop has none: drop one of them."
            )

    @classmethod
    def check_names(cls, names: Iterable[str]) -> None:
        """Raise UserError when one of the names is in `replaced`."""
        for name in names:
            if name in cls.replaced:
                raise UserError(
                    f"{flag(name)} is no setting of this agent: {cls.replaced[name]}."
                )

    @property
    def batch_steps(self) -> int:
        """Vector steps of one rollout."""
        raise NotImplementedError

    @property
    def relabels_goals(self) -> bool:
        """Whether its replay puts achieved goals in the place of desired ones."""
        return False

    @property
    def uses_sde(self) -> bool:
        """Whether its network gives the deviations of continuous actions."""
        return False

    def check_spec(self, spec: EnvSpec) -> None:
        """Raise UserError when the settings don't fit an environment's spaces."""

    def update_rows(self, n_envs: int) -> int:
        """Return the rows that one update reads."""
        return self.batch_steps * n_envs

    def warning(self, metrics: Mapping[str, float]) -> str | None:
        """Return what the user should know of a learning phase's metrics, if anything.

        It is shown once in a session.
        """
        return None

    @property
    def objects(self) -> list[tuple[str, str]]:
        """The settings that may name objects passed from Python, and the names."""
        names = [each.name for each in options(type(self)) if each.to_plain is not None]
        return [("network", str(getattr(self, name))) for name in names]

    @property
    def replay(self) -> "ReplayConfig | None":
        """The settings of its replay buffer; None when it has none."""
        return None

    def check_batch(self, n_envs: int) -> None:
        """Raise UserError when the settings don't fit so many environments."""


@dataclass(frozen=True, kw_only=True)
class ReplayConfig(AlgorithmConfig):
    """Settings that every algorithm with a replay buffer has.

    Attributes:
        entries: what the buffer holds, in the singular and the plural.
    """

    entries: ClassVar[tuple[str, str]] = "transition", "transitions"

    buffer_max_size: int = count(
        10_000,
        "Maximum replay buffer size, of all environments together",
        unit="transitions",
        hp_type="int",
        known_as=("buffer_size", "replay_size", "replay_buffer_size"),
    )
    buffer_initial_size: int | None = count(
        None,
        "Replay buffer size at which learning starts; default: a tenth of the maximum",
        unit="transitions",
        hp_type="int",
        known_as=("learning_starts",),
    )
    buffer_batch_size: int = count(
        32, "Replay buffer batch size", hp_type="categorical", known_as=("batch_size",)
    )
    replay_shards: int = count(
        1,
        "Ray actors that share the replay buffer, each with some of the "
        "environments; spread over the nodes of a cluster",
        needs_ray=True,
        remedy_for="replay",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        largest = max(self.initial_size, self.buffer_batch_size)
        if largest > self.buffer_max_size:
            raise UserError(
                f"--buffer-max-size {self.buffer_max_size} is smaller than the "
                f"{largest} of --buffer-initial-size or --buffer-batch-size; "
                "raise it to at least that."
            )

    @property
    def replay(self) -> "ReplayConfig | None":
        """Itself."""
        return self

    def check_batch(self, n_envs: int) -> None:
        """Raise UserError when a shard of the replay would have no environment."""
        super().check_batch(n_envs)
        if self.replay_shards > n_envs:
            raise UserError(
                f"--replay-shards {self.replay_shards} is more than --n-envs {n_envs}: "
                "each shard holds what some environments did, so lower it."
            )

    @property
    def replay_settings(self) -> tuple[Any, ...]:
        """Further arguments of the replay buffer's class, after its seed."""
        return ()

    @property
    def takes_errors(self) -> bool:
        """Whether errors of sampled transitions go back to the replay."""
        return False

    @property
    def initial_size(self) -> int:
        """Fill of the buffer at which learning from it starts."""
        return self.buffer_initial_size or max(1, self.buffer_max_size // 10)

    def due(self, steps: int, generator: np.random.Generator) -> tuple[int, int]:
        """Return how many batches to sample from the replay buffer now.

        Args:
            steps: env steps since the last one that a batch accounts for.
            generator: depends on the run's seed and its env steps only.
        Returns:
            Batches, and the env steps left over for the next ones.
        """
        raise NotImplementedError

    def sampled_rows(self, n_envs: int, stack: int) -> int:
        """Return about how many observations one learning phase samples."""
        raise NotImplementedError


def network(what: str, **facts: Any) -> Any:
    """Declare an option that names a network's file."""
    return option(
        None,
        f"Path to {what} .cfg or .keras file; from Python also a Keras model, or a "
        "function of the environment that makes one",
        is_path=True,
        takes="Callable[..., Any]",
        expected="the path of a .cfg or .keras file that has the layers, or from "
        "Python a Keras model or a function that makes one",
        to_plain=from_python.network,
        **facts,
    )


@dataclass(frozen=True, kw_only=True)
class OneModel(Checked):
    """One network with all outputs."""

    model: str | None = network("model", acts=True)


@dataclass(frozen=True, kw_only=True)
class ActorAndCritic(Checked):
    """An actor and one or two critics."""

    actor_model: str | None = network("actor model", acts=True)
    critic_model: str | None = network("critic model")
    critic_lr: float | None = positive(
        None, "Learning rate of the critic; default: that of --lr"
    )
