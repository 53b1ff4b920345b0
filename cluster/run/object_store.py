"""The size of Ray's object store that a run needs."""

import math

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.cluster.run.replay import PIECE_BYTES, PIECES
from xagents_ray.core.machine import cores

_STATE_COPIES = 4
"""A weight, its target network's, and Adam's two moments of it."""
_SNAPSHOTS = 6
"""Of the learner in the object store: the newest for its recovery, its successor, the
best, the one that is written, and the arguments of `restore` and `encode`."""
_VERSIONS = 5
"""Of the weights there with no lag: acting, learned, published, two evaluations'."""


def rollout_bytes(run: RunSpec) -> int:
    """Return the size of a round's trajectories."""
    rows = (run.config.algorithm.batch_steps + run.spec.stack) * run.config.env.n_envs
    return rows * _observation_bytes(run)


def _observation_bytes(run: RunSpec) -> int:
    """Return the size of one environment's row."""
    item = 1 if run.spec.observation_dtype == "uint8" else 4
    return math.prod(run.spec.observation_shape) * item + 64


def store_bytes(run: RunSpec) -> int:
    """Return the size of the data in flight, with room to spare."""
    spec, replay = run.spec, run.config.algorithm.replay
    observation = _observation_bytes(run)
    ahead = run.config.pipeline.policy_lag
    bytes_ = rollout_bytes(run) * (1 + ahead)
    if replay is not None:
        sampled = replay.sampled_rows(run.config.env.n_envs, spec.stack)
        bytes_ += sampled * observation * (2 if ahead else 1)
    bytes_ = 3 * bytes_ + 128 * 2**20 + _weights_bytes(run)
    if replay is not None and run.config.run.checkpoint_replay:
        bytes_ += 2 * PIECES * PIECE_BYTES
    return bytes_


def _weights_bytes(run: RunSpec) -> int:
    """Return the size of weights and snapshots in the object store."""
    sizes = [4 * layout.n_weights for layout in run.layouts]
    placement, pipeline = run.config.placement, run.config.pipeline
    versions = _VERSIONS + pipeline.policy_lag
    if pipeline.asynchronous:  # each env actor may act with weights of its own
        versions += placement.n_actors or min(run.config.env.n_envs, cores())
    return versions * sizes[0] + _SNAPSHOTS * _STATE_COPIES * sum(sizes)
