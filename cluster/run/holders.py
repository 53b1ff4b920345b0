"""Who holds the resources of a Ray cluster, as far as Ray tells."""

from collections.abc import Iterator, Sequence
from typing import Any

from xagents_ray.cluster.run.nodes import Bundle, ClusterNode, amount_of, held_amount

_HOLDING = ("CREATED", "PREPARED", "RESCHEDULING")
"""States in which a placement group holds bundles."""
_SHOWN = 5
_LEAST = 1e-2
"""Smaller amounts are rounding errors, or what many claims left over."""


def assigned_resources(ray: Any) -> Bundle:
    """Return what the Ray task or actor in this process holds; {} outside of one."""
    try:
        return dict(ray.get_runtime_context().get_assigned_resources())
    except AssertionError:  # Ray's, in a process that it didn't start
        return {}


def describe_holders(
    ray: Any, nodes: Sequence[ClusterNode], kind: str, in_group: bool = False
) -> str:
    """Return who holds the part of a resource that isn't free, in a clause.

    `in_group` says that the nodes are the bundles of this process's placement group.
    """
    groups = () if in_group else _groups(ray, kind)
    named = sorted(groups, key=lambda group: -group[1])
    parts = [f"{name} holds {amount:g}" for name, amount in named[:_SHOWN]]
    if more := named[_SHOWN:]:
        amount = sum(amount for _, amount in more)
        parts.append(f"{len(more)} further placement groups hold {amount:g}")
    rest = held_amount(nodes, kind) - sum(amount for _, amount in named)
    own = amount_of(assigned_resources(ray), kind)
    if own and rest > _LEAST:
        parts.append(f"the Ray task or actor that began this run holds {own:g}")
        rest -= own
    if rest > _LEAST:
        which = " in this process's placement group" if in_group else _classes(ray)
        parts.append(f"tasks and actors{which} hold {rest:g}")
    return ", ".join(parts)


def _groups(ray: Any, kind: str) -> Iterator[tuple[str, float]]:
    """Yield the placement groups that hold a resource: a name, and the amount."""
    for row in ray.util.placement_group_table().values():
        amount = sum(amount_of(bundle, kind) for bundle in row["bundles"].values())
        if amount and row["state"] in _HOLDING:
            yield row["name"] or "a placement group without a name", amount


def _classes(ray: Any) -> str:
    """Return the classes of the actors that are alive; Ray tells no task's claim.

    The public `ray.util.state.list_actors` asks the dashboard, which may be off.
    """
    rows = ray._private.state.actors(actor_state_name="ALIVE").values()
    names = sorted({row["ActorClassName"].rpartition(".")[2] for row in rows})
    if not names:
        return ""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f" (actors here: {', '.join(names[:_SHOWN])}{more})"
