"""What `xagents-ray doctor` finds about Ray and its cluster."""

import importlib
from typing import TYPE_CHECKING

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.commands.doctor.row import Row, error, failed, size, warning
from xagents_ray.core.errors import UserError
from xagents_ray.core.timed_subprocess import Failure, TimedSubprocess
from xagents_ray.core.words import counted

if TYPE_CHECKING:
    from xagents_ray.cluster.run.preflight import ClusterFacts

CONNECT_SECONDS = 10.0


def joining(
    address: str, connecting: TimedSubprocess, until: float
) -> tuple[Row, "ClusterFacts | None"]:
    """Return whether the cluster can be joined, and what it has.

    Args:
        address: of the cluster.
        connecting: runs `cluster.run.preflight.inspect_cluster`.
        until: when to give up, time.monotonic().
    """
    try:
        found = connecting.result(until)
    except TimeoutError:
        limit = f"{CONNECT_SECONDS:.0f} s"
        remedy = f"Check --address {address}: nothing answered in {limit}."
        return error("cluster", "no answer", remedy), None
    if isinstance(found, Failure):
        flag = f"--address {address}"
        return failed("cluster", "can't be joined", flag, found), None
    text = (
        f"{counted(found.nodes, 'node')}, {found.free_cpus} of {found.cpus} CPUs and "
        f"{found.free_gpus} of {found.gpus} GPUs free; Ray {found.ray}, Python "
        f"{found.python}"
    )
    return Row("cluster", text), found


def with_room(row: Row, cluster: "ClusterFacts", n_actors: int) -> Row:
    """Return the cluster's row, a warning if others take what the run needs."""
    if not cluster.free_cpus < n_actors <= cluster.cpus:
        return row
    remedy = (
        f"Wait for others, or lower --n-actors to {max(1, cluster.free_cpus)}: a run "
        "that has no room within a minute ends."
    )
    return warning(row.name, row.found, remedy)


def object_store(run: RunSpec, cluster: "ClusterFacts | None") -> Row:
    """Compare the object store with the data in flight.

    Args:
        run: before it starts.
        cluster: that it joins; None for this machine.
    """
    preflight = importlib.import_module("xagents_ray.cluster.run.preflight")
    try:
        needed, room = preflight.object_store(run, cluster)
    except UserError as refused:
        return error("object store", "no room", str(refused))
    if room >= needed:
        return Row("object store", f"{size(needed)} for data in flight")
    found = f"{size(room)} of {size(needed)} needed for data in flight"
    remedy = (
        "Enlarge /dev/shm (docker run --shm-size) or the cluster's object stores, "
        "or lower --n-envs: Ray writes to disk what does not fit."
    )
    return warning("object store", found, remedy)
