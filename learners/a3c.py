"""Asynchronous advantage actor-critic."""

import tensorflow as tf

from xagents_ray.algorithms.a3c import A3CConfig
from xagents_ray.learners.actor_critic import ActorCritic
from xagents_ray.learners.metrics import Means
from xagents_ray.learners.setup import LearnerSetup
from xagents_ray.learners.tensors import Phase, Rollout


class A3C:
    """One gradient step on each rollout, as if the newest weights had acted.

    Source: arXiv:1602.01783, with the gradients computed by one learner.
    """

    data = Rollout
    targets = ()

    def __init__(self, setup: LearnerSetup[A3CConfig]) -> None:
        self._parts = parts = ActorCritic(setup)
        self.models, self.optimizers = parts.models, parts.optimizers
        self.variables = parts.variables

    def learn(self, rollout: Rollout, phase: Phase) -> tuple[Means, tf.Tensor]:
        """Take one step on [T, B] rows, none if none is valid."""
        return self._parts.learn(rollout, is_corrected=False)
