"""Learning phases and their data, as Ray references."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from xagents_ray.cluster.ray.calls import RayCalls
from xagents_ray.cluster.run.replay_shards import ReplayShards
from xagents_ray.core.moments import Statistics


@dataclass
class PhaseData:
    """The data of one learning phase; lost samples are drawn again."""

    calls: RayCalls
    shards: ReplayShards | None
    fresh: Sequence[Any]  # references to the newest trajectories, if on-policy
    # Requests samples; returns references to them, each with its shard's index.
    draw: Callable[[], dict[Any, int]]
    drawn: dict[Any, int] | None = None  # None before `references` was called

    def references(self) -> list[Any]:
        """Return references to the data; on repeated calls, without lost parts.

        The result is empty if all of the newest round is lost.
        """
        if self.drawn is not None:
            lost = self.calls.lost(self.fresh)
            kept = [each for each in self.fresh if each not in lost]
            if self.shards is not None:
                self.shards.insert([])  # replaces dead shards
            if self.fresh and not kept:
                return []
            self.fresh = kept
        self.drawn = self.draw()
        return [*self.fresh, *self.drawn]

    def end_late(self, missing: Sequence[Any]) -> None:
        """Replace the shards that don't deliver these references."""
        for reference in missing:
            if self.shards is not None and self.drawn and reference in self.drawn:
                self.shards.replace(self.drawn.pop(reference), "hangs")


@dataclass
class RequestedPhase:
    """A requested learning phase."""

    data: PhaseData
    env_steps: int  # env steps of the run after the data was collected
    statistics: Statistics  # of the steps since the previous phase
    takes_errors: bool = False  # whether the replay samples in proportion to errors
    number: int = field(init=False)  # from 1, in the order of the requests
    # References to the data; empty if all of it was lost and nothing is learned.
    references: Sequence[Any] = ()
    # References to the fields of its PhaseOutputs.
    metrics: Any = None
    weights: Any = None
    priorities: Any = None
