"""The base of all replay buffers: rings in fixed memory, and their files."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import psutil

from xagents_ray.core.errors import UserError
from xagents_ray.core.plugins import Place, resolve_class
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import (
    Array,
    BoolArray,
    Fill,
    FloatArray,
    IntArray,
    Replayed,
    Sampled,
    Trajectory,
)
from xagents_ray.settings.algorithm import ReplayGroup
from xagents_ray.storage.arrays import write_arrays
from xagents_ray.storage.checkpoints import read_replay, replay_files

GoalRewardFunction = Callable[
    [FloatArray, FloatArray], tuple[FloatArray, BoolArray | None]
]
"""Gives rewards of achieved and desired goals, and where a step ends, None if unknown.

The goals are float32 [N, G], the rewards float32 [N], the ends bool [N].
"""
_STATE_BYTES = 512
"""Of a generator's state, in JSON."""


class Replay(ABC):
    """A replay buffer: allocates its arrays once, saves and loads them."""

    _observations: Array
    _random: np.random.Generator
    goal_rewards: GoalRewardFunction | None = None  # for a replay that relabels goals

    @property
    @abstractmethod
    def fill(self) -> Fill: ...

    @abstractmethod
    def insert(self, trajectory: Trajectory) -> None:
        """Copy a trajectory in, overwriting the oldest contents."""

    @abstractmethod
    def sample(self, batches: int, batch_size: int) -> Sampled | Replayed:
        """Draw K batches with replacement.

        Args:
            batches: number of batches, K.
            batch_size: number of transitions, or of trajectories per environment.
        Raises:
            ValueError: the replay is empty.
        """

    def update(self, rows: IntArray, errors: FloatArray) -> int:
        """Update errors of sampled transitions; return how many are no longer held.

        Args:
            rows: int64 [M, 2], see `PrioritizedTransitions`; other replays ignore them.
            errors: float32 [M], differences from the learning targets.
        """
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        """Total size in bytes."""
        return sum(array.nbytes for array in self._rings().values())

    def commit(self) -> None:
        """Allocate the memory now, so that a run can't run out of it hours later."""
        self._observations.fill(0)

    def save(self, directory: Path, shard: int = 0) -> None:
        """Write all contents to a file in a directory; OSError if that fails."""
        write_arrays(directory / replay_file(shard), self.arrays())

    def load(self, checkpoint: Path, shard: int = 0) -> None:
        """Restore all contents from a checkpoint, if it has a replay.

        Raises:
            UserError: the file is damaged, or belongs to another replay.
        """
        arrays = self.arrays()
        for file in replay_files(checkpoint):
            if file.name == replay_file(shard):
                read_replay(file, arrays)
                self.restore_generator(arrays)

    def restore_generator(self, arrays: Mapping[str, Array]) -> None:
        """Restore the generator from `arrays` once the rings are filled."""
        self._random.bit_generator.state = json.loads(bytes(arrays["random"]))

    def arrays(self) -> dict[str, Array]:
        """Return all contents by name: the rings, and the generator's state."""
        state = json.dumps(self._random.bit_generator.state).encode()
        random = np.frombuffer(state.ljust(_STATE_BYTES), np.uint8).copy()
        return self._rings() | {"random": random}

    def _rings(self) -> dict[str, Array]:
        kept = {k: v for k, v in vars(self).items() if isinstance(v, np.ndarray)}
        return {name.removeprefix("_"): v for name, v in kept.items()}


def replay_file(shard: int) -> str:
    """Return the name of a shard's file in a checkpoint."""
    return f"replay-{shard}.npz"


def shard_bounds(total: int, shards: int) -> list[int]:
    """Return the index of each shard's first environment, and the total at the end."""
    return [total * shard // shards for shard in range(shards + 1)]


def env_quotas(capacity: int, n_envs: int) -> Array:
    """Return each environment's share of the capacity, int64 [B]."""
    shares = np.full(n_envs, capacity // n_envs)
    shares[: capacity % n_envs] += 1
    return shares


def empty_replay(
    kind: Place,
    spec: EnvSpec,
    config: ReplayGroup,
    capacity: int,
    n_envs: int,
    seed: int,
) -> Replay:
    """Return a replay of a class, before its memory is committed."""
    make: Callable[..., Replay] = resolve_class("replay", kind)
    own = config.batch_steps, seed, *config.arguments
    return make(spec, capacity, n_envs, *own)


def replay_for(
    kind: Place,
    spec: EnvSpec,
    config: ReplayGroup,
    n_envs: int,
    seed: int,
    shard: int = 0,
    goal_rewards: GoalRewardFunction | None = None,
) -> Replay:
    """Return the replay of a run, or a shard of it.

    Args:
        kind: class of the replay, or its import path `module:class`.
        spec: spec of the environments.
        config: settings of the replay buffer.
        n_envs: environments of the run; a shard has those between its bounds.
        seed: seed of the run.
        shard: index of the shard, among `config.replay_shards`.
        goal_rewards: rewards of the environment's goals, for a replay that relabels
            goals.
    Raises:
        UserError: the machine's memory can't hold it.
    """
    first, end = shard_bounds(n_envs, config.replay_shards)[shard : shard + 2]
    capacities = shard_bounds(config.buffer_max_size, n_envs)
    size = capacities[end] - capacities[first]
    try:
        replay = empty_replay(kind, spec, config, size, end - first, seed + shard)
        if replay.nbytes > psutil.virtual_memory().available:
            raise MemoryError
    except MemoryError:
        raise UserError(
            f"--buffer-max-size {config.buffer_max_size} needs more memory than this "
            "machine has free: lower it."
        ) from None
    replay.commit()
    replay.goal_rewards = goal_rewards
    return replay
