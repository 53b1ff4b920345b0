"""The Ray actors of a run, created where its resources are reserved."""

from typing import Any

from xagents_ray.actors.env_actor import ActorSetup, EnvActor
from xagents_ray.actors.envs.indices import first_evaluation_index
from xagents_ray.actors.evaluator import Evaluator
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.cluster.ray.calls import RayCalls
from xagents_ray.cluster.run.nodes import live_nodes
from xagents_ray.cluster.run.reservation import reserve
from xagents_ray.cluster.run.services import LearnerService, ReplayService
from xagents_ray.core.env_shares import EnvShares
from xagents_ray.run.learner_access import export_parts


class RunParts:
    """Claims all resources of a run at once, and creates its actors.

    Args:
        calls: Ray calls that wait for the claim.
        run: the run whose actors are created.
        definitions: definitions of environments that other processes lack.
        has_claim: whether this process has a placement group with the run's claims, as
            a trial of a sweep does.
    Attributes:
        shares: the environments of each env actor.
        notes: notes for the user, one sentence each.
    Raises:
        UserError: the cluster lacks a resource, or others hold it.
        Stopped: a shutdown was requested.
    """

    def __init__(
        self,
        calls: RayCalls,
        run: RunSpec,
        definitions: tuple[bytes, ...],
        has_claim: bool = False,
    ) -> None:
        self._ray, self._run, self._definitions = calls.ray, run, definitions
        self._made: dict[tuple[str, int], Any] = {}  # newest actor of each kind
        self._reserved = reserve(calls, run, has_claim)
        learner, *actors = self._reserved.claims
        cores, self.notes = self._reserved.cores, self._reserved.notes
        self.shares = EnvShares.of(run.config.env.n_envs, len(actors), cores)
        self._threads = max(1, int(cores) // len(actors))
        self._learner_gpus = learner.get("GPU", 0.0)
        self._actor_cpus = actors[0]["CPU"]
        self._placed: set[int] = set()
        # Ray doesn't hide GPUs itself. Without GPUs, skip the slow runtime environment.
        has_gpus = any(node["Resources"].get("GPU") for node in live_nodes(self._ray))
        self._blind = _with_gpus("-1") if has_gpus else {}
        self._anywhere = {"num_cpus": 0, "scheduling_strategy": "SPREAD", **self._blind}

    def learner(self) -> Any:
        options = self._within(0, num_gpus=self._learner_gpus)
        if self._reserved.visible_gpus is not None:
            options |= _with_gpus(self._reserved.visible_gpus)
        elif self._learner_gpus == 0:
            options |= self._blind
        service = self._ray.remote(concurrency_groups={"control": 1})(LearnerService)
        made = service.options(**options).remote(self._run, export_parts(self._run))
        return self._keep("learner", 0, made)

    def shard(self, number: int) -> Any:
        service = self._ray.remote(concurrency_groups={"control": 1})(ReplayService)
        make = service.options(**self._anywhere)
        made = make.remote(self._run, number, self._definitions)
        return self._keep("shard", number, made)

    def env_actor(self, number: int) -> Any:
        """Create an env actor, or its replacement."""
        options = self._anywhere
        # A replacement must not wait for cores that the user didn't ask for.
        if number not in self._placed or self._run.config.placement.actor_cpus:
            claimed = self._within(number + 1, num_cpus=self._actor_cpus)
            options = claimed | self._blind
        self._placed.add(number)
        share, first = self.shares.envs[number], self.shares.bounds[number]
        threads, definitions = self._threads, self._definitions
        setup = ActorSetup.of(self._run, share, first, threads, definitions)
        made = self._ray.remote(EnvActor).options(**options).remote(setup)
        return self._keep("env actor", number, made)

    def evaluator(self, n_envs: int) -> Any:
        """Create an actor that evaluates in `n_envs` environments."""
        first = first_evaluation_index(self._run.config.env)
        setup = ActorSetup.of(self._run, n_envs, 0, 1, self._definitions, first)
        made = self._ray.remote(Evaluator).options(**self._anywhere).remote(setup)
        return self._keep("evaluator", 0, made)

    def release(self) -> None:
        """End the actors, and release resources that were claimed here."""
        for actor in self._made.values():
            self._ray.kill(actor)
        self._reserved.release()

    def _keep(self, part: str, number: int, actor: Any) -> Any:
        self._made[part, number] = actor
        return actor

    def _within(self, part: int, **claims: float) -> dict[str, Any]:
        strategy = self._reserved.strategy(part)
        return {"num_cpus": 0, "scheduling_strategy": strategy, **claims}


def _with_gpus(visible: str) -> dict[str, Any]:
    """Return an actor's options that make only some GPUs visible to it."""
    return {"runtime_env": {"env_vars": {"CUDA_VISIBLE_DEVICES": visible}}}
