"""The replay buffer of single transitions, every observation stored once."""

import math
from typing import Any

import numpy as np

from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import (
    Array,
    BoolArray,
    FloatArray,
    IntArray,
    Trajectory,
    Transitions,
    seen,
)
from xagents_ray.replay.base import Fill, Replay, quotas
from xagents_ray.replay.hindsight import Hindsight, Relabeled

# Rows that only reset hold a frame too: this many per transition, for episodes of
# 30 steps or more.
_ROWS_PER_TRANSITION = 31 / 30


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
        n_step: steps that one sampled transition spans, fewer at an episode's end.
        gamma: discount factor.
        relabeling: strategy and count of `Hindsight`; None leaves goals as they are.
    """

    def __init__(
        self,
        spec: EnvSpec,
        capacity: int,
        n_envs: int,
        longest: int,
        seed: int,
        n_step: int,
        gamma: float,
        relabeling: tuple[str, int] | None = None,
    ) -> None:
        self._stack = spec.stack
        self._quota = quotas(capacity, n_envs)
        rows = math.ceil(capacity / n_envs * _ROWS_PER_TRANSITION)
        self._length = max(rows, longest) + spec.stack + 1
        shape = (n_envs, self._length)
        frames = (*shape, *spec.observation_shape)
        self._observations = np.zeros(frames, spec.observation_dtype)
        self._starts = np.zeros(shape, np.bool_)
        if spec.is_discrete:
            self._actions: Array = np.zeros(shape, np.int32)
        else:
            self._actions = np.zeros((*shape, spec.action_units), np.float32)
        self._rewards = np.zeros(shape, np.float32)
        self._terminated = np.zeros(shape, np.bool_)
        self._valid = np.zeros(shape, np.bool_)
        self._head = np.zeros(n_envs, np.int64)
        self._tail = np.zeros(n_envs, np.int64)
        self._count = np.zeros(n_envs, np.int64)
        self._full = np.zeros(n_envs, np.bool_)
        self._random = np.random.default_rng([seed, capacity])
        self._n_step, self._gamma = n_step, gamma
        self._hindsight = None
        if relabeling is not None and spec.goals is not None:
            self._hindsight = Hindsight(spec.goals, *relabeling)
            # Of the first and the last step held of each step's episode.
            self._first_steps = np.zeros(shape, np.int64)
            self._last_steps = np.zeros(shape, np.int64)

    @property
    def fill(self) -> Fill:
        """The fill level."""
        return Fill(int(self._count.sum()), bool(self._full.all()))

    def insert(self, trajectory: Trajectory) -> None:
        """Copy a trajectory in; the oldest transitions make room."""
        shown = seen(trajectory.starts[: self._stack])
        for column in range(trajectory.rewards.shape[1]):
            self._insert(trajectory, column, np.flatnonzero(shown[:, column]))

    def _insert(self, trajectory: Trajectory, column: int, shown: IntArray) -> None:
        """Copy one environment's steps in; `shown` rows are in their first stack.

        Where they don't follow the steps held (a rollout between was lost, or this
        replay replaces another), the older frames of that stack come with them.
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
        if self._hindsight is not None:
            self._mark_episodes(env, head)
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

    def _mark_episodes(self, env: int, head: int) -> None:
        """Set the bounds of the episodes of steps at and behind position `head`."""
        begin, end, length = head, int(self._head[env]), self._length
        if self._tail[env] < head:  # the newest episode before may continue
            begin = max(self._first_steps[env, (head - 1) % length], self._tail[env])
        rows = np.arange(begin, end)
        valid = self._valid[env, rows % length]
        # A step that is not valid ends an episode, and the next one begins another.
        firsts = np.maximum.accumulate(np.where(valid, begin, rows + 1))
        lasts = np.where(valid, end - 1, rows - 1)[::-1]
        self._first_steps[env, rows % length] = firsts
        self._last_steps[env, rows % length] = np.minimum.accumulate(lasts)[::-1]

    def _make_room(self, env: int, head: int) -> None:
        """Drop the rows that a head at this position overwrites, or cuts a stack of."""
        oldest = head + self._stack - self._length
        tail = int(self._tail[env])
        if oldest > tail:
            dropped = np.arange(tail, min(oldest, self._head[env])) % self._length
            self._count[env] -= np.count_nonzero(self._valid[env, dropped])
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
        """Draw K batches of N transitions, uniformly; ValueError if it is empty."""
        if self.fill.size == 0:
            raise ValueError("The replay is empty: insert a trajectory first.")
        envs, rows, places = self._draw(batches * batch_size)
        relabeled = self._relabel(envs, rows, places)
        rewards, discounts, steps = self._span(envs, rows, places, relabeled)
        window = np.arange(1 - self._stack, 1)
        # One step shares all frames but one.
        after = window if self._n_step > 1 else window[-1:]
        shown = np.concatenate(
            [rows[:, None] + window, (rows + steps)[:, None] + after], axis=1
        )
        frames = envs[:, None] * self._length + shown % self._length
        observations = _take(self._observations, frames)
        if self._hindsight is not None and relabeled is not None:
            goals = relabeled.goals[:, None]
            observations[relabeled.rows, :, self._hindsight.desired] = goals

        def batched(array: Any) -> Any:
            return array.reshape(batches, batch_size, *array.shape[1:])

        return Transitions(
            batched(observations),
            batched(self._starts.take(frames)),
            batched(_take(self._actions, places)),
            batched(rewards),
            batched(discounts),
        )

    def _relabel(
        self, envs: IntArray, rows: IntArray, places: IntArray
    ) -> Relabeled | None:
        """Return other goals for some of the steps there; None without HER."""
        if self._hindsight is None:
            return None
        head, tail = self._head.take(envs), self._tail.take(envs)
        first = np.maximum(self._first_steps.take(places), tail)
        step = head - (head - rows) % self._length
        bounds = first, step, self._last_steps.take(places)
        chosen, steps = self._hindsight.draw(*bounds, self._random)
        return Relabeled(chosen, self._achieved(envs[chosen], steps))

    def _achieved(self, envs: IntArray, steps: IntArray) -> FloatArray:
        """Return float32 [..., G], what steps achieved: the observations after them."""
        assert self._hindsight is not None
        places = envs * self._length + (steps + 1) % self._length
        goals = _take(self._observations, places)[..., self._hindsight.achieved]
        return goals.astype(np.float32, copy=False)

    def _reward(
        self, envs: IntArray, steps: IntArray, goals: FloatArray
    ) -> tuple[FloatArray, BoolArray | None]:
        """Return rewards of [M, n] steps for goals [M, G], and whether they terminate.

        float32 and bool [M, n]; None where the environment doesn't say.
        """
        assert self.goal_rewards is not None
        achieved = self._achieved(envs, steps)
        desired = np.broadcast_to(goals[:, None], achieved.shape)
        size = goals.shape[-1]
        pairs = achieved.reshape(-1, size), desired.reshape(-1, size)
        rewards, over = self.goal_rewards(*pairs)
        over = None if over is None else over.reshape(steps.shape)
        return rewards.reshape(steps.shape), over

    def _span(
        self,
        envs: IntArray,
        rows: IntArray,
        places: IntArray,
        relabeled: Relabeled | None,
    ) -> tuple[FloatArray, FloatArray, IntArray | int]:
        """Return rewards, discounts and steps of up to `n_step` steps of one episode.

        They are [M] each: the discounted sum of rewards from a row on, the discount of
        the value that follows, and the steps taken.
        Source: arXiv:1710.02298, "Multi-step learning".
        """
        if self._n_step == 1 and relabeled is None:
            discounts = np.float32(self._gamma) * ~self._terminated.take(places)
            return self._rewards.take(places), discounts, 1
        ahead = np.arange(self._n_step)
        at = (places - rows)[:, None] + (rows[:, None] + ahead) % self._length
        rewards, ends = self._rewards.take(at), self._terminated.take(at)
        if relabeled is not None:
            chosen, goals = relabeled
            steps_on = envs[chosen, None], rows[chosen, None] + ahead
            rewards[chosen], over = self._reward(*steps_on, goals)
            if over is not None:
                ends[chosen] = over
        # A ring is never full: its head is behind all that it holds.
        left = (self._head.take(envs) - rows) % self._length
        on = self._valid.take(at) & (ahead < left[:, None])
        on[:, 1:] &= ~ends[:, :-1]
        on = np.logical_and.accumulate(on, axis=1)
        steps, powers = on.sum(axis=1), self._gamma ** np.arange(self._n_step + 1)
        powers = powers.astype(np.float32)
        rewards = (on * rewards) @ powers[:-1]
        discounts = powers[steps] * ~(on & ends).any(axis=1)
        return rewards, discounts, steps

    def _draw(self, count: int) -> tuple[IntArray, IntArray, IntArray]:
        """Return environments and ring rows of M valid transitions, and their places.

        A place counts rows through all rings one behind another: `take` with it is many
        times faster than indexing with two arrays.
        """
        envs, rows, places = self._any(count)
        bad = np.flatnonzero(~self._valid.take(places))
        while len(bad):
            envs[bad], rows[bad], places[bad] = self._any(len(bad))
            bad = bad[~self._valid.take(places[bad])]
        return envs, rows, places

    def _any(self, count: int) -> tuple[IntArray, IntArray, IntArray]:
        """Return environments, ring rows and places of M rows, valid or not."""
        ends = (self._head - self._tail).cumsum()
        drawn = self._random.integers(ends[-1], size=count)
        envs = np.searchsorted(ends, drawn, side="right")
        rows = ((self._head - ends).take(envs) + drawn) % self._length
        return envs, rows, envs * self._length + rows


def _take(rings: Array, places: IntArray) -> Array:
    """Return what is at these places of rings [n_envs, length, ...]."""
    return rings.reshape(-1, *rings.shape[2:]).take(places, axis=0)
