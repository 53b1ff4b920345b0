"""Hindsight experience replay: achieved goals replace desired ones."""

from typing import NamedTuple

import numpy as np

from xagents_ray.core.spec import Goals
from xagents_ray.core.trajectory import FloatArray, IntArray


class Relabeled(NamedTuple):
    """Sampled transitions with goals that differ from the pursued ones."""

    rows: IntArray  # int64 [M], which of the sample
    goals: FloatArray  # float32 [M, G]


class Hindsight:
    """Draws which sampled transitions get an achieved goal, and from which step.

    Args:
        goals: positions of the goals in an observation.
        strategy: steps whose achieved goals are drawn: `future`, this and later ones of
            the episode; `final`, the last one held; `episode`, all that are held.
        count: relabeled transitions for each one that keeps its goal.
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
        """Return which of N transitions get another goal, and which steps achieved it.

        Args:
            first: int64 [N], position of the first held step of each transition's
                episode.
            step: int64 [N], position of the transition's own step.
            last: int64 [N], position of the last held step of the episode.
            random: generator of random numbers.
        Returns:
            int64 [M] indices, and int64 [M] positions.
        """
        coin, place = random.random((2, len(step)))
        chosen = np.flatnonzero(coin < self._share)
        begin = {"future": step, "final": last, "episode": first}[self._strategy]
        begin, end = begin[chosen], last[chosen] + 1
        return chosen, begin + (place[chosen] * (end - begin)).astype(np.int64)
