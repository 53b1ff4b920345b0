"""The memory that a run's replay shards claim, so that Ray places no more on a node."""

from typing import Any

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.cluster.ray.calls import RayCalls
from xagents_ray.cluster.ray.inquiry import inquire
from xagents_ray.cluster.run.claims import memory_claims, unclaimed
from xagents_ray.cluster.run.nodes import Bundle, has_memory, lost_bundles, nodes_of
from xagents_ray.cluster.run.preflight import shard_bytes
from xagents_ray.cluster.run.reservation import (
    claimed_group,
    group_name,
    strategy_within,
)

_SECONDS = 2.0
"""Time limit of the claim; without it, shards work as well."""


class ShardClaims:
    """Claims memory for the replay shards of a run, as far as nodes have it free.

    The placement group is one of their own. Ray replaces the bundles that a lost node
    had all at once, so a large shard in the run's group could keep the learner waiting.

    Args:
        calls: Ray calls that wait for the claim.
        run: the run.
    Attributes:
        notes: notes for the user, one sentence each.
    Raises:
        Stopped: a shutdown was requested.
    """

    def __init__(self, calls: RayCalls, run: RunSpec) -> None:
        self._calls, self._group = calls, None
        self._claims = dict[int, int]()  # bytes of each shard that has a bundle
        self.notes: tuple[str, ...] = ()
        if run.config.algorithm.replay is None:
            return
        nodes = nodes_of(calls.ray)
        if not has_memory(nodes):
            return
        needs = shard_bytes(run)
        claims = enumerate(memory_claims(nodes, needs))
        self._claims = {number: claim for number, claim in claims if claim}
        if self._claims:
            bundles: list[Bundle] = [{"memory": n} for n in self._claims.values()]
            name = f"{group_name(run)}: memory"
            self._group = claimed_group(calls, bundles, name, _SECONDS)
        claimed = sum(self._claims.values()) if self._group is not None else 0
        if claimed < sum(needs):
            self.notes = (unclaimed("replay", sum(needs), claimed),)

    def options(self, number: int) -> dict[str, Any] | None:
        """Return Ray's options for a shard on its claim; None if it has none.

        The node that had its claim may be lost.
        """
        if self._group is None or number not in self._claims:
            return None
        bundle = [*self._claims].index(number)
        ray, group = self._calls.ray, self._group
        if inquire(self._calls, lambda: lost_bundles(ray, group, [bundle])):
            return None
        strategy = strategy_within(ray, group, bundle)
        return {"num_cpus": 0, "scheduling_strategy": strategy}

    def release(self) -> None:
        """Release the memory."""
        if self._group is not None:
            self._calls.ray.util.remove_placement_group(self._group)
