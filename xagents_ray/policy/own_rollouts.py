"""Rollouts of a user's own loop, in place of an env actor's."""

from collections import deque

from xagents_ray.core.moments import Statistics
from xagents_ray.core.trajectory import RolloutReport, Trajectory, Weights


class FinishedRollouts:
    """Queue of the rollouts of the user's loop; takes the place of an env actor."""

    def __init__(self) -> None:
        self.rollouts: deque[tuple[Trajectory, RolloutReport]] = deque()

    def add(self, trajectory: Trajectory, statistics: Statistics) -> None:
        steps, version = trajectory.valid.sum(axis=1), trajectory.weights_version
        report = RolloutReport(steps, (), 0.0, statistics, version)
        self.rollouts.append((trajectory, report))

    def rollout(
        self, weights: Weights, length: int, env_steps: int
    ) -> tuple[Trajectory, RolloutReport]:
        return self.rollouts.popleft()

    def close(self) -> None:
        """Do nothing."""
