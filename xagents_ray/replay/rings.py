"""Ring buffers of single transitions, with each observation stored once."""

import math
from abc import abstractmethod

import numpy as np

from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.stacks import same_episode
from xagents_ray.core.trajectory import (
    ACTION_MASKS,
    Array,
    BoolArray,
    IntArray,
    Trajectory,
    field_types,
    paired_arrays,
)
from xagents_ray.replay.base import Replay, empty_rings, env_quotas

# A reset takes a row too, for its frame; sufficient for episodes of 30 steps or more.
_ROWS_PER_TRANSITION = 31 / 30


class TransitionRings(Replay):
    """Holds the newest transitions of every environment.

    Each environment has its own ring, so env actors insert independently. Ring row `p %
    length` holds observation `p` of its environment and the step taken on it; the next
    observation is the next row.

    Args:
        spec: spec of the environments.
        capacity: maximum number of transitions, all environments together.
        n_envs: number of environments that insert.
        longest: number of rows of the longest trajectory.
        has_log_probs: whether to hold the log-densities of actions.
    """

    def __init__(
        self,
        spec: EnvSpec,
        capacity: int,
        n_envs: int,
        longest: int,
        has_log_probs: bool = False,
    ) -> None:
        self._stack = spec.stack
        self._quota = env_quotas(capacity, n_envs)
        rows = math.ceil(capacity / n_envs * _ROWS_PER_TRANSITION)
        self._length = max(rows, longest) + spec.stack + 1
        shape = (n_envs, self._length)
        types = field_types(spec)
        self._observations = empty_rings(types["observations"], shape)
        self._starts = np.zeros(shape, np.bool_)
        if spec.is_discrete:
            self._actions: Array = np.zeros(shape, np.int32)
        else:
            self._actions = np.zeros((*shape, spec.action_units), np.float32)
        self._rewards = np.zeros(shape, np.float32)
        self._terminated = np.zeros(shape, np.bool_)
        self._valid = np.zeros(shape, np.bool_)
        self._info = None
        if spec.info:
            self._info = np.zeros((*shape, spec.info_size))
        self._log_probs = np.zeros(shape, np.float32) if has_log_probs else None
        self._action_masks = None  # of the observation of each row
        if spec.has_action_masks:
            self._action_masks = empty_rings(types[ACTION_MASKS], shape)
        self._head = np.zeros(n_envs, np.int64)
        self._tail = np.zeros(n_envs, np.int64)
        self._count = np.zeros(n_envs, np.int64)
        self._full = np.zeros(n_envs, np.bool_)

    @abstractmethod
    def _note(self, tails: IntArray, heads: IntArray) -> None:
        """Update what depends on the rings' contents after an insertion.

        `tails` and `heads`, [n_envs], bound the contents before the insertion.
        """

    def insert(self, trajectory: Trajectory) -> None:
        """Copy a trajectory in, overwriting the oldest transitions."""
        envs = trajectory.first_env + np.arange(trajectory.rewards.shape[1])
        shown = same_episode(trajectory.starts[: self._stack])
        tails, heads = self._tail.copy(), self._head.copy()
        for column in np.flatnonzero(~self._follow(trajectory, envs, shown)).tolist():
            first = int(shown[:, column].argmax())
            self._insert_older_frames(trajectory, column, first)
        self._insert_steps(trajectory, envs)
        self._note(tails, heads)

    def _follow(
        self, trajectory: Trajectory, envs: IntArray, shown: BoolArray
    ) -> BoolArray:
        """Return whose newest stored frames equal those of the first stack, bool [B].

        Only frames that are `shown`, bool [stack, B], count.
        """
        rows = self._head[envs] + np.arange(1 - self._stack, 1)[:, None]
        rows %= self._length
        equal = self._starts[envs, rows] == trajectory.starts[: self._stack]
        for held, new in paired_arrays(self._observations, trajectory.observations):
            same = held[envs, rows] == new[: self._stack]
            equal &= same.all(axis=(*range(2, same.ndim),))
        follow: BoolArray = (equal | ~shown).all(axis=0)
        return follow

    def _insert_older_frames(
        self, trajectory: Trajectory, column: int, first: int
    ) -> None:
        """Copy in one environment's frames from `first` to before its first step.

        They don't continue the stored steps (a rollout was lost, or this replay
        replaces another one), and are inserted after the observation that follows the
        last stored step.
        """
        env, older = trajectory.first_env + column, slice(first, self._stack - 1)
        head = int(self._head[env])
        if self._tail[env] < head and self._valid[env, (head - 1) % self._length]:
            self._valid[env, head % self._length] = False
            head += 1
        end = head + self._stack - 1 - first
        rows = np.arange(head, end) % self._length
        for held, new in paired_arrays(self._observations, trajectory.observations):
            held[env, rows] = new[older, column]
        self._starts[env, rows] = trajectory.starts[older, column]
        self._make_room(env, end)
        self._valid[env, rows] = False
        self._head[env] = end

    def _insert_steps(self, trajectory: Trajectory, envs: IntArray) -> None:
        """Copy in the steps of environments, after the newest stored frames."""
        length, first = len(trajectory.rewards), self._stack - 1
        ends, own = self._head[envs] + length, envs[:, None]
        rows = (self._head[envs, None] + np.arange(length + 1)) % self._length
        steps = rows[:, :-1]
        for held, new in paired_arrays(self._observations, trajectory.observations):
            held[own, rows] = new[first:].swapaxes(0, 1)
        self._starts[own, rows] = trajectory.starts[first:].T
        if self._action_masks is not None:
            assert trajectory.action_masks is not None
            self._action_masks[own, rows] = trajectory.action_masks.swapaxes(0, 1)
        self._actions[own, steps] = trajectory.actions.swapaxes(0, 1)
        self._rewards[own, steps] = trajectory.rewards.T
        self._terminated[own, steps] = trajectory.terminated.T
        if self._info is not None:
            assert trajectory.info is not None
            self._info[own, steps] = trajectory.info.swapaxes(0, 1)
        if self._log_probs is not None:
            assert trajectory.log_probs is not None
            self._log_probs[own, steps] = trajectory.log_probs.T
        for env, end in zip(envs.tolist(), ends.tolist(), strict=True):
            self._make_room(env, end)
        self._valid[own, steps] = trajectory.valid.T
        self._count[envs] += np.count_nonzero(trajectory.valid, axis=0)
        self._head[envs] = ends
        for env in envs[self._count[envs] > self._quota[envs]].tolist():
            self._evict(env)

    def _make_room(self, env: int, head: int) -> None:
        """Drop rows that moving the head here overwrites or makes incomplete."""
        oldest = head + self._stack - self._length
        tail = int(self._tail[env])
        if oldest > tail:
            dropped = np.arange(tail, min(oldest, self._head[env])) % self._length
            self._count[env] -= np.count_nonzero(self._valid[env, dropped])
            self._tail[env] = oldest
            self._full[env] = True

    def _evict(self, env: int) -> None:
        """Drop the oldest transitions beyond the environment's quota."""
        surplus = int(self._count[env] - self._quota[env])
        tail, span = int(self._tail[env]), 2 * surplus + 1
        valid = np.empty(0, np.int64)
        while len(valid) < surplus:  # mostly one pass; more with many invalid rows
            rows = np.arange(tail, tail + span) % self._length
            valid, span = np.flatnonzero(self._valid[env, rows]), 2 * span
        self._tail[env] = tail + valid[surplus - 1] + 1
        self._count[env] -= surplus
        self._full[env] = True

    def _places_ahead(self, rows: IntArray, places: IntArray, count: int) -> IntArray:
        """Return the places of rows and of those after them, int64 [M, count]."""
        ahead = np.arange(count)
        return (places - rows)[:, None] + (rows[:, None] + ahead) % self._length

    def _any(
        self, count: int, random: np.random.Generator
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Draw environments, ring rows and places of M random rows, valid or not."""
        ends = (self._head - self._tail).cumsum()
        drawn = random.integers(ends[-1], size=count)
        envs = np.searchsorted(ends, drawn, side="right")
        rows = ((self._head - ends).take(envs) + drawn) % self._length
        return envs, rows, envs * self._length + rows


def take(rings: Array, places: IntArray) -> Array:
    """Return the contents of rings [n_envs, length, ...] at the given places."""
    return rings.reshape(-1, *rings.shape[2:]).take(places, axis=0)
