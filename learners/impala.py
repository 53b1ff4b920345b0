"""Importance-weighted actor-learner architecture."""

import math
from dataclasses import replace
from typing import Any

import tensorflow as tf

from xagents_ray.algorithms.impala import IMPALAConfig
from xagents_ray.core.trajectory import Trajectory, map_arrays
from xagents_ray.learners.actor_critic import ActorCritic
from xagents_ray.learners.metrics import AlgorithmOutputs
from xagents_ray.learners.setup import LearnerSetup
from xagents_ray.learners.tensors import Phase, rounds_of


class IMPALA:
    """One gradient step on each round, corrected by V-trace for the behavior policy.

    With --replay-share, replayed trajectories are side by side with the round's.

    Source: arXiv:1802.01561.
    """

    def __init__(self, setup: LearnerSetup[IMPALAConfig]) -> None:
        self._config = c = setup.config
        reader = rounds_of(c).with_noise_of(setup.layouts[0])
        self.data = replace(reader, is_joint=c.replay_share > 0)
        self._parts = ActorCritic(setup, c.rho_clip, c.c_clip)
        if c.replay_share:
            self._updates = setup.counter("updates")

    def learn(self, data: Any, phase: Phase) -> AlgorithmOutputs:
        """Take one step on each batch, or with --replay-share on all at once."""
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
    """Return a round and its replayed trajectories as one batch, [1, T, K * B, ...].

    Args:
        batches: the round and replayed batches, [K, T, B, ...]; batches from `count` on
            are copies, as are trajectories from `width` on, which are not valid.
        part: number of replayed trajectories to use for each fresh one.
        count: number of batches that are not copies, int32 [].
        width: number of trajectories per batch that are not copies, int32 [].
        update: index of the update, int64 []. If a round's part is not a whole number,
            some updates replay one trajectory more than others; each update begins with
            the environment where the previous one ended.
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
    """Reshape [K, T, B, ...] to [1, T, K * B, ...]; return the first entry of [K]."""
    if x.shape.rank == 1:
        return x[:1]
    shape, rest = tf.shape(x), x.shape[3:]
    x = tf.transpose(x, [1, 0, *range(2, x.shape.rank)])
    return tf.reshape(x, [1, shape[1], shape[0] * shape[2], *rest])
