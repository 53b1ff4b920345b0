"""Advantage actor-critic."""

from typing import Any

from xagents_ray.algorithms.a2c import A2CConfig
from xagents_ray.learners.actor_critic import ActorCritic
from xagents_ray.learners.metrics import AlgorithmOutputs
from xagents_ray.learners.setup import LearnerSetup
from xagents_ray.learners.tensors import Phase, rounds_of


class A2C:
    """One gradient step on each round of trajectories.

    V-trace corrects trajectories that were collected with older weights.

    Source: arXiv:1602.01783, without its asynchrony; V-trace, arXiv:1802.01561;
        with --lam, arXiv:1506.02438.
    """

    def __init__(self, setup: LearnerSetup[A2CConfig]) -> None:
        self.data = rounds_of(setup.config).with_noise_of(setup.layouts[0])
        self._parts = ActorCritic(setup)

    def learn(self, data: Any, phase: Phase) -> AlgorithmOutputs:
        """Take one step on each batch of trajectories."""
        return self._parts.learn(data, phase, phase.weights_version)
