"""Importance-weighted actor-learner architecture."""

import tensorflow as tf

from xagents_ray.algorithms.impala import IMPALAConfig
from xagents_ray.learners.actor_critic import ActorCritic
from xagents_ray.learners.metrics import Means
from xagents_ray.learners.setup import LearnerSetup
from xagents_ray.learners.tensors import Phase, Rollout


class IMPALA:
    """One gradient step on each round, which V-trace corrects for what acted.

    Source: arXiv:1802.01561.
    """

    data = Rollout
    targets = ()

    def __init__(self, setup: LearnerSetup[IMPALAConfig]) -> None:
        c = setup.config
        self._parts = parts = ActorCritic(setup, c.rho_clip, c.c_clip)
        self.models, self.optimizers = parts.models, parts.optimizers
        self.variables = parts.variables

    def learn(self, rollout: Rollout, phase: Phase) -> tuple[Means, tf.Tensor]:
        """Take one step on [T, B] rows, none if none is valid."""
        return self._parts.learn(rollout, is_corrected=True)
