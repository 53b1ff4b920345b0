"""Priorities of transitions, and proportional sampling with a sum tree."""

import math

import numpy as np

from xagents_ray.core.trajectory import Array, BoolArray, FloatArray, IntArray

_TOP = 1024
"""Maximum size of the top level, where binary search is faster than a tree."""
_LEAST_ERROR = 1e-6
"""Added to each error, so that every transition can be sampled."""


class Priorities:
    """Priorities of a replay's rows: |error| ** alpha; rows with 0 are never drawn.

    A `place` is a row's index in the concatenated rings of all environments.

    Args:
        n_envs: number of environments.
        length: number of rows in each environment's ring.
        alpha: exponent of the errors; 0 gives all transitions the same priority.
    Attributes:
        rows: float64 [n_envs, length], the priority of each row.
        largest: float64 [1], the largest priority so far, assigned to new transitions.

    Source: arXiv:1511.05952, section 3.3.
    """

    def __init__(self, n_envs: int, length: int, alpha: float) -> None:
        self._alpha, count = alpha, n_envs * length
        halvings = math.ceil(math.log2(max(count, _TOP) / _TOP))
        top = -(-count >> halvings)
        # The rows come first; each further level has the pairwise sums of the last one.
        self._levels = [np.zeros(top << n) for n in range(halvings, -1, -1)]
        self.rows: Array = self._levels[0][:count].reshape(n_envs, length)
        self.largest = np.ones(1)

    @property
    def total(self) -> float:
        """Sum of all priorities."""
        return float(self._levels[-1].sum())

    def draw(self, batches: int, size: int, generator: np.random.Generator) -> IntArray:
        """Draw the places of K batches of N rows in proportion to their priorities.

        They are int64 [K * N], batch after batch. Sampling is stratified: each batch
        has one place from each Nth of the sum of priorities, which must not be 0.

        Source: arXiv:1511.05952, appendix B.2.1.
        """
        count = batches * size
        drawn = self._descend((np.arange(count) + generator.random(count)) / count)
        shuffled = generator.permutation(batches)
        places: IntArray = drawn.reshape(size, batches).T[shuffled].ravel()
        # Rounding errors may select a neighboring row, whose priority may be 0.
        bad = np.flatnonzero(self.at(places) == 0)
        while len(bad):
            places[bad] = self._descend(generator.random(len(bad)))
            bad = bad[self.at(places[bad]) == 0]
        return places

    def at(self, places: IntArray) -> Array:
        """Return the priorities of places, float64 [M]."""
        return self._levels[0].take(places)

    def keep(self, places: IntArray, held: BoolArray, new: BoolArray) -> None:
        """Set the priority of new rows to the largest one, and of dropped rows to 0."""
        self._set(places, np.where(new, self.largest, self.at(places)) * held)

    def update(self, places: IntArray, errors: FloatArray) -> None:
        """Set priorities from errors; the last error of a repeated place counts.

        Non-finite errors are ignored.
        """
        known = np.isfinite(errors)
        sizes = np.abs(errors[known].astype(np.float64)) + _LEAST_ERROR
        priorities = sizes**self._alpha
        self.largest[0] = priorities.max(initial=self.largest[0])
        self._set(places[known], priorities)

    def add_up(self) -> None:
        """Recompute all sums, after the rows were set directly."""
        for below, above in zip(self._levels, self._levels[1:], strict=False):
            above[:] = below[::2] + below[1::2]

    def _set(self, places: IntArray, priorities: Array) -> None:
        self._levels[0][places] = priorities
        for below, above in zip(self._levels, self._levels[1:], strict=False):
            places = places >> 1
            left = places << 1
            above[places] = below.take(left) + below.take(left + 1)

    def _descend(self, parts: Array) -> IntArray:
        """Return the places where the cumulative sum reaches fractions of the total.

        The fractions are float64 [M], from 0 to 1; ascending order is fastest.
        """
        *levels, top = self._levels
        ends = top.cumsum()
        sums = parts * ends[-1]
        nodes = np.minimum(ends.searchsorted(sums, side="right"), len(top) - 1)
        sums -= (ends - top).take(nodes)
        for level in reversed(levels):
            nodes <<= 1
            left = level.take(nodes)
            is_right = sums >= left
            left *= is_right
            sums -= left
            nodes += is_right
        places: IntArray = np.minimum(nodes, self.rows.size - 1)
        return places
