"""The Ray actors of a run, created where its resources are reserved."""

import functools
import os
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from typing import Any

from xagents_ray.actors.actor_setup import ActorSetup
from xagents_ray.actors.envs.indices import first_evaluation_index
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.cluster.ray.calls import RayCalls
from xagents_ray.cluster.ray.inquiry import inquire
from xagents_ray.cluster.ray.user_folder import export_folder
from xagents_ray.cluster.run.acting_services import EnvActorService, EvaluatorService
from xagents_ray.cluster.run.elastic import (
    ActorClaim,
    ElasticClaims,
    lost_claims,
    request_cores,
)
from xagents_ray.cluster.run.feed import may_be_pulled
from xagents_ray.cluster.run.learner_service import LearnerService, learner_group
from xagents_ray.cluster.run.nodes import amount_of, live_nodes
from xagents_ray.cluster.run.replay_service import ReplayService
from xagents_ray.cluster.run.reservation import group_name, reserve, strategy_within
from xagents_ray.cluster.run.shard_claims import ShardClaims
from xagents_ray.core.env_shares import EnvShares
from xagents_ray.core.errors import UserError
from xagents_ray.core.inference import slots_of
from xagents_ray.run.learner_access import export_parts
from xagents_ray.run.worker_variables import worker_variables


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
        learns_on_gpu: whether the learner has a GPU.
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
        self._calls, self._ray, self._run = calls, calls.ray, run
        self._variables = worker_variables(run.config.placement, os.environ)
        self._folder = export_folder(calls.ray)
        self._definitions = (*self._folder, *definitions)
        self._closing = calls.closing
        self._made: dict[tuple[str, int], Any] = {}  # newest actor of each kind
        with ExitStack() as held:  # a Ray of the user may continue
            self._reserved = reserve(calls, run, has_claim)
            held.callback(self._reserved.release)
            self.notes = self._reserved.notes
            self._elastic = self._share_out()
            if self._elastic is not None:
                held.callback(self._elastic.release)
            self._memory = ShardClaims(calls, run)
            held.callback(self._memory.release)
            self.notes = (*self.notes, *self._memory.notes)
            self._release = held.pop_all().close

    def _share_out(self) -> ElasticClaims | None:
        """Divide what is reserved among the run's actors.

        Returns:
            The env actors' claims, if they come and go with the nodes.
        """
        learner, *actors = self._reserved.claims
        bundles = self._reserved.bundles[1:] or range(len(actors))
        group, cores = self._reserved.group, self._reserved.cores / len(actors)
        claims = [
            ActorClaim(group, bundle, claim["CPU"], cores)
            for bundle, claim in zip(bundles, actors, strict=True)
        ]
        self._share(claims, self._reserved.cores)
        self._learner_gpus = amount_of(learner, "GPU")
        self.learns_on_gpu = self._learner_gpus > 0
        self._serves = self._run.serves(self.learns_on_gpu, shares_process=False)
        # Ray doesn't hide GPUs itself. Without GPUs, skip the slow runtime environment.
        has_gpus = any(node["Resources"].get("GPU") for node in live_nodes(self._ray))
        self._blind = self._environment("-1" if has_gpus else None)
        self._anywhere = {"num_cpus": 0, "scheduling_strategy": "SPREAD", **self._blind}
        follows_nodes = self._run.config.placement.follows_nodes
        return self._follow(claims, learner) if follows_nodes else None

    def _share(self, claims: Sequence[ActorClaim], cores: float) -> None:
        """Divide the environments among env actors, of which each has a claim."""
        self._claims = claims
        self.shares = EnvShares.of(self._run.config.env.n_envs, len(claims), cores)
        self._threads = max(1, int(cores) // len(claims))

    def _follow(
        self, claims: Sequence[ActorClaim], learner: dict[str, float]
    ) -> ElasticClaims:
        """Return env actors' claims that come and go with the nodes from now on."""
        if self._serves:
            raise UserError(
                "With --n-actors auto the learner can't act for the env actors: add "
                "--inference actor, or give --n-actors a number."
            )
        config = self._run.config
        self.notes = (
            *self.notes,
            "With --n-actors auto, env actors join and leave with the cluster's nodes, "
            "so the run isn't reproducible.",
        )
        return ElasticClaims(
            self._calls,
            claims,
            config.env.n_envs,
            config.placement.actor_cpus or 1.0,
            learner,
            request_cores,
            lambda: group_name(self._run),
        )

    def follow_nodes(self) -> bool:
        """Return whether `shares` have changed, as nodes have joined or left.

        All env actors must then be created again.
        """
        if self._elastic is None or not self._elastic.follow():
            return False
        self._share(self._elastic.claims, self._elastic.cores)
        for part, number in [*self._made]:
            if part.startswith("env actor"):
                del self._made[part, number]
        return True

    def learner(self) -> Any:
        gpus = self._learner_gpus / self._run.config.placement.n_learners
        options = self._within(0, num_gpus=gpus) | self._learner_environment()
        service = remote_class(self._ray, LearnerService, answers_always=True)
        slots = list[tuple[int, int]]()
        if self._serves:
            pairs = zip(self.shares.bounds, self.shares.envs, strict=False)
            slots = [slot for pair in pairs for slot in slots_of(*pair)]
        definitions = (*self._folder, *export_parts(self._run))
        make = service.options(**options).remote
        made = self._keep("learner", 0, make(self._run, definitions, slots))
        count = self._run.config.placement.n_learners
        if count == 1:
            return made
        others = (make(self._run, definitions) for _ in range(1, count))
        kept = (self._keep("learner", i, x) for i, x in enumerate(others, 1))
        return learner_group([made, *kept])

    def shard(self, number: int) -> Any:
        service = remote_class(self._ray, ReplayService, answers_always=True)
        claimed = self._memory.options(number)
        options = self._anywhere if claimed is None else {**claimed, **self._blind}
        make = service.options(**options)
        made = make.remote(self._run, number, self._definitions)
        return self._keep("shard", number, made)

    def env_actor(self, number: int) -> Any:
        """Create an env actor, or its replacement, on its claim."""
        claim = self._claims[number]
        strategy = strategy_within(self._ray, claim.group, claim.bundle)
        claimed = {"num_cpus": claim.cpus, "scheduling_strategy": strategy}
        return self._keep("env actor", number, self._env_actor(number, claimed))

    def env_actor_elsewhere(self, number: int) -> Any:
        """Create a replacement for an env actor on any node, without a claim."""
        made = self._env_actor(number, self._anywhere)
        return self._keep("env actor elsewhere", number, made)

    def lost_claims(self) -> Collection[int]:
        """Return the env actors whose claims are not on a live node."""
        return inquire(self._calls, lambda: lost_claims(self._ray, self._claims))

    def _env_actor(self, number: int, options: dict[str, Any]) -> Any:
        share, first = self.shares.envs[number], self.shares.bounds[number]
        threads, definitions = self._threads, self._definitions
        setup = ActorSetup.of(
            self._run,
            share,
            first,
            threads,
            definitions,
            is_served=self._serves,
            onnx_rows=self._run.onnx_rows(share),
        )
        service = remote_class(self._ray, EnvActorService)
        name = f"Env actor {number}"
        return service.options(**{**options, **self._blind}).remote(setup, name)

    def evaluator(self, n_envs: int) -> Any:
        """Create an actor that evaluates in `n_envs` environments."""
        first = first_evaluation_index(self._run.config.env)
        setup = ActorSetup.of(self._run, n_envs, 0, 1, self._definitions, first)
        service = remote_class(self._ray, EvaluatorService)
        made = service.options(**self._anywhere).remote(setup)
        return self._keep("evaluator", 0, made)

    def release(self) -> None:
        """Close the environments, end the actors, and release what was claimed here."""
        for (part, _), actor in self._made.items():
            if part != "learner":
                self._closing.begin(actor)
        self._closing.finish()
        for actor in self._made.values():
            self._ray.kill(actor)
        self._release()

    def _keep(self, part: str, number: int, actor: Any) -> Any:
        self._made[part, number] = actor
        return actor

    def _learner_environment(self) -> dict[str, Any]:
        """Return the learner's options with its environment.

        A learner that may pull chunks gets one heap for all of its threads: glibc's
        heap per thread keeps the memory that each of them has freed.
        """
        visible = self._reserved.visible_gpus
        is_blind = visible is None and self._learner_gpus == 0
        options = self._blind if is_blind else self._environment(visible)
        if not may_be_pulled(self._run):
            return options
        variables = options.get("runtime_env", {}).get("env_vars", {})
        return {"runtime_env": {"env_vars": {"MALLOC_ARENA_MAX": "1", **variables}}}

    def _environment(self, visible: str | None) -> dict[str, Any]:
        """Return an actor's options with its environment, and the GPUs it may see."""
        shown = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
        variables = {**self._variables, **shown}
        return {"runtime_env": {"env_vars": variables}} if variables else {}

    def _within(self, part: int, **claims: float) -> dict[str, Any]:
        strategy = self._reserved.strategy(part)
        return {"num_cpus": 0, "scheduling_strategy": strategy, **claims}


@functools.cache
def remote_class(ray: Any, kind: type, answers_always: bool = False) -> Any:
    """Return a class as a Ray actor class, which is defined once per process.

    Args:
        ray: the module `ray`.
        kind: the class.
        answers_always: whether calls of the concurrency group `control` are answered
            during other calls.
    """
    if answers_always:
        return ray.remote(concurrency_groups={"control": 1})(kind)
    return ray.remote(kind)
