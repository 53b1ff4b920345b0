"""Returns and lengths of the episodes in progress."""

import numpy as np

from xagents_ray.actors.envs.vector import EnvStep
from xagents_ray.core.trajectory import Array, BoolArray, Episode


class EpisodeCounter:
    """Adds up the steps of B environments, episode by episode.

    Args:
        n_envs: B.
        first_env: index of the first one among all of the run.
    Attributes:
        returns: float64 [B], sums of raw rewards so far.
        lengths: int64 [B], env steps so far.
        ended: bool [B], environments that only reset in the next step.
    """

    def __init__(self, n_envs: int, first_env: int = 0) -> None:
        self.returns: Array = np.zeros(n_envs)
        self.lengths: Array = np.zeros(n_envs, np.int64)
        self.ended: BoolArray = np.zeros(n_envs, np.bool_)
        self._first_env = first_env

    def add(self, row: int, step: EnvStep) -> list[Episode]:
        """Count a step; return the episodes that ended in it, with this row."""
        self.returns += step.raw_rewards
        self.lengths += ~self.ended
        self.ended = step.ended
        episodes = [
            Episode(
                self._first_env + int(env),
                row,
                float(self.returns[env]),
                int(self.lengths[env]),
            )
            for env in np.flatnonzero(step.ended)
        ]
        self.returns[step.ended] = self.lengths[step.ended] = 0
        return episodes
