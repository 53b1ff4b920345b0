"""Asynchronous advantage actor-critic."""

from typing import Any

from xagents_ray.algorithms.a3c import A3CConfig
from xagents_ray.learners.actor_critic import ActorCritic
from xagents_ray.learners.metrics import AlgorithmOutputs
from xagents_ray.learners.setup import LearnerSetup
from xagents_ray.learners.tensors import Phase, rounds_of


class A3C:
    """One gradient step on each rollout, treated as if from the newest weights.

    Source: arXiv:1602.01783, with the gradients computed by one learner.
    """

    def __init__(self, setup: LearnerSetup[A3CConfig]) -> None:
        self.data = rounds_of(setup.config).with_noise_of(setup.layouts[0])
        self._parts = ActorCritic(setup)

    def learn(self, data: Any, phase: Phase) -> AlgorithmOutputs:
        """Take one step on each batch of trajectories."""
        return self._parts.learn(data, phase, first_version=0)
