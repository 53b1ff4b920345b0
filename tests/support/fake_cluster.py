"""A fake Ray whose nodes have resources, which placement groups and others hold."""

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from fake_ray import FakeRay


class Group:
    """A placement group; its bundles are placed while somebody waits for it."""

    def __init__(self, ray: "FakeCluster", bundles: Sequence[Any], name: str) -> None:
        self._ray, self.bundle_specs, self.name = ray, list(bundles), name
        self.id = SimpleNamespace(hex=lambda: f"group{ray.groups.index(self)}")
        self.state = "PENDING"
        self.nodes: list[str] = []
        ray.groups.append(self)

    def place(self) -> bool:
        """Place all bundles, or none of them."""
        free = {node: dict(has) for node, has in self._ray.free.items()}
        nodes: list[str] = []
        for bundle in self.bundle_specs:
            fitting = [
                node
                for node, has in free.items()
                if all(has.get(k, 0) >= need - 1e-9 for k, need in bundle.items())
            ]
            if not fitting:
                return False
            nodes.append(max(fitting, key=lambda node: free[node].get("CPU", 0)))
            for kind, need in bundle.items():
                free[nodes[-1]][kind] -= need
        self._ray.free, self.nodes, self.state = free, nodes, "CREATED"
        return True

    def wait(self, seconds: float) -> bool:
        if self.state == "PENDING" and not self.place():
            self._ray.sleep(seconds)
            return self.place()
        return True

    def remove(self) -> None:
        for node, bundle in zip(self.nodes, self.bundle_specs, strict=False):
            for kind, amount in bundle.items():
                self._ray.free[node][kind] += amount
        self.state, self.nodes = "REMOVED", []


class FakeCluster(FakeRay):
    """Nodes of a cluster.

    Args:
        nodes: resources of each node.
    Attributes:
        free: the part that nobody holds.
        groups: all placement groups, also those that are removed.
        current: the placement group of this process.
        assigned: what the task or actor in this process holds; None outside of one.
        later: functions that are called when the clock passes a time.
    """

    def __init__(self, *nodes: Mapping[str, float]) -> None:
        super().__init__()
        self._has = {str(number): dict(each) for number, each in enumerate(nodes)}
        self.free = {node: dict(has) for node, has in self._has.items()}
        self.groups: list[Group] = []
        self.current: Group | None = None
        self.assigned: dict[str, float] | None = None
        self.classes: list[str] = []
        self.in_groups: dict[str, float] = {}
        self.later: list[tuple[float, Callable[[], Any]]] = []
        strategies = SimpleNamespace(
            PlacementGroupSchedulingStrategy=lambda group, **bundle: (group, bundle),
            NodeAffinitySchedulingStrategy=lambda node, soft: (node, soft),
        )
        self.util = SimpleNamespace(
            placement_group=lambda bundles, name, **_: Group(self, bundles, name),
            remove_placement_group=lambda group: group.remove(),
            placement_group_table=self._table,
            get_current_placement_group=lambda: self.current,
            scheduling_strategies=strategies,
        )
        state = SimpleNamespace(
            available_resources_per_node=lambda: {
                node: dict(has) for node, has in self.free.items()
            },
            actors=lambda actor_state_name: {
                number: {"ActorClassName": name}
                for number, name in enumerate(self.classes)
            },
        )
        self._private = SimpleNamespace(state=state)

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {
                "NodeID": node,
                "NodeManagerAddress": node,
                "Resources": has,
                "Alive": True,
            }
            for node, has in self._has.items()
        ]

    def available_resources(self) -> dict[str, float]:
        """Return what is free in bundles; runs ask for nothing else of it."""
        return self.in_groups

    def get_runtime_context(self) -> Any:
        def assigned() -> dict[str, float]:
            assert self.assigned is not None, "not a worker"
            return self.assigned

        context: Any = super().get_runtime_context()
        context.get_assigned_resources = assigned
        context.get_node_id = lambda: "0"
        return context

    def hold(self, node: int = 0, **amounts: float) -> None:
        """Let a task or an actor of others claim something; negative to end it."""
        for kind, amount in amounts.items():
            self.free[str(node)][kind] -= amount

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        for at, act in [each for each in self.later if each[0] <= self.now]:
            self.later.remove((at, act))
            act()

    def _table(self, group: Group | None = None) -> dict[str, Any]:
        rows = {
            each.id.hex(): {
                "name": each.name,
                "state": each.state,
                "bundles": dict(enumerate(each.bundle_specs)),
                "bundles_to_node_id": dict(enumerate(each.nodes)),
            }
            for each in self.groups
        }
        return rows if group is None else rows[group.id.hex()]
