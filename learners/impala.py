"""Importance-weighted actor-learner architecture."""

import math
from typing import Any

import tensorflow as tf

from xagents_ray.algorithms.impala import IMPALAConfig
from xagents_ray.core.trajectory import Trajectory, map_arrays
from xagents_ray.learners.actor_critic import ActorCritic
from xagents_ray.learners.metrics import AlgorithmOutputs
from xagents_ray.learners.setup import LearnerSetup
from xagents_ray.learners.tensors import Phase, rounds_of


class IMPALA:
    """One gradient step on each round, which V-trace corrects for what acted.

    With a share of replayed trajectories these are side by side with the round's.

    Source: arXiv:1802.01561.
    """

    def __init__(self, setup: LearnerSetup[IMPALAConfig]) -> None:
        self._config = c = setup.config
        self.data = rounds_of(c)
        self._parts = ActorCritic(setup, c.rho_clip, c.c_clip)
        if c.replay_share:
            self._updates = setup.counter("updates")

    def learn(self, data: Any, phase: Phase) -> AlgorithmOutputs:
        """Take one step on each batch of trajectories, or on all at once."""
        if self._config.replay_share:
            part, count = self._config.replayed_part, phase.batches
            data = append_replayed(data, part, count, phase.width, self._updates)
            self._updates.assign_add(1)
            phase = phase._replace(batches=1)
        return self._parts.learn(data, phase, first_version=tf.int64.max)


def append_replayed(
    batches: Trajectory,
    part: float,
    count: tf.Tensor,
    width: tf.Tensor,
    update: tf.Tensor,
) -> Trajectory:
    """Return a round and what was replayed behind it as one batch, [1, T, K * B, ...].

    Args:
        batches: [K, T, B, ...]; those from `count` on are copies, and so are their
            trajectories from `width` on, of which none is valid.
        part: replayed trajectories that are valid for each fresh one.
        count: int32 [].
        width: int32 [].
        update: int64 [], its number from 0 on: where a round's part is no whole number,
            some updates replay one trajectory more than others, and each update begins
            with the environment at which the one before ended.
    """
    most = 1 + math.ceil(part)
    held = map_arrays(lambda x: x[:most], batches)
    whole = tf.cast(width, tf.float64) * part
    before = tf.cast(update, tf.float64) * whole
    begin, end = (tf.cast(tf.floor(x), tf.int64) for x in (before, before + whole))
    sampled = tf.cast(width * (count - 1), tf.int64)
    joined = map_arrays(_side_by_side, held)
    places, padded = tf.range(tf.shape(joined.valid)[2]), tf.shape(held.valid)[2]
    number = tf.cast(places // padded * width + places % padded - width, tf.int64)
    turn = tf.math.floormod(number - begin, tf.maximum(sampled, 1))
    is_taken = (number < 0) | ((number < sampled) & (turn < end - begin))
    return joined._replace(valid=joined.valid & is_taken)


def _side_by_side(x: tf.Tensor) -> tf.Tensor:
    """Return [K, T, B, ...] as [1, T, K * B, ...], and the first one of [K]."""
    if x.shape.rank == 1:
        return x[:1]
    shape, rest = tf.shape(x), x.shape[3:]
    x = tf.transpose(x, [1, 0, *range(2, x.shape.rank)])
    return tf.reshape(x, [1, shape[1], shape[0] * shape[2], *rest])
