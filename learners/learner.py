"""What every learner is: one update call, and weights to act with."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import tensorflow as tf

from xagents_ray.core.trajectory import (
    Array,
    Replayed,
    Trajectory,
    Transitions,
    Weights,
)
from xagents_ray.learners.normalizer import Normalizer
from xagents_ray.learners.state import LearnerState

Metrics = dict[str, float]
"""Means over one learning phase, by name."""


def named(names: Sequence[str], means: tf.Tensor, updates: tf.Tensor) -> Metrics:
    """Return what one phase's graph gave: float32 means by name, and int32 updates."""
    return {
        **dict(zip(names, means.numpy().tolist(), strict=True)),
        "updates": int(updates),
    }


class Learner(Protocol):
    """What the drivers need of a learner."""

    state: LearnerState
    normalizer: Normalizer

    def update(
        self, batch: Sequence[Trajectory | Replayed] | Transitions, env_steps: int
    ) -> Metrics:
        """Run one learning phase.

        Args:
            batch: trajectories of one round, with K batches of replayed ones behind
                them where the algorithm takes such; or K batches of transitions.
            env_steps: of the whole run, after the batch was collected.
        """

    def policy_weights(self) -> Weights:
        """Return the newest weights to act with, under a new version."""

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Begin with the weights of its models, by name: `policy/dense-0/kernel`.

        Raises:
            UserError: a name or shape is not this learner's.
        """

    def stop(self) -> None:
        """Make an update in progress end after its current pass."""
