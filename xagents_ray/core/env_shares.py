"""How a run's environments are divided among env actors, and how busy cores are."""

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

_ROUNDING = 1e-9
"""Tolerance for sums of fractions of cores."""


@dataclass(frozen=True)
class EnvShares:
    """Numbers of environments of a run's env actors.

    A round lasts as long as its most loaded core: as many steps of an environment as
    the largest share has, or as each core gets if all are equally loaded.
    """

    envs: tuple[int, ...]  # environments of each env actor
    cores: float  # cores that the env actors share

    @classmethod
    def of(cls, n_envs: int, n_actors: int, cores: float) -> "EnvShares":
        """Divide environments among actors; the shares differ by one at most."""
        bounds = [n * n_envs // n_actors for n in range(n_actors + 1)]
        shares = (end - first for first, end in itertools.pairwise(bounds))
        return cls(tuple(shares), cores)

    @property
    def bounds(self) -> list[int]:
        """Index of each env actor's first environment, and the total number."""
        return [0, *itertools.accumulate(self.envs)]

    @property
    def round_steps(self) -> float:
        """Duration of a round, in steps of one environment on one core."""
        return max(float(max(self.envs)), sum(self.envs) / self.cores)

    @property
    def busy_share(self) -> float:
        """Share of the cores' time in which an environment is stepped, up to 1."""
        return sum(self.envs) / self.cores / self.round_steps

    def __str__(self) -> str:
        return ", ".join(f"{actors} × {envs}" for envs, actors in self._counted)

    def summary(self) -> dict[str, Any]:
        """Return the values for `summary.json`."""
        shares = {str(envs): actors for envs, actors in self._counted}
        return {"actors_by_envs": shares, "busy_share": round(self.busy_share, 4)}

    @property
    def _counted(self) -> list[tuple[int, int]]:
        """Each size of a share, and the number of actors that have it."""
        return sorted(Counter(self.envs).items())


def best_actor_count(n_envs: int, cores: float, most: int | None = None) -> int:
    """Return the smallest number of env actors whose round is the shortest.

    Args:
        n_envs: number of environments.
        cores: cores that the env actors share, more than 0.
        most: largest number of env actors, at least 1; None for no limit.
    """
    largest = max(1, math.floor(n_envs / cores + _ROUNDING))
    if most is not None:
        largest = max(largest, math.ceil(n_envs / most))
    return math.ceil(n_envs / largest)
