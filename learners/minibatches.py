"""Learning phases: passes over a rollout's rows, and minibatches one by one."""

from collections.abc import Callable
from typing import TypeVar

import tensorflow as tf

from xagents_ray.learners.metrics import Means, add
from xagents_ray.learners.setup import LearnerSetup
from xagents_ray.learners.tensors import Phase
from xagents_ray.settings.algorithm import AlgorithmConfig

_T = TypeVar("_T")


def update_in_passes(
    update: Callable[[tf.Tensor], dict[str, tf.Tensor]],
    rows: tf.Tensor,
    metrics: Means,
    passes: int,
    parts: int,
    phases: tf.Tensor,
    setup: LearnerSetup[AlgorithmConfig],
) -> Means:
    """Update on minibatches of rows, int64 [N], until the learner is stopping.

    Each pass of each phase has another order, and parts of sizes as equal as can be,
    without empty ones. `phases`, int64 [], is how many went before in the whole run.
    Return the metrics with those of each update.
    """
    count = tf.size(rows)
    for i in tf.range(passes):
        if setup.stopping:
            break
        seed = tf.stack([setup.seed, tf.cast(phases, tf.int32) * passes + i])
        order = tf.random.experimental.stateless_shuffle(rows, seed)
        for j in tf.range(parts):
            begin, end = (n * count // parts for n in (j, j + 1))
            if begin < end:
                metrics = add(metrics, update(order[begin:end]))
    return metrics


def update_on_batches(
    update: Callable[[tf.Tensor, _T], _T],
    metrics: _T,
    phase: Phase,
    setup: LearnerSetup[AlgorithmConfig],
) -> _T:
    """Update on each of a phase's batches, until the learner is stopping.

    `update` gets the number of a batch, int32 [], and the metrics so far, and returns
    these with its own, as does this function.
    """
    k = tf.constant(0)
    # With `tf.range` XLA would compile a program for each number of batches.
    while k < phase.batches and not setup.stopping:
        metrics = update(k, metrics)
        k += 1
    return metrics


def filled(rows: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Return rows, repeated from the first one on up to a size.

    Networks' inputs have one size, whatever is valid: for each new shape the kernels of
    convolutions take memory that they keep. Outputs of repeated rows are left out.
    """
    return tf.gather(rows, tf.range(size) % tf.size(rows))
