"""What `xagents-ray doctor` asks of Ray."""

import platform
from dataclasses import dataclass
from typing import Any

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.cluster.ray import connection
from xagents_ray.cluster.run.object_store import store_bytes


@dataclass(frozen=True)
class ClusterFacts:
    """What a cluster has.

    Attributes:
        nodes: that are alive.
        cpus, gpus: of all nodes together.
        free_cpus, free_gpus: those that are not taken.
        memory: bytes of the node with the most.
        store: bytes of the smallest object store.
        ray, python: versions, the same on both sides, as Ray requires.
    """

    nodes: int
    cpus: int
    free_cpus: int
    gpus: int
    free_gpus: int
    memory: int
    store: int
    ray: str
    python: str


def inspect_cluster(address: str) -> ClusterFacts:
    """Join the cluster at host:port and return what it has.

    Raises:
        UserError: it does not answer, or refuses the token or the versions.
    """
    ray = connection.connect(address, False, 0)
    nodes = [n["Resources"] for n in ray.nodes() if n["Alive"]]
    whole, free = ray.cluster_resources(), ray.available_resources()

    def total(resources: dict[str, Any], name: str) -> int:
        return int(resources.get(name, 0))

    return ClusterFacts(
        nodes=len(nodes),
        cpus=total(whole, "CPU"),
        free_cpus=total(free, "CPU"),
        gpus=total(whole, "GPU"),
        free_gpus=total(free, "GPU"),
        memory=max(total(node, "memory") for node in nodes),
        store=min(total(node, "object_store_memory") for node in nodes),
        ray=str(ray.__version__),
        python=platform.python_version(),
    )


def object_store(run: RunSpec, cluster: ClusterFacts | None) -> tuple[int, int]:
    """Return the bytes that a run needs in the object store, and those it gets.

    Args:
        run: before it starts.
        cluster: that it joins; None for this machine.
    Raises:
        UserError: there is not enough shared memory for Ray.
    """
    needed = store_bytes(run)
    return needed, connection.store(needed) if cluster is None else cluster.store
