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


def weights_bytes(run: RunSpec) -> tuple[int, int]:
    """Return the size of the policy's weights, and of the learner's state."""
    sizes = [4 * layout.n_weights for layout in run.layouts]
    return sizes[0], _STATE_COPIES * sum(sizes)


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
    replay, pipeline = run.config.algorithm.replay, run.config.pipeline
    n_envs, ahead = run.config.env.n_envs, pipeline.policy_lag
    versions = _VERSIONS + ahead
    if pipeline.asynchronous:  # each env actor may act with weights of its own
        versions += run.config.placement.n_actors or min(n_envs, cores())
    weights, state = weights_bytes(run)
    bytes_ = 128 * 2**20 + versions * weights + _SNAPSHOTS * state
    bytes_ += 3 * rollout_bytes(run) * (1 + ahead)
    if replay is not None:
        sampled = replay.sampled_rows(n_envs, run.spec.stack) * (2 if ahead else 1)
        bytes_ += 3 * sampled * _observation_bytes(run)
        if run.config.run.checkpoint_replay:
            bytes_ += 2 * PIECES * PIECE_BYTES
    return bytes_
