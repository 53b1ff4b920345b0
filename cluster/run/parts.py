"""How the parts of a run are made as Ray actors."""

import itertools
from typing import Any

import numpy as np

from xagents_ray.actors.env_actor import ActorSetup, EnvActor
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.cluster.run.placement import Placement
from xagents_ray.cluster.run.services import LearnerService, ReplayService


class Parts:
    """Makes the actors of a run, each where the placement says.

    Args:
        ray: the module.
        run: whose parts.
        placement: of them.
        definitions: of environments that other processes don't know.
    Attributes:
        shares: environments of each env actor.
    """

    def __init__(
        self,
        ray: Any,
        run: RunSpec,
        placement: Placement,
        definitions: tuple[bytes, ...],
    ) -> None:
        self._ray, self._run, self._placement = ray, run, placement
        self._definitions = definitions
        bounds = np.linspace(0, run.config.env.n_envs, placement.n_actors + 1)
        self._bounds: list[int] = bounds.astype(int).tolist()
        self.shares = [end - first for first, end in itertools.pairwise(self._bounds)]
        self._placed: set[int] = set()

    def learner(self) -> Any:
        """Make the learner."""
        service = self._ray.remote(concurrency_groups={"control": 1})(LearnerService)
        return service.options(**self._placement.learner()).remote(self._run)

    def shard(self, number: int) -> Any:
        """Make a shard of the replay."""
        service = self._ray.remote(concurrency_groups={"control": 1})(ReplayService)
        return service.options(**self._placement.service()).remote(self._run, number)

    def env_actor(self, number: int) -> Any:
        """Make an env actor, or a replacement of it."""
        is_first = number not in self._placed
        self._placed.add(number)
        options = self._placement.env_actor(number, is_first)
        share, first = self.shares[number], self._bounds[number]
        threads = self._placement.threads
        setup = ActorSetup.of(self._run, share, first, threads, self._definitions)
        return self._ray.remote(EnvActor).options(**options).remote(setup)

    def evaluator(self, evaluator: type, n_envs: int) -> Any:
        """Make an actor of a class that evaluates in so many environments."""
        remote = self._ray.remote(evaluator).options(**self._placement.service())
        definitions = self._definitions
        return remote.remote(
            ActorSetup.of(self._run, n_envs, env_threads=1, definitions=definitions)
        )
