"""Replay buffers: rings in memory of a fixed size, every observation once."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xagents_ray.algorithms.families import ReplayConfig
from xagents_ray.core.errors import UserError
from xagents_ray.core.machine import free_memory
from xagents_ray.core.resolve import resolve
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import (
    Array,
    IntArray,
    Replayed,
    Trajectory,
    Transitions,
    seen,
)
from xagents_ray.storage.checkpoints import read_replay, replay_files
from xagents_ray.storage.files import write_arrays

# Rows that only reset hold a frame too: this many per transition, for episodes of
# 30 steps or more.
_ROWS_PER_TRANSITION = 31 / 30


_STATE_BYTES = 512
"""Of a generator's state, in JSON."""


class Fill(NamedTuple):
    """How full a replay is.

    Attributes:
        size: transitions or trajectories held.
        is_full: old ones make room for new ones; of transitions, with episodes
            shorter than 30 steps, that begins below the capacity.
    """

    size: int
    is_full: bool


class Replay(ABC):
    """What all replay buffers do: their arrays are taken once, saved and loaded."""

    _observations: Array
    _random: np.random.Generator

    @property
    @abstractmethod
    def fill(self) -> Fill:
        """How full it is."""

    @abstractmethod
    def insert(self, trajectory: Trajectory) -> None:
        """Copy a trajectory in; the oldest contents make room."""

    @abstractmethod
    def sample(self, batches: int, batch_size: int) -> Transitions | Replayed:
        """Draw K batches, uniformly with replacement.

        Args:
            batches: K.
            batch_size: transitions, or trajectories of each environment.
        Raises:
            ValueError: it is empty.
        """

    @property
    def frame_nbytes(self) -> int:
        """Bytes of all observations."""
        return self._observations.nbytes

    @property
    def nbytes(self) -> int:
        """Bytes of everything."""
        return sum(array.nbytes for array in self._rings().values())

    def commit(self) -> None:
        """Take the memory now, so that a run can't fail for it hours later."""
        self._observations.fill(0)

    def save(self, directory: Path, shard: int = 0) -> None:
        """Write everything to a file there; OSError when it can't be."""
        write_arrays(directory / replay_file(shard), self.arrays())

    def load(self, checkpoint: Path, shard: int = 0) -> None:
        """Take everything from a checkpoint; nothing from one without a replay.

        Raises:
            UserError: the file is damaged, or of another replay.
        """
        arrays = self.arrays()
        for file in replay_files(checkpoint):
            if file.name == replay_file(shard):
                read_replay(file, arrays)
                self.go_on(arrays)

    def go_on(self, arrays: Mapping[str, Array]) -> None:
        """Take the generator's state from `arrays`, whose rings have been filled."""
        self._random.bit_generator.state = json.loads(bytes(arrays["random"]))

    def arrays(self) -> dict[str, Array]:
        """Return everything by name, the rings themselves."""
        state = json.dumps(self._random.bit_generator.state).encode()
        random = np.frombuffer(state.ljust(_STATE_BYTES), np.uint8).copy()
        return self._rings() | {"random": random}

    def _rings(self) -> dict[str, Array]:
        kept = {k: v for k, v in vars(self).items() if isinstance(v, np.ndarray)}
        return {name.removeprefix("_"): v for name, v in kept.items()}


class TransitionReplay(Replay):
    """Holds the newest transitions of every environment, sampled uniformly.

    Each environment has a ring of its own, so env actors insert independently. Ring
    row `p % length` holds observation `p` of its environment and the step taken on
    it; the next observation is the next row.

    Args:
        spec: of the environments.
        capacity: transitions of all environments together.
        n_envs: how many environments insert.
        longest: rows of the longest trajectory.
        seed: of the sampling.
    """

    def __init__(
        self, spec: EnvSpec, capacity: int, n_envs: int, longest: int, seed: int
    ) -> None:
        self.capacity = capacity
        self._stack = spec.stack
        self._quota = np.full(n_envs, capacity // n_envs)
        self._quota[: capacity % n_envs] += 1
        rows = math.ceil(capacity / n_envs * _ROWS_PER_TRANSITION)
        self._length = max(rows, longest) + spec.stack + 1
        shape = (n_envs, self._length)
        frames = (*shape, *spec.observation_shape)
        self._observations = np.zeros(frames, spec.observation_dtype)
        self._starts = np.zeros(shape, np.bool_)
        discrete = spec.is_discrete
        self._actions = np.zeros(
            shape if discrete else (*shape, spec.action_units),
            np.int32 if discrete else np.float32,
        )
        self._rewards = np.zeros(shape, np.float32)
        self._terminated = np.zeros(shape, np.bool_)
        self._valid = np.zeros(shape, np.bool_)
        self._head = np.zeros(n_envs, np.int64)
        self._tail = np.zeros(n_envs, np.int64)
        self._count = np.zeros(n_envs, np.int64)
        self._full = np.zeros(n_envs, np.bool_)
        self._random = np.random.default_rng([seed, capacity])

    @property
    def fill(self) -> Fill:
        """How full it is."""
        return Fill(int(self._count.sum()), bool(self._full.all()))

    def insert(self, trajectory: Trajectory) -> None:
        """Copy a trajectory in; the oldest transitions make room."""
        shown = seen(trajectory.starts[: self._stack])
        for column in range(trajectory.rewards.shape[1]):
            self._insert(trajectory, column, np.flatnonzero(shown[:, column]))

    def _insert(self, trajectory: Trajectory, column: int, shown: IntArray) -> None:
        """Copy one environment's steps in.

        Where they don't follow the steps held (a rollout between was lost, or this
        replay replaces another), the older frames of their first stack come with them.

        Args:
            trajectory: of this environment and others.
            column: of this environment.
            shown: rows of the trajectory that its first stack shows.
        """
        env, first = trajectory.first_env + column, self._stack - 1
        head, length = int(self._head[env]), len(trajectory.rewards)
        if not self._follows(trajectory, column, shown):
            last = (head - 1) % self._length
            if self._tail[env] < head and self._valid[env, last]:
                # What followed the last step is lost.
                self._valid[env, last] = False
                self._count[env] -= 1
            first = int(shown[0])
        older = self._stack - 1 - first
        end = head + older + length
        rows = np.arange(head, end + 1) % self._length
        steps, valid = rows[older:-1], trajectory.valid[:, column]
        self._observations[env, rows] = trajectory.observations[first:, column]
        self._starts[env, rows] = trajectory.starts[first:, column]
        self._actions[env, steps] = trajectory.actions[:, column]
        self._rewards[env, steps] = trajectory.rewards[:, column]
        self._terminated[env, steps] = trajectory.terminated[:, column]
        self._make_room(env, end)
        self._valid[env, rows[:older]] = False
        self._valid[env, steps] = valid
        self._count[env] += np.count_nonzero(valid)
        self._head[env] = end
        self._evict(env)

    def _follows(self, trajectory: Trajectory, column: int, shown: IntArray) -> bool:
        """Return whether the newest frames held are those of the first stack."""
        env = trajectory.first_env + column
        rows = (int(self._head[env]) + 1 - self._stack + shown) % self._length
        pairs = (
            (self._starts, trajectory.starts),
            (self._observations, trajectory.observations),
        )
        return all(
            np.array_equal(held[env, rows], new[shown, column]) for held, new in pairs
        )

    def _make_room(self, env: int, head: int) -> None:
        """Let go of rows that a head there overwrites, or whose stack it cuts."""
        oldest = head + self._stack - self._length
        tail = int(self._tail[env])
        if oldest > tail:
            gone = np.arange(tail, min(oldest, self._head[env])) % self._length
            self._count[env] -= np.count_nonzero(self._valid[env, gone])
            self._tail[env] = oldest
            self._full[env] = True

    def _evict(self, env: int) -> None:
        """Drop the oldest transitions that are above the environment's quota."""
        surplus = int(self._count[env] - self._quota[env])
        if surplus > 0:
            tail, span = int(self._tail[env]), 2 * surplus + 1
            valid = np.empty(0, np.int64)
            while len(valid) < surplus:  # one look, but for a dying actor's short rows
                rows = np.arange(tail, tail + span) % self._length
                valid, span = np.flatnonzero(self._valid[env, rows]), 2 * span
            self._tail[env] = tail + valid[surplus - 1] + 1
            self._count[env] -= surplus
            self._full[env] = True

    def sample(self, batches: int, batch_size: int) -> Transitions:
        """Draw K batches of N transitions, uniformly with replacement.

        Args:
            batches: K.
            batch_size: N.
        Raises:
            ValueError: it is empty.
        """
        if self.fill.size == 0:
            raise ValueError("The replay is empty: insert a trajectory first.")
        envs, rows = self._draw(batches * batch_size)
        window = np.arange(1 - self._stack, 2)
        frames = envs[:, None], (rows[:, None] + window) % self._length
        at = envs, rows % self._length

        def batched(array: Any) -> Any:
            return array.reshape(batches, batch_size, *array.shape[1:])

        return Transitions(
            batched(self._observations[frames]),
            batched(self._starts[frames]),
            batched(self._actions[at]),
            batched(self._rewards[at]),
            batched(self._terminated[at]),
        )

    def _draw(self, count: int) -> tuple[IntArray, IntArray]:
        """Return `count` environments and positions of valid rows."""
        ends = (self._head - self._tail).cumsum()
        flat: IntArray = self._random.integers(ends[-1], size=count)
        while True:
            envs = np.searchsorted(ends, flat, side="right").astype(np.int64)
            rows = self._head[envs] - ends[envs] + flat
            bad = np.flatnonzero(~self._valid[envs, rows % self._length])
            if len(bad) == 0:
                return envs, rows
            flat[bad] = self._random.integers(ends[-1], size=len(bad))


def replay_file(shard: int) -> str:
    """Return the name of a shard's file in a checkpoint."""
    return f"replay-{shard}.npz"


def shard_bounds(total: int, shards: int) -> list[int]:
    """Return where each shard begins among all environments, and the end of all."""
    return [total * shard // shards for shard in range(shards + 1)]


def replay_for(
    kind: str,
    spec: EnvSpec,
    config: ReplayConfig,
    n_envs: int,
    seed: int,
    shard: int = 0,
) -> Replay:
    """Return the replay of a run, or a shard of it.

    Args:
        kind: `module:class` of it.
        spec: of the environments.
        config: of the algorithm.
        n_envs: environments of the run; a shard has those between its bounds.
        seed: of the run.
        shard: which one of `config.replay_shards`.
    Raises:
        UserError: the machine's memory can't hold it.
    """
    first, end = shard_bounds(n_envs, config.replay_shards)[shard : shard + 2]
    quotas = shard_bounds(config.buffer_max_size, n_envs)
    size = quotas[end] - quotas[first]
    try:
        make = resolve(kind)
        replay: Replay = make(spec, size, end - first, config.batch_steps, seed + shard)
        free = free_memory()
        if free is not None and replay.nbytes > free:
            raise MemoryError
    except MemoryError:
        raise UserError(
            f"--buffer-max-size {config.buffer_max_size} needs more memory than this "
            "machine has free: lower it."
        ) from None
    replay.commit()
    return replay
