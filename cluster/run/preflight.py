"""Memory requirements of a run, and the resources of a cluster."""

import os
import platform
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.cluster.ray import connection
from xagents_ray.cluster.ray.own_ray import object_store_size
from xagents_ray.cluster.run.feed import bytes_in_flight
from xagents_ray.cluster.run.nodes import amount_of
from xagents_ray.cluster.run.shard_pieces import PIECE_BYTES, PIECES_IN_TRANSIT
from xagents_ray.core.env_shares import best_actor_count
from xagents_ray.core.process import available_cores
from xagents_ray.run.prepare import replay_entry_bytes
from xagents_ray.run.replay_buffer import shard_bounds

_STATE_COPIES = 4
"""Each weight, its copy in the target network, and Adam's two moments."""
_SNAPSHOTS = 7
"""Learner states in the object store: the newest for recovery here, a newer copy, its
successor, the best, the one being written, and arguments of `restore` and `encode`."""
_VERSIONS = 5
"""Weights in the store without lag: acting, learned, published, two evaluations'."""

_LEARNER_BYTES = 320 * 2**20
"""Private memory of a learner's process that learns CartPole on a CPU, rounded down;
347 MiB were measured with DQN, 836 with PPO. Libraries that it maps are left out."""
_SHARD_BYTES = 64 * 2**20
"""The same of a replay shard's process with an empty ring; 70 MiB were measured."""


@dataclass(frozen=True)
class ClusterFacts:
    """The resources of a cluster."""

    nodes: int  # number of live nodes
    cpus: int  # total of all nodes, like the next three
    free_cpus: int
    gpus: int
    free_gpus: int
    memory: int  # largest memory of a node, in bytes
    store: int  # smallest object store of a node, in bytes
    ray: str  # version, which Ray requires to be the same on both sides
    python: str  # version, the same on both sides
    requires_token: bool
    # What other users of this machine can read or write, in a sentence; "" if nothing.
    exposed_token: str
    exposed_folder: str


def inspect_cluster(address: str) -> ClusterFacts:
    """Join the cluster at host:port and return its resources.

    Raises:
        UserError: the cluster does not answer, or refuses the token or the versions.
    """
    ray = connection.connect_to_ray(address, False, 0)
    nodes = [n["Resources"] for n in ray.nodes() if n["Alive"]]
    whole, free = ray.cluster_resources(), ray.available_resources()
    session = connection.current_session()

    def total(resources: dict[str, Any], name: str) -> int:
        return int(amount_of(resources, name))

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
        exposed_token=session.exposed_token,
        exposed_folder=session.exposed_folder,
    )


def object_store_bytes(run: RunSpec, cluster: ClusterFacts | None) -> tuple[int, int]:
    """Return the required and the available size of the object store, in bytes.

    Raises:
        UserError: there is not enough shared memory for Ray.
    """
    needed = store_bytes(run)
    return needed, object_store_size(needed) if cluster is None else cluster.store


def weights_bytes(run: RunSpec) -> tuple[int, int]:
    """Return the sizes of the policy's weights and the learner's state, in bytes."""
    sizes = [4 * layout.n_weights for layout in run.layouts]
    return sizes[0], _STATE_COPIES * sum(sizes)


def rollout_bytes(run: RunSpec) -> int:
    """Return the size of a round's trajectories, in bytes."""
    rows = (run.config.algorithm.batch_steps + run.spec.stack) * run.config.env.n_envs
    return rows * run.step_bytes


def store_bytes(run: RunSpec) -> int:
    """Return the size of the data in flight, with spare room, in bytes."""
    replay, pipeline = run.config.algorithm.replay, run.config.pipeline
    n_envs, ahead = run.config.env.n_envs, pipeline.ahead
    versions = _VERSIONS + ahead
    if pipeline.asynchronous:  # each rollout in progress may use another version
        placement = run.config.placement
        best = best_actor_count(n_envs, available_cores())
        count = n_envs if placement.follows_nodes else placement.actor_count or best
        versions += count * run.requests_at_once(on_gpu=False)
    weights, state = weights_bytes(run)
    bytes_ = 128 * 2**20 + versions * weights + _SNAPSHOTS * state
    bytes_ += 3 * rollout_bytes(run) * (1 + ahead)
    if replay is not None:
        bytes_ += 3 * bytes_in_flight(run) * (2 if ahead else 1)
        if run.config.run.checkpoint_replay:
            bytes_ += 2 * PIECES_IN_TRANSIT * PIECE_BYTES
    return bytes_


def learner_bytes(run: RunSpec) -> int:
    """Return an estimate of the memory that a run's learner needs, in bytes.

    It is what its process has for any run, the networks with their optimizers' slots
    and gradients, and the data of the phases in progress. It is rather too small: what
    layers compute in between is left out.
    """
    ahead = run.config.pipeline.ahead > 0
    _, state = weights_bytes(run)
    gradients = state // _STATE_COPIES
    data = bytes_in_flight(run) + (rollout_bytes(run) if run.learns_online else 0)
    return _LEARNER_BYTES + state + gradients + data * (1 + ahead)


def shard_bytes(run: RunSpec) -> list[int]:
    """Return the memory that each replay shard needs, in bytes; [] without a replay."""
    config, n_envs = run.config.algorithm.replay, run.config.env.n_envs
    if config is None:
        return []
    each = replay_entry_bytes(run)
    capacities = shard_bounds(config.buffer_max_size, n_envs)
    firsts = [capacities[env] for env in shard_bounds(n_envs, config.replay_shards)]
    return [_SHARD_BYTES + int(each * (b - a)) for a, b in pairwise(firsts)]
