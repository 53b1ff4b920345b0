"""What a learner asks of an algorithm."""

from typing import Any, Protocol

from xagents_ray.learners.metrics import AlgorithmOutputs
from xagents_ray.learners.tensors import Phase, Reader


class LearningAlgorithm(Protocol):
    """Interface of an algorithm, whose setup registers its networks and variables.

    Attributes:
        data: reader of the batches, such as `tensors.ROLLOUT`.
    """

    data: Reader

    def learn(self, data: Any, phase: Phase) -> AlgorithmOutputs:
        """Run one learning phase in the graph; rewards are normalized already.

        A phase with many batches from the replay is several calls, each with a chunk of
        them, unless the reader is joint.
        """
