"""Hindsight experience replay: achieved goals replace desired ones."""

from typing import NamedTuple

import numpy as np

from xagents_ray.core.spec import Goals
from xagents_ray.core.trajectory import FloatArray, IntArray


class Relabeled(NamedTuple):
    """Relabeled transitions in a sample, with their new goals."""

    rows: IntArray  # int64 [M], ascending indices in the sample
    goals: FloatArray  # float32 [M, G]

    def among(self, items: IntArray) -> tuple[IntArray, FloatArray]:
        """Return which of some items, int64 [N], are relabeled, and their goals."""
        found = np.minimum(self.rows.searchsorted(items), len(self.rows) - 1)
        at = np.flatnonzero(self.rows[found] == items)
        return at, self.goals[found[at]]


class Hindsight:
    """Draws the sampled transitions to relabel, and the steps whose goals they get.

    Args:
        goals: positions of the goals in an observation.
        strategy: steps of the episode to draw from: `future`, this and later ones;
            `final`, the last stored one; `episode`, all stored ones.
        count: number of relabeled transitions for each one that keeps its goal.
    Attributes:
        achieved: slice of an observation that is the achieved goal.
        desired: slice of an observation that is the desired goal.
    Source: arXiv:1707.01495, section 4.5.
    """

    def __init__(self, goals: Goals, strategy: str, count: int) -> None:
        self.achieved, self.desired = goals.slices
        self._strategy, self._share = strategy, count / (count + 1)

    def draw(
        self,
        first: IntArray,
        step: IntArray,
        last: IntArray,
        random: np.random.Generator,
    ) -> tuple[IntArray, IntArray]:
        """Return which of N transitions get a new goal, and which steps achieved it.

        Args:
            first: int64 [N], position of the first stored step of each transition's
                episode.
            step: int64 [N], position of each transition's step.
            last: int64 [N], position of the last stored step of the episode.
            random: random generator.
        Returns:
            int64 [M] indices of transitions, and int64 [M] positions of steps.
        """
        coin, place = random.random((2, len(step)))
        chosen = np.flatnonzero(coin < self._share)
        begin = {"future": step, "final": last, "episode": first}[self._strategy]
        begin, end = begin[chosen], last[chosen] + 1
        return chosen, begin + (place[chosen] * (end - begin)).astype(np.int64)
