"""The replay buffer of single transitions: sampling, n-step returns, HER and PER."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import (
    Array,
    BoolArray,
    Fill,
    FloatArray,
    IntArray,
    Transitions,
    map_array,
    vectors_of,
)
from xagents_ray.replay.hindsight import Hindsight, Relabeled
from xagents_ray.replay.rings import TransitionRings, take
from xagents_ray.replay.sum_tree import Priorities


class TransitionReplay(TransitionRings):
    """Samples the newest transitions of every environment.

    Args:
        spec: spec of the environments.
        capacity: maximum number of transitions, all environments together.
        n_envs: number of environments that insert.
        longest: number of rows of the longest trajectory.
        seed: seed of the sampling.
        n_step: number of steps that a sampled transition spans; fewer at the end of an
            episode.
        gamma: discount factor.
        relabeling: strategy and count of `Hindsight`; None keeps all goals.
        alpha: exponent of the errors in priorities; None for uniform sampling.
        has_log_probs: whether samples have log-densities of actions.
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
        alpha: float | None = None,
        has_log_probs: bool = False,
    ) -> None:
        super().__init__(spec, capacity, n_envs, longest, has_log_probs)
        self._random = np.random.default_rng([seed, capacity])
        self._n_step, self._gamma = n_step, gamma
        self._hindsight = None
        if relabeling is not None and spec.goals is not None:
            self._hindsight = Hindsight(spec.goals, *relabeling)
            shape = self._valid.shape
            # Positions of the first and last stored steps of each step's episode.
            self._first_steps = np.zeros(shape, np.int64)
            self._last_steps = np.zeros(shape, np.int64)
        self._priorities = None
        if alpha is not None:
            self._priorities = Priorities(n_envs, self._length, alpha)

    @property
    def fill(self) -> Fill:
        total = None if self._priorities is None else self._priorities.total
        return Fill(int(self._count.sum()), bool(self._full.all()), total)

    def _note(self, tails: IntArray, heads: IntArray) -> None:
        changed = np.flatnonzero(self._head > heads).tolist()
        if self._hindsight is not None:
            for env in changed:
                self._mark_episodes(env, int(heads[env]))
        if self._priorities is not None:
            self._prioritize(self._priorities, changed, tails, heads)

    def _mark_episodes(self, env: int, head: int) -> None:
        """Set the episode bounds of the steps at and after position `head`."""
        begin, end, length = head, int(self._head[env]), self._length
        if self._tail[env] < head:  # the newest stored episode may continue
            begin = max(self._first_steps[env, (head - 1) % length], self._tail[env])
        rows = np.arange(begin, end)
        valid = self._valid[env, rows % length]
        # An invalid step separates two episodes.
        firsts = np.maximum.accumulate(np.where(valid, begin, rows + 1))
        lasts = np.where(valid, end - 1, rows - 1)[::-1]
        self._first_steps[env, rows % length] = firsts
        self._last_steps[env, rows % length] = np.minimum.accumulate(lasts)[::-1]

    def _prioritize(
        self,
        priorities: Priorities,
        changed: list[int],
        tails: IntArray,
        heads: IntArray,
    ) -> None:
        """Update the priorities of environments that changed."""
        parts = []
        for env in changed:
            dropped = np.arange(tails[env], self._tail[env])
            newest = np.arange(heads[env], self._head[env])
            parts += [(env, step) for step in (dropped, newest)]
        envs = np.concatenate([np.full(len(step), env) for env, step in parts])
        steps = np.concatenate([step for _, step in parts])
        places = envs * self._length + steps % self._length
        held = self._valid.take(places) & (steps >= self._tail[envs])
        priorities.keep(places, held, new=steps >= heads[envs])

    def update(self, rows: IntArray, errors: FloatArray) -> int:
        """Set priorities of rows from errors; return how many were overwritten."""
        assert self._priorities is not None
        envs, steps = rows[:, 0], rows[:, 1]
        places = envs * self._length + steps % self._length
        held = (steps >= self._tail[envs]) & (steps < self._head[envs])
        held &= self._valid.take(places)
        self._priorities.update(places[held], errors[held])
        return len(rows) - int(held.sum())

    def restore_generator(self, arrays: Mapping[str, Array]) -> None:
        """Restore the generator and the sums of priorities."""
        super().restore_generator(arrays)
        if self._priorities is not None:
            self._priorities.add_up()

    def _rings(self) -> dict[str, Array]:
        rings = super()._rings()
        if self._priorities is not None:
            rings["priorities"] = self._priorities.rows
            rings["largest_priority"] = self._priorities.largest
        return rings

    def sample(self, batches: int, batch_size: int) -> Transitions:
        """Draw K batches of N transitions; ValueError if the replay is empty."""
        if not self._count.any():
            raise ValueError("The replay is empty: insert a trajectory first.")
        envs, rows, places = self._draw(batches, batch_size)
        relabeled = self._relabel(envs, rows, places)
        rewards, discounts, steps = self._span(envs, rows, places, relabeled)
        window = np.arange(1 - self._stack, 1)
        # Consecutive observations share all frames but one.
        after = window if self._n_step > 1 else window[-1:]
        shown = np.concatenate(
            [rows[:, None] + window, (rows + steps)[:, None] + after], axis=1
        )
        frames = envs[:, None] * self._length + shown % self._length
        observations = map_array(lambda rings: take(rings, frames), self._observations)
        if self._hindsight is not None and relabeled is not None:
            goals, vectors = relabeled.goals[:, None], vectors_of(observations)
            vectors[relabeled.rows, :, self._hindsight.desired] = goals

        def batched(array: Any) -> Any:
            return array.reshape(batches, batch_size, *array.shape[1:])

        transitions = Transitions(
            observations=map_array(batched, observations),
            starts=batched(self._starts.take(frames)),
            actions=batched(take(self._actions, places)),
            rewards=batched(rewards),
            discounts=batched(discounts),
        )
        if self._log_probs is not None:
            later = self._later_sums(self._log_probs, rows, places, steps)
            transitions = transitions._replace(log_probs=batched(later))
        if self._action_masks is not None:
            after_place = envs * self._length + (rows + steps) % self._length
            masks = batched(take(self._action_masks, after_place))
            transitions = transitions._replace(action_masks=masks)
        if self._priorities is None:
            return transitions
        drawn = self._priorities.at(places).astype(np.float32)
        heads = self._head.take(envs)
        steps = heads - (heads - rows) % self._length
        drawn_rows = batched(np.stack([envs, steps], axis=1))
        return transitions._replace(priorities=batched(drawn), rows=drawn_rows)

    def _relabel(
        self, envs: IntArray, rows: IntArray, places: IntArray
    ) -> Relabeled | None:
        """Return new goals for some of the transitions; None if none get one."""
        if self._hindsight is None:
            return None
        head, tail = self._head.take(envs), self._tail.take(envs)
        first = np.maximum(self._first_steps.take(places), tail)
        step = head - (head - rows) % self._length
        last = self._last_steps.take(places)
        chosen, steps = self._hindsight.draw(first, step, last, self._random)
        if not len(chosen):
            return None
        return Relabeled(chosen, self._achieved(envs[chosen], steps))

    def _achieved(self, envs: IntArray, steps: IntArray) -> FloatArray:
        """Return the goals that steps achieved, as next observed, float32 [..., G]."""
        assert self._hindsight is not None
        places = envs * self._length + (steps + 1) % self._length
        vectors = take(vectors_of(self._observations), places)
        goals = vectors[..., self._hindsight.achieved]
        return goals.astype(np.float32, copy=False)

    def _reward(
        self, envs: IntArray, steps: IntArray, goals: FloatArray
    ) -> tuple[FloatArray, BoolArray | None]:
        """Return rewards and terminations of [M, n] steps for goals [M, G].

        They are float32 and bool [M, n]; terminations are None if the environment
        doesn't define them.
        """
        achieved = self._achieved(envs, steps)
        desired = np.broadcast_to(goals[:, None], achieved.shape)
        size, places = goals.shape[-1], envs * self._length + steps % self._length
        rewards, over = self._goal_rewards(
            achieved.reshape(-1, size), desired.reshape(-1, size), places.reshape(-1)
        )
        over = None if over is None else over.reshape(steps.shape)
        return rewards.reshape(steps.shape), over

    def _goal_rewards(
        self, achieved: FloatArray, desired: FloatArray, places: IntArray
    ) -> tuple[FloatArray, BoolArray | None]:
        """Return rewards and terminations of steps at places [N] for goals [N, G].

        At least one step must be valid.
        """
        assert self.goal_rewards is not None
        info = None
        if self._info is not None:
            # An invalid step has no info. Its results are not used, but the function
            # must not fail: it gets the info of a valid one.
            valid = self._valid.take(places)
            info = take(self._info, np.where(valid, places, places[valid.argmax()]))
        return self.goal_rewards(achieved, desired, info)

    def _ends_of_other_causes(
        self, envs: IntArray, steps: IntArray, at: IntArray
    ) -> BoolArray:
        """Return which steps, at places [M, n], terminated regardless of their goals.

        These are the terminations, bool [M, n], that the desired goal doesn't explain;
        invalid steps have none.
        """
        assert self._hindsight is not None
        found = self._terminated.take(at) & self._valid.take(at)
        if found.any():
            achieved = self._achieved(envs, steps)[found]
            before = take(vectors_of(self._observations), at[found])
            desired = before[..., self._hindsight.desired].astype(np.float32)
            _, over = self._goal_rewards(achieved, desired, at[found])
            assert over is not None
            found[found] = ~over
        return found

    def _span(
        self,
        envs: IntArray,
        rows: IntArray,
        places: IntArray,
        relabeled: Relabeled | None,
    ) -> tuple[FloatArray, FloatArray, IntArray | int]:
        """Return rewards, discounts and lengths of up to `n_step` steps of an episode.

        Each is [M]: the discounted sum of rewards from a row on, the discount of the
        bootstrap value, and the number of steps.
        Source: arXiv:1710.02298, "Multi-step learning".
        """
        if self._n_step == 1 and relabeled is None:
            discounts = np.float32(self._gamma) * ~self._terminated.take(places)
            return self._rewards.take(places), discounts, 1
        ahead = np.arange(self._n_step)
        at = self._places_ahead(rows, places, self._n_step)
        rewards, ends = self._rewards.take(at), self._terminated.take(at)
        if relabeled is not None:
            chosen, goals = relabeled
            of, steps_on = envs[chosen, None], rows[chosen, None] + ahead
            rewards[chosen], over = self._reward(of, steps_on, goals)
            if over is not None:
                others = self._ends_of_other_causes(of, steps_on, at[chosen])
                ends[chosen] = over | others
        # A ring is never full, so the distance to its head is unambiguous.
        left = (self._head.take(envs) - rows) % self._length
        on = self._valid.take(at) & (ahead < left[:, None])
        on[:, 1:] &= ~ends[:, :-1]
        on = np.logical_and.accumulate(on, axis=1)
        steps, powers = on.sum(axis=1), self._gamma ** np.arange(self._n_step + 1)
        powers = powers.astype(np.float32)
        rewards = (on * rewards) @ powers[:-1]
        discounts = powers[steps] * ~(on & ends).any(axis=1)
        return rewards, discounts, steps

    def _later_sums(
        self, rings: Array, rows: IntArray, places: IntArray, steps: Any
    ) -> FloatArray:
        """Return discounted sums, float32 [M], of the `steps` - 1 rows after a row."""
        later = np.arange(1, self._n_step)
        at = self._places_ahead(rows, places, self._n_step)
        is_counted = later < np.reshape(steps, (-1, 1))
        powers = (self._gamma**later).astype(np.float32)
        sums: FloatArray = (is_counted * rings.take(at[:, 1:])) @ powers
        return sums

    def _draw(self, batches: int, size: int) -> tuple[IntArray, IntArray, IntArray]:
        """Draw environments, ring rows and places of K * N valid transitions.

        A place is a row's index in the concatenated rings; `take` by place is many
        times faster than indexing with two arrays.
        """
        if self._priorities is not None:
            places = self._priorities.draw(batches, size, self._random)
            envs = places // self._length
            return envs, places - envs * self._length, places
        envs, rows, places = self._any(batches * size, self._random)
        bad = np.flatnonzero(~self._valid.take(places))
        while len(bad):
            envs[bad], rows[bad], places[bad] = self._any(len(bad), self._random)
            bad = bad[~self._valid.take(places[bad])]
        return envs, rows, places
