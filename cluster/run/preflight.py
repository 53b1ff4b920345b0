"""What a run needs of Ray's object store, and the resources of a cluster."""

import math
import os
import platform
from dataclasses import dataclass
from typing import Any

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.cluster.ray import connection
from xagents_ray.cluster.run.replay_shards import PIECE_BYTES, PIECES_IN_TRANSIT
from xagents_ray.core.process import available_cores

_STATE_COPIES = 4
"""A weight, its target network's, and Adam's two moments of it."""
_SNAPSHOTS = 6
"""Of the learner in the object store: the newest for its recovery, its successor, the
best, the one that is written, and the arguments of `restore` and `encode`."""
_VERSIONS = 5
"""Of the weights there with no lag: acting, learned, published, two evaluations'."""


@dataclass(frozen=True)
class ClusterFacts:
    """The resources of a cluster."""

    nodes: int  # that are alive
    cpus: int  # of all nodes together, as the next three
    free_cpus: int  # that are not taken
    gpus: int
    free_gpus: int
    memory: int  # bytes of the node with the most
    store: int  # bytes of the smallest object store
    ray: str  # a version, the same on both sides, as Ray requires
    python: str  # likewise
    requires_token: bool


def inspect_cluster(address: str) -> ClusterFacts:
    """Join the cluster at host:port and return its resources.

    Raises:
        UserError: the cluster does not answer, or refuses the token or the versions.
    """
    ray = connection.connect_to_ray(address, False, 0)
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
        requires_token=os.environ["RAY_AUTH_MODE"] == "token",  # set when joining
    )


def object_store_bytes(run: RunSpec, cluster: ClusterFacts | None) -> tuple[int, int]:
    """Return the bytes that a run needs in the object store, and those it gets.

    Raises:
        UserError: there is not enough shared memory for Ray.
    """
    needed = store_bytes(run)
    return needed, connection.object_store_size(
        needed
    ) if cluster is None else cluster.store


def weights_bytes(run: RunSpec) -> tuple[int, int]:
    """Return the sizes of the policy's weights and the learner's state, in bytes."""
    sizes = [4 * layout.n_weights for layout in run.layouts]
    return sizes[0], _STATE_COPIES * sum(sizes)


def rollout_bytes(run: RunSpec) -> int:
    """Return the size of a round's trajectories, in bytes."""
    rows = (run.config.algorithm.batch_steps + run.spec.stack) * run.config.env.n_envs
    return rows * _observation_bytes(run)


def _observation_bytes(run: RunSpec) -> int:
    """Return the size of one environment's row, in bytes."""
    item = 1 if run.spec.observation_dtype == "uint8" else 4
    return math.prod(run.spec.observation_shape) * item + 64


def store_bytes(run: RunSpec) -> int:
    """Return the size of the data in flight, with spare room, in bytes."""
    replay, pipeline = run.config.algorithm.replay, run.config.pipeline
    n_envs, ahead = run.config.env.n_envs, pipeline.ahead
    versions = _VERSIONS + ahead
    if pipeline.asynchronous:  # each env actor may act with weights of its own
        versions += run.config.placement.n_actors or min(n_envs, available_cores())
    weights, state = weights_bytes(run)
    bytes_ = 128 * 2**20 + versions * weights + _SNAPSHOTS * state
    bytes_ += 3 * rollout_bytes(run) * (1 + ahead)
    if replay is not None:
        sampled = replay.sampled_rows(n_envs, run.spec.stack) * (2 if ahead else 1)
        bytes_ += 3 * sampled * _observation_bytes(run)
        if run.config.run.checkpoint_replay:
            bytes_ += 2 * PIECES_IN_TRANSIT * PIECE_BYTES
    return bytes_
