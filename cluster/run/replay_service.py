"""A shard of a run's replay as a Ray actor."""

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from xagents_ray.actors.envs.goals import GoalRewards, goal_rewards
from xagents_ray.actors.envs.interface import errors_name_line
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.cluster.run.feed import Receipt
from xagents_ray.core.errors import UserError
from xagents_ray.core.objects import install_definitions
from xagents_ray.core.trajectory import (
    Array,
    Fill,
    IntArray,
    PriorityUpdate,
    Replayed,
    Trajectory,
    Transitions,
    slice_envs,
)
from xagents_ray.run.replay_buffer import replay_for, shard_bounds


class ReplayService:
    """A shard of a run's replay; it answers `is_idle` even during other calls.

    `definitions` define environments that its process lacks.
    """

    def __init__(
        self, run: RunSpec, shard: int, definitions: tuple[bytes, ...] = ()
    ) -> None:
        self._run, self._shard, self._definitions = run, shard, definitions
        self._work = threading.Lock()
        self._fault: UserError | None = None
        self._rewards: GoalRewards | None = None
        self._draws = dict[int, Any]()
        self._numbers = itertools.count()  # of draws

    def start(self) -> int:
        """Allocate the memory; return its size in bytes."""
        run, config = self._run, self._run.config.algorithm.replay
        kind = run.replay_kind
        assert kind is not None and config is not None
        n_envs = run.config.env.n_envs
        bounds = shard_bounds(n_envs, config.replay_shards)
        self._first, self._end = bounds[self._shard : self._shard + 2]
        install_definitions(self._definitions)
        self._rewards = rewards = goal_rewards(run.config, run.spec, self._shard)
        self._replay: Any = replay_for(
            kind,
            run.spec,
            config,
            n_envs,
            run.seed,
            self._shard,
            rewards,
            run.stored_noise_units,
            run.stored_state_units,
        )
        return self._replay.nbytes

    def close(self) -> None:
        """Close the environments that compute rewards of other goals."""
        if self._rewards is not None:
            self._rewards.close()

    def insert(self, *trajectories: Trajectory) -> tuple[Fill, float]:
        """Insert the data of the shard's environments; return the fill and seconds.

        Raises:
            UserError: the user's `compute_reward` failed in an earlier `sample`.
        """
        if self._fault is not None:
            raise self._fault
        began = time.perf_counter()
        with self._work:
            if trajectories:
                self._draws.clear()
            for trajectory in trajectories:
                own = slice_envs(trajectory, self._first, self._end)
                if own is not None:
                    shifted = own._replace(first_env=own.first_env - self._first)
                    self._replay.insert(shifted)
        return self._replay.fill, time.perf_counter() - began

    def is_idle(self) -> bool:
        """Return whether the shard is idle, for instance while data is in transit."""
        return not self._work.locked()

    def open(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Prepare `piece` and `put`; return the arrays' dtypes and shapes by name."""
        self._arrays = self._replay.arrays()
        self._filled = dict.fromkeys(self._arrays, 0)
        return {name: (a.dtype.str, a.shape) for name, a in self._arrays.items()}

    def piece(self, name: str, first: int, end: int) -> Array:
        """Return the bytes first to end - 1 of an array."""
        return self._bytes(name)[first:end]

    def put(self, name: str, piece: Array) -> None:
        """Set the next bytes of an array."""
        first = self._filled[name]
        self._filled[name] += len(piece)
        self._bytes(name)[first : first + len(piece)] = piece

    def take(self) -> None:
        """Resume from the arrays that `put` has set."""
        self._replay.restore_generator(self._arrays)

    def _bytes(self, name: str) -> Array:
        return self._arrays[name].reshape(-1, copy=False).view(np.uint8)

    def sample(self, batches: int, count: int) -> Transitions | Replayed:
        """Draw K batches of transitions, or of trajectories per environment."""
        return self._numbered(self._drawn(self._replay.sample, batches, count))

    def draw(self, shard: Any, batches: int, count: int, chunk: int) -> Receipt:
        """Draw like `sample`, to return the data by `fetch` until the next insertion.

        Args:
            shard: the handle of this shard, for the receipt.
            batches: number of batches, K.
            count: number of transitions per batch.
            chunk: number of batches of the run to fetch at a time.
        """
        drawn = self._drawn(self._replay.draw, batches, count)
        number = next(self._numbers)
        self._draws[number] = drawn
        return Receipt(shard, number, batches, count, chunk)

    def _drawn(self, draw: Callable[[int, int], Any], batches: int, count: int) -> Any:
        """Return what a method of the replay draws; keep an error of the user's code.

        It is raised again by the next insertion, whose result the driver waits for.
        """
        try:
            with self._work, errors_name_line(str(self._run.config.env.env)):
                return draw(batches, count)
        except UserError as error:
            self._fault = error
            raise

    def fetch(self, number: int, items: IntArray) -> Transitions:
        """Return transitions of a draw by its number; see `TransitionReplay.fetch`."""
        with self._work:
            return self._numbered(self._replay.fetch(self._draws[number], items))

    def _numbered(self, drawn: Any) -> Any:
        """Return samples with the run's numbers of environments, if they have any."""
        if drawn.rows is None:
            return drawn
        return drawn._replace(rows=drawn.rows + np.array([self._first, 0]))

    def update(self, *updates: PriorityUpdate) -> int:
        """Update priorities; return how many of the transitions were overwritten."""
        late, first = 0, np.array([self._first, 0])
        for each in updates:
            envs = each.rows[:, 0]
            own = (envs >= self._first) & (envs < self._end)
            with self._work:
                late += self._replay.update(each.rows[own] - first, each.errors[own])
        return late
