"""An env actor in this process whose rollouts pass through a callback."""

from typing import Any

from xagents_ray.actors.envs.interface import errors_name_line
from xagents_ray.core.trajectory import (
    Observations,
    RolloutReport,
    Trajectory,
    Weights,
)
from xagents_ray.watch.hooks import Hooks


class HookedActor:
    """An env actor whose observations and rollouts pass through hooks.

    Args:
        actor: the env actor, whose other methods this one has too.
        hooks: the callback that changes what the actor returns.
        env: name of the environment, for errors.
    """

    def __init__(self, actor: Any, hooks: Hooks, env: str) -> None:
        self._actor, self._hooks, self._env = actor, hooks, env
        actor.change_observations(self._observations)

    def rollout(
        self, weights: Weights, length: int, env_steps: int
    ) -> tuple[Trajectory, RolloutReport]:
        """Step every environment; see `EnvActor.rollout`."""
        reports: list[RolloutReport] = []

        def collect() -> Trajectory:
            with errors_name_line(self._env):
                trajectory, report = self._actor.rollout(weights, length, env_steps)
            reports.append(report)
            return trajectory  # type: ignore[no-any-return]

        with errors_name_line(self._hooks.name_of("batch"), flag=""):
            trajectory = self._hooks.batch(collect)
        return trajectory, reports[0]

    def _observations(self, observations: Observations) -> Observations:
        with errors_name_line(self._hooks.name_of("observations"), flag=""):
            return self._hooks.observations(observations)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._actor, name)
