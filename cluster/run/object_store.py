"""How large Ray's object store must be for a run."""

import math

from xagents_ray.cluster.run.replay import PIECE_BYTES, PIECES
from xagents_ray.core.machine import cores
from xagents_ray.run.driver import Run
from xagents_ray.storage.weights import shapes

_STATE_COPIES = 4
"""A weight, its target network's, and Adam's two moments of it."""
_SNAPSHOTS = 6
"""Of the learner in the object store: the newest for its return, the one to replace it,
the best, the one that is written, and those that `restore` and `encode` are given."""
_VERSIONS = 5
"""Of the weights there with no lag: acting, learnt, published, and two evaluations'."""


def rollout_bytes(run: Run) -> int:
    """Return what the trajectories of a round take."""
    rows = (run.config.algorithm.batch_steps + run.spec.stack) * run.config.env.n_envs
    return rows * _observation_bytes(run)


def _observation_bytes(run: Run) -> int:
    """Return what one row of an environment takes."""
    item = 1 if run.spec.observation_dtype == "uint8" else 4
    return math.prod(run.spec.observation_shape) * item + 64


def store_bytes(run: Run) -> int:
    """Return what the data in flight needs, with room to spare."""
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


def _weights_bytes(run: Run) -> int:
    """Return what weights and snapshots in the object store take."""
    sizes = [
        4 * sum(math.prod(shape) for shape in shapes(layout).values())
        for layout in run.layouts
    ]
    placement, pipeline = run.config.placement, run.config.pipeline
    versions = _VERSIONS + pipeline.policy_lag
    if pipeline.asynchronous:  # each env actor may act with weights of its own
        versions += placement.n_actors or min(run.config.env.n_envs, cores())
    return versions * sizes[0] + _SNAPSHOTS * _STATE_COPIES * sum(sizes)
