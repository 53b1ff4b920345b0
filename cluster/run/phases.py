"""Learning phases, and what they learn from, as references to Ray's objects."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xagents_ray.cluster.ray.calls import Calls
from xagents_ray.cluster.run.replay import Shards
from xagents_ray.core.moments import Statistics


class PhaseData:
    """The data of one learning phase; drawn again where some of it is lost.

    Args:
        calls: know what is lost.
        shards: of the replay; None without one.
        fresh: references to the trajectories of the newest round; on-policy only.
        draw: asks the shards for samples; returns references to them, each with the
            number of its shard.
    """

    def __init__(
        self,
        calls: Calls,
        shards: Shards | None,
        fresh: Sequence[Any],
        draw: Callable[[], dict[Any, int]],
    ) -> None:
        self._calls, self._shards, self._draw = calls, shards, draw
        self._fresh, self._needs_fresh = list(fresh), bool(fresh)
        self._drawn: dict[Any, int] = {}
        self._is_repeated = False

    def references(self) -> list[Any]:
        """Return references to the data; when asked again, without what is lost.

        Nothing where all of the newest round is lost.
        """
        if self._is_repeated:
            self._fresh = [t for t in self._fresh if not self._calls.failed(t)]
            if self._shards is not None:
                self._shards.insert([])  # replaces those that died
            if self._needs_fresh and not self._fresh:
                return []
        self._is_repeated = True
        self._drawn = self._draw()
        return [*self._fresh, *self._drawn]

    def end_late(self, missing: Sequence[Any]) -> None:
        """Replace the shards that don't give these references."""
        for reference in missing:
            if self._shards is not None and reference in self._drawn:
                self._shards.replace(self._drawn.pop(reference), "hangs")


@dataclass
class Phase:
    """A learning phase that was requested.

    Attributes:
        data: what it learns from.
        env_steps: of the run, after the data was collected.
        statistics: of the steps since the previous phase.
        number: from 1, in the order of the requests.
        references: to the data; empty if all of it was lost, and nothing is learned.
        metrics: reference to the phase's metrics.
        weights: reference to the weights after the phase.
    """

    data: PhaseData
    env_steps: int
    statistics: Statistics
    number: int = 0
    references: Sequence[Any] = ()
    metrics: Any = None
    weights: Any = None
