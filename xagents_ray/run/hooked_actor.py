"""An env actor in this process whose rollouts pass through a callback."""

from typing import Any

from xagents_ray.core.trajectory import RolloutReport, Trajectory, Weights
from xagents_ray.watch.hooks import Hooks


class HookedActor:
    """An env actor whose observations and rollouts pass through hooks.

    Args:
        actor: the env actor, whose other methods this one has too.
        hooks: the callback that changes what the actor returns.
    """

    def __init__(self, actor: Any, hooks: Hooks) -> None:
        self._actor, self._hooks = actor, hooks
        actor.change_observations(hooks.observations)

    def rollout(
        self, weights: Weights, length: int, env_steps: int
    ) -> tuple[Trajectory, RolloutReport]:
        """Step every environment; see `EnvActor.rollout`."""
        reports: list[RolloutReport] = []

        def collect() -> Trajectory:
            trajectory, report = self._actor.rollout(weights, length, env_steps)
            reports.append(report)
            return trajectory  # type: ignore[no-any-return]

        trajectory = self._hooks.batch(collect)
        return trajectory, reports[0]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._actor, name)
