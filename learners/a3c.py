"""Asynchronous advantage actor-critic."""

from typing import Any

from xagents_ray.algorithms.a3c import A3CConfig
from xagents_ray.learners.actor_critic import ActorCritic
from xagents_ray.learners.metrics import AlgorithmOutputs
from xagents_ray.learners.setup import LearnerSetup
from xagents_ray.learners.tensors import Phase


class A3C:
    """One gradient step on each rollout, as if the newest weights had acted.

    Source: arXiv:1602.01783, with the gradients computed by one learner.
    """

    targets = ()

    def __init__(self, setup: LearnerSetup[A3CConfig]) -> None:
        self._parts = parts = ActorCritic(setup)
        self.data, self.variables = parts.data, parts.variables
        self.models, self.optimizers = parts.models, parts.optimizers

    def learn(self, data: Any, phase: Phase) -> AlgorithmOutputs:
        """Take one step on each batch of trajectories."""
        return self._parts.learn(data, phase, first_version=0)
