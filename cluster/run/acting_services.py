"""Env actors and the evaluator as Ray actors, which report what is printed in them."""

from dataclasses import replace
from typing import Any

from xagents_ray.actors.actor_setup import ActorSetup
from xagents_ray.actors.env_actor import EnvActor
from xagents_ray.actors.evaluator import Evaluator
from xagents_ray.actors.halves import HalvedEnvActor
from xagents_ray.core.printed import PrintCollector, Printed
from xagents_ray.core.trajectory import Episode, RolloutReport, Trajectory, Weights


class EnvActorService:
    """An env actor whose reports have what its environments print.

    Args:
        setup: setup of the env actor.
        name: name that begins each printed line, such as `Env actor 2`.
    """

    def __init__(self, setup: ActorSetup, name: str) -> None:
        self._prints = PrintCollector(name)
        kind = HalvedEnvActor if setup.is_served else EnvActor
        with self._prints.collecting():
            self._actor = kind(setup)

    def ready(self) -> None:
        """Do nothing; a call that returns shows that the environments exist."""

    def rollout(
        self, weights: Weights, length: int, env_steps: int
    ) -> tuple[Trajectory, RolloutReport]:
        """Step every environment; see `EnvActor.rollout`."""
        with self._prints.collecting():
            trajectory, report = self._actor.rollout(weights, length, env_steps)
        return trajectory, replace(report, printed=self._prints.take())

    def state(self) -> dict[str, Any]:
        """Return the state that later rollouts depend on; see `EnvActor.state`."""
        with self._prints.collecting():
            return self._actor.state()

    def restore(self, state: dict[str, Any]) -> int:
        """Resume from the state of another actor; see `EnvActor.restore`."""
        with self._prints.collecting():
            return self._actor.restore(state)

    def restart(self, times: int) -> None:
        """Derive the first episodes and the noise from the restart count."""
        self._actor.restart(times)

    def close(self) -> Printed:
        """Close the environments; return what was printed since the last report."""
        with self._prints.collecting():
            self._actor.close()
        return self._prints.take()


class EvaluatorService:
    """An evaluator that returns what its environments print; see `Evaluator`."""

    def __init__(self, setup: ActorSetup) -> None:
        self._prints = PrintCollector("Evaluator")
        with self._prints.collecting():
            self._evaluator = Evaluator(setup)

    def evaluate(
        self,
        weights: Weights,
        episodes: int,
        seed: int,
        limit: int | None,
        longest: int,
    ) -> tuple[list[Episode], Printed]:
        """Play episodes; return them and what was printed since the last call."""
        with self._prints.collecting():
            played = self._evaluator.evaluate(weights, episodes, seed, limit, longest)
        return played, self._prints.take()

    def close(self) -> Printed:
        """Close the environments; return what was printed since the last call."""
        with self._prints.collecting():
            self._evaluator.close()
        return self._prints.take()
