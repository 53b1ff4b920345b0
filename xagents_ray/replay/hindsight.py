"""Hindsight experience replay: achieved goals in the place of desired ones."""

from typing import NamedTuple

import numpy as np

from xagents_ray.core.spec import Goals
from xagents_ray.core.trajectory import FloatArray, IntArray


class Relabeled(NamedTuple):
    """Sampled transitions with other goals than those that were pursued."""

    rows: IntArray  # int64 [M], which of the sample
    goals: FloatArray  # float32 [M, G]


class Hindsight:
    """Draws which sampled transitions get an achieved goal, and when it was achieved.

    Args:
        goals: where they are in an observation.
        strategy: of whose steps: `future`, this and later ones of the episode;
            `final`, the last one held; `episode`, all that are held.
        count: transitions with an achieved goal, for each one that keeps its own.
    Attributes:
        achieved: the numbers of an observation that are the achieved goal.
        desired: likewise the desired one.
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
        """Return which of N transitions get another goal, and which steps achieved it.

        Args:
            first: int64 [N], position of the first step held of each one's episode.
            step: int64 [N], of its own.
            last: int64 [N], of the last one.
            random: draws them.
        Returns:
            int64 [M] indices, and int64 [M] positions.
        """
        coin, place = random.random((2, len(step)))
        chosen = np.flatnonzero(coin < self._share)
        begin = {"future": step, "final": last, "episode": first}[self._strategy]
        begin, end = begin[chosen], last[chosen] + 1
        return chosen, begin + (place[chosen] * (end - begin)).astype(np.int64)
