"""Base classes of algorithm settings and of the groups that interpret them."""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

import numpy as np

from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.settings import from_python, learning, models, schedules
from xagents_ray.settings.options import Checked, flag, options

_G = TypeVar("_G", bound="Group")


@dataclass(frozen=True, kw_only=True)
class AlgorithmConfig(Checked):
    """Settings that every algorithm has.

    Attributes:
        replaced: settings that users of other algorithms, xagents or other libraries
            may expect, and what to use instead; see `all_replaced`.
        runs_free: whether env actors run asynchronously on Ray by default, as with
            `--asynchronous`.
        learns_each_rollout: whether each rollout of an asynchronous env actor is a
            separate update.
        reads_values: whether learning uses the behavior network's values, if any.
    """

    replaced: ClassVar[Mapping[str, str]] = {
        "verbose": "a run prints its progress anyway, and --quiet turns that off",
        "policy_kwargs": "write the layers into a .cfg file for --model, or for "
        "--actor-model and --critic-model, or pass a function that makes a Keras model",
        "load_model": "give the file of a Keras model, a.keras or a.h5, to --model (or "
        "--actor-model), for its weights too; to evaluate it, also to --weights",
        "load_model_custom": "pass the model itself to --model, from Python: "
        "model=keras.models.load_model('a.keras', custom_objects=…)",
    }
    runs_free: ClassVar[bool] = False
    learns_each_rollout: ClassVar[bool] = False
    reads_values: ClassVar[bool] = True

    gamma: float = learning.gamma(0.99)
    optimizer: str = learning.optimizer("adam")
    lr: float | str = learning.lr(7e-4)
    beta1: float = learning.beta1(0.9)
    beta2: float = learning.beta2(0.999)
    opt_epsilon: float = learning.opt_epsilon(1e-7)
    feature_maker: str | None = models.feature_maker(None)
    precision: str = learning.precision("float32")
    lr_decay: bool = learning.lr_decay(False)
    normalize_observations: bool = learning.normalize_observations(False)
    normalize_rewards: bool = learning.normalize_rewards(False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if from_python.is_json(self.optimizer):
            if set_here := self.not_default("lr", "beta1", "beta2", "opt_epsilon"):
                raise UserError(
                    f"{flag(set_here[0])} is set by the optimizer that was passed: "
                    "give it there and leave it out here."
                )
        if self.lr_decay:
            schedules.check_constant("--lr", self.lr, "--lr-decay")
        if self.optimizer == "rmsprop" and self.not_default("beta1"):
            raise UserError(
                "--beta1 is Adam's and --optimizer rmsprop has none: drop one of them."
            )
        for part in self.parts:
            part.check_settings()

    @classmethod
    def all_replaced(cls) -> dict[str, str]:
        """Return the settings that this class or all algorithms replace."""
        return {**AlgorithmConfig.replaced, **cls.replaced}

    @classmethod
    def check_names(cls, names: Iterable[str]) -> None:
        """Raise UserError when one of the names is in `replaced`."""
        replaced = cls.all_replaced()
        for name in names:
            if name in replaced:
                raise UserError(
                    f"{flag(name)} isn't a setting of this agent: {replaced[name]}."
                )

    @property
    def parts(self) -> tuple["Group", ...]:
        """The groups that the settings belong to."""
        return tuple(group.of(self) for group in groups_of(type(self)))

    def part(self, kind: type[_G]) -> _G | None:
        """Return the config's group of the given class, or None."""
        own = (each for each in groups_of(type(self)) if issubclass(each, kind))
        return next((each.of(self) for each in own), None)

    @property
    def batch_steps(self) -> int:
        """Vector steps of one rollout."""
        return self._rollout.batch_steps

    @property
    def relabels_goals(self) -> bool:
        """Whether achieved goals replace desired ones in the replay's samples."""
        replay = self.replay
        return replay is not None and replay.relabels_goals

    @property
    def uses_sde(self) -> bool:
        """Whether the network outputs the deviations of continuous actions."""
        return any(part.uses_sde for part in self.parts)

    @property
    def scales_actions(self) -> bool:
        """Whether Gaussian actions are drawn in [-1, 1] and scaled to finite bounds."""
        return any(part.scales_actions for part in self.parts)

    @property
    def unread_inputs(self) -> tuple[str, ...]:
        """Names of the inputs that the policy doesn't read, only critics and values."""
        return tuple(name for part in self.parts for name in part.unread_inputs)

    @property
    def learns_online(self) -> bool:
        """Whether an on-policy algorithm learns from each round when it arrives."""
        return all(part.learns_online for part in self.parts)

    def check_spec(self, spec: EnvSpec) -> None:
        """Raise UserError when the settings don't fit an environment's spaces."""
        for part in self.parts:
            part.check_spec(spec)

    def check_batch(self, n_envs: int) -> None:
        """Raise UserError when the settings don't fit the number of environments."""
        for part in self.parts:
            part.check_batch(n_envs)

    def update_rows(self, n_envs: int) -> int:
        """Return the number of samples in one update."""
        return self._rollout.update_rows(n_envs)

    def warning(self, metrics: Mapping[str, float]) -> str | None:
        """Return a warning about a phase's metrics, shown once a session, or None."""
        return None

    def exploration_rate(self, env_steps: int) -> float | None:
        """Return the probability of a random action; None without a shared one."""
        return None

    @property
    def objects(self) -> list[tuple[str, str]]:
        """Setting and name of each object that may have been passed from Python."""
        names = [each.name for each in options(type(self)) if each.to_plain is not None]
        return [("network", str(getattr(self, name))) for name in names]

    @functools.cached_property
    def replay(self) -> "ReplayGroup | None":
        """Settings of the replay buffer; None if it isn't used."""
        replay = self.part(ReplayGroup)
        return replay if replay is not None and replay.is_used else None

    @property
    def initial_size(self) -> int:
        """Replay buffer size at which learning from it starts; 0 without a buffer."""
        replay = self.replay
        return 0 if replay is None else replay.initial_size

    @functools.cached_property
    def _rollout(self) -> "RolloutGroup":
        rollout = self.part(RolloutGroup)
        assert rollout is not None, "`register` refuses an algorithm without one"
        return rollout


@dataclass(frozen=True, kw_only=True)
class Group:
    """A group of related settings, with their checks and derived values.

    An algorithm has the groups that its options name. A group's fields are settings by
    name; fields with a default are settings that not all of these algorithms have.

    Attributes:
        config: all settings of the algorithm.
    """

    config: AlgorithmConfig

    @classmethod
    def of(cls: type[_G], config: AlgorithmConfig) -> _G:
        """Return the group with a config's values."""
        names = [each.name for each in fields(cls) if hasattr(config, each.name)]
        return cls(config=config, **{name: getattr(config, name) for name in names})

    # What a group has unless it defines a property; see those of AlgorithmConfig.
    uses_sde: ClassVar[Any] = False
    scales_actions: ClassVar[Any] = False
    unread_inputs: ClassVar[Any] = ()
    learns_online: ClassVar[Any] = True

    def check_settings(self) -> None:
        """Raise UserError when the settings contradict each other."""

    def check_spec(self, spec: EnvSpec) -> None:
        """Raise UserError when the settings don't fit an environment's spaces."""

    def check_batch(self, n_envs: int) -> None:
        """Raise UserError when the settings don't fit the number of environments."""


def groups_of(config: type[AlgorithmConfig]) -> tuple[type[Group], ...]:
    """Return the groups that an algorithm's options name."""
    hashable: Any = config  # mypy checks the instances' __hash__, not the class's
    return _groups_of(hashable)


@functools.cache
def _groups_of(config: Any) -> tuple[type[Group], ...]:
    named = (each.metadata["facts"].group for each in fields(config))
    return tuple(dict.fromkeys(group for group in named if group is not None))


@dataclass(frozen=True, kw_only=True)
class RolloutGroup(Group):
    """Rollout and update sizes of an algorithm; every algorithm has one such group."""

    @property
    def batch_steps(self) -> int:
        """Vector steps of one rollout."""
        raise NotImplementedError

    def update_rows(self, n_envs: int) -> int:
        """Return the number of samples in one update."""
        return self.batch_steps * n_envs


@dataclass(frozen=True, kw_only=True)
class ReplayGroup(Group):
    """Settings of a replay buffer.

    Attributes:
        entries: name of the buffer's entries, singular and plural.
    """

    entries: ClassVar[tuple[str, str]] = "transition", "transitions"
    buffer_max_size: int
    buffer_initial_size: int | None
    buffer_batch_size: int = 1
    replay_shards: int
    n_step: int = 1

    def check_settings(self) -> None:
        """Raise UserError when the buffer is too small."""
        largest = max(self.initial_size, self.buffer_batch_size)
        if largest > self.buffer_max_size:
            raise UserError(
                f"--buffer-max-size {self.buffer_max_size} is smaller than the "
                f"{largest} of --buffer-initial-size or --buffer-batch-size; "
                "raise it to at least that."
            )

    def check_batch(self, n_envs: int) -> None:
        """Raise UserError when there are more replay shards than environments."""
        if self.replay_shards > n_envs:
            raise UserError(
                f"--replay-shards {self.replay_shards} is more than --n-envs {n_envs}: "
                "each shard holds what some environments did, so lower it."
            )

    @property
    def is_used(self) -> bool:
        """Whether the algorithm learns from the buffer."""
        return True

    @property
    def batch_steps(self) -> int:
        """Vector steps of one rollout."""
        return self.config.batch_steps

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Arguments of the replay buffer's class after the seed."""
        return ()

    @property
    def takes_errors(self) -> bool:
        """Whether the replay needs the TD errors of sampled transitions."""
        return False

    @property
    def relabels_goals(self) -> bool:
        """Whether achieved goals replace desired ones in the samples."""
        return False

    @property
    def sums_log_probs(self) -> bool:
        """Whether samples have log-densities of actions under the behavior policy."""
        return False

    @property
    def initial_size(self) -> int:
        """Buffer size at which learning from it starts."""
        return self.buffer_initial_size or max(1, self.buffer_max_size // 10)

    def due(self, steps: int, generator: np.random.Generator) -> tuple[int, int]:
        """Return the number of batches to sample from the replay buffer now.

        Args:
            steps: env steps that no batch accounts for yet.
            generator: random generator, seeded by the run's seed and env steps only.
        Returns:
            Number of batches, and the env steps left over for the next call.
        """
        raise NotImplementedError

    def sampled_rows(self, n_envs: int, stack: int) -> int:
        """Return an estimate of the observations that a learning phase samples."""
        raise NotImplementedError
