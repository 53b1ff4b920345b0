"""The replay buffer of single transitions: sampling, n-step returns, HER and PER."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import (
    Array,
    Fill,
    FloatArray,
    IntArray,
    Transitions,
    map_array,
    vectors_of,
)
from xagents_ray.replay.hindsight import Relabeled
from xagents_ray.replay.relabeled_rings import RelabeledRings
from xagents_ray.replay.rings import take
from xagents_ray.replay.sum_tree import Priorities


class DrawnTransitions(NamedTuple):
    """M transitions that were drawn, with what depends on the rings' heads."""

    places: IntArray  # int64 [M], indices of their first steps in all rings
    rewards: FloatArray  # float32 [M], and the next two, as in `Transitions`
    discounts: FloatArray
    steps: IntArray  # int64 [M], number of steps of each
    log_probs: FloatArray | None
    relabeled: Relabeled | None


class TransitionReplay(RelabeledRings):
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
        super().__init__(spec, capacity, n_envs, longest, relabeling, has_log_probs)
        self._random = np.random.default_rng([seed, capacity])
        self._n_step, self._gamma = n_step, gamma
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
        items = np.arange(batches * batch_size).reshape(batches, batch_size)
        return self.fetch(self.draw(batches, batch_size), items)

    def draw(self, batches: int, batch_size: int) -> DrawnTransitions:
        """Draw like `sample`, without copying the data."""
        if not self._count.any():
            raise ValueError("The replay is empty: insert a trajectory first.")
        envs, rows, places = self._draw(batches, batch_size)
        relabeled = self._relabel(envs, rows, places)
        rewards, discounts, steps = self._span(envs, rows, places, relabeled)
        log_probs = None
        if self._log_probs is not None:
            log_probs = self._later_sums(self._log_probs, rows, places, steps)
        steps = np.broadcast_to(steps, rows.shape)
        return DrawnTransitions(places, rewards, discounts, steps, log_probs, relabeled)

    def fetch(self, drawn: DrawnTransitions, items: IntArray) -> Transitions:
        """Return transitions of a draw since which nothing was inserted.

        Args:
            drawn: the draw.
            items: int64 [K, N], indices in it.
        """
        places, steps = drawn.places[items].ravel(), drawn.steps[items].ravel()
        envs, rows = np.divmod(places, self._length)
        window = np.arange(1 - self._stack, 1)
        # Consecutive observations share all frames but one.
        after = window if self._n_step > 1 else window[-1:]
        shown = np.concatenate(
            [rows[:, None] + window, (rows + steps)[:, None] + after], axis=1
        )
        frames = envs[:, None] * self._length + shown % self._length
        observations = map_array(lambda rings: take(rings, frames), self._observations)
        if self._hindsight is not None and drawn.relabeled is not None:
            at, goals = drawn.relabeled.among(items.ravel())
            vectors = vectors_of(observations)
            vectors[at, :, self._hindsight.desired] = goals[:, None]

        def batched(array: Any) -> Any:
            return array.reshape(*items.shape, *array.shape[1:])

        transitions = Transitions(
            observations=map_array(batched, observations),
            starts=batched(self._starts.take(frames)),
            actions=batched(take(self._actions, places)),
            rewards=drawn.rewards[items],
            discounts=drawn.discounts[items],
        )
        if drawn.log_probs is not None:
            transitions = transitions._replace(log_probs=drawn.log_probs[items])
        if self._action_masks is not None:
            after_place = envs * self._length + (rows + steps) % self._length
            masks = batched(take(self._action_masks, after_place))
            transitions = transitions._replace(action_masks=masks)
        if self._priorities is None:
            return transitions
        priorities = self._priorities.at(places).astype(np.float32)
        heads = self._head.take(envs)
        numbers = heads - (heads - rows) % self._length
        drawn_rows = batched(np.stack([envs, numbers], axis=1))
        return transitions._replace(priorities=batched(priorities), rows=drawn_rows)

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
