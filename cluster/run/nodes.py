"""The nodes of a Ray cluster: what they have, what is free, and what they can run."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from xagents_ray.core.errors import UserError
from xagents_ray.core.installation import is_complete

Bundle = dict[str, float]
_ANSWER_SECONDS = 60.0
_can_learn: dict[str, bool] = {}
"""Whether each node has TensorFlow, by node id."""


class ClusterNode(NamedTuple):
    """A live node of the cluster, or a bundle of a placement group."""

    id: str
    has: Bundle  # amount of each resource
    free: Bundle  # the part of it that nothing has claimed
    can_learn: bool = True  # whether it has TensorFlow

    @property
    def free_cpus(self) -> float:
        return amount_of(self.free, "CPU")


def amount_of(bundle: Bundle, kind: str) -> float:
    """Return the amount of a resource; 0 if Ray does not list it."""
    return bundle.get(kind, 0.0)


def held_amount(nodes: Iterable[ClusterNode], kind: str) -> float:
    """Return how much of a resource is claimed on the nodes."""
    return sum(amount_of(node.has, kind) - amount_of(node.free, kind) for node in nodes)


def live_nodes(ray: Any) -> list[Any]:
    """Return the rows of `ray.nodes()` that are alive."""
    return [node for node in ray.nodes() if node["Alive"]]


def has_memory(nodes: Sequence[ClusterNode]) -> bool:
    """Return whether a node reports its memory to Ray, so that parts can claim it."""
    return any(node.has.get("memory") for node in nodes)


def nodes_of(ray: Any) -> list[ClusterNode]:
    """Return all nodes; if there are several, check each once for TensorFlow.

    Raises:
        UserError: no node has TensorFlow.
    """
    alive = {node["NodeID"]: node["Resources"] for node in live_nodes(ray)}
    unknown = [node for node in alive if node not in _can_learn]
    if len(alive) > 1 and unknown:
        _ask(ray, unknown)
    free = free_by_node(ray)
    nodes = [
        ClusterNode(id, has, free.get(id, {}), _can_learn.get(id, True))
        for id, has in alive.items()
    ]
    if not any(node.can_learn for node in nodes):
        raise UserError(
            "No node of the cluster has TensorFlow, which the learner needs: install "
            "xagents-ray, not xagents-ray-actor, on one."
        )
    return nodes


def nodes_of_group(ray: Any, group: Any) -> list[ClusterNode]:
    """Return the bundles of a placement group as nodes, named by their indices."""
    located = ray.util.placement_group_table(group)["bundles_to_node_id"]
    can_learn = {node.id: node.can_learn for node in nodes_of(ray)}
    free, name = ray.available_resources(), group.id.hex()
    nodes = [
        ClusterNode(str(n), bundle, {}, can_learn.get(located.get(n, ""), True))
        for n, bundle in enumerate(group.bundle_specs)
    ]
    for kind in ("CPU", "GPU"):
        amounts = [amount_of(free, f"{kind}_group_{node.id}_{name}") for node in nodes]
        # What was claimed without a bundle's index is missing only in the total.
        claimed = sum(amounts) - amount_of(free, f"{kind}_group_{name}")
        for node, amount in zip(nodes, amounts, strict=True):
            node.free[kind] = max(0.0, amount - max(0.0, claimed))
            claimed -= amount
    return nodes


def lost_bundles(ray: Any, group: Any, bundles: Iterable[int]) -> set[int]:
    """Return those of a placement group's bundles that are on no live node.

    Args:
        ray: the module `ray`.
        group: the placement group.
        bundles: indices of the bundles.
    """
    located = ray.util.placement_group_table(group)["bundles_to_node_id"]
    alive = {node["NodeID"] for node in live_nodes(ray)}
    return {each for each in bundles if located.get(each) not in alive}


def free_by_node(ray: Any) -> dict[str, Bundle]:
    """Return the free resources of each node, by node id.

    Ray has no public function for it: `ray.available_resources` adds all nodes up, and
    `ray.util.state.list_nodes` has no free resources.
    """
    free: dict[str, Bundle] = ray._private.state.available_resources_per_node()
    return free


def _ask(ray: Any, nodes: Sequence[str]) -> None:
    """Record which nodes have TensorFlow; one that doesn't answer has none."""
    task = ray.remote(num_cpus=0)(is_complete)
    affinity = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    asked = {
        node: task.options(scheduling_strategy=affinity(node, soft=False)).remote()
        for node in nodes
    }
    calls = list(asked.values())
    answered, _ = ray.wait(calls, num_returns=len(calls), timeout=_ANSWER_SECONDS)
    for node, call in asked.items():
        try:
            _can_learn[node] = call in answered and ray.get(call)
        except ray.exceptions.RayError:
            _can_learn[node] = False
