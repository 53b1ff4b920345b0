"""Resource claims of a run, and the creation of its Ray actors."""

import itertools
import math
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xagents_ray.actors.env_actor import ActorSetup, EnvActor
from xagents_ray.actors.envs.indices import first_evaluation_index
from xagents_ray.actors.evaluator import Evaluator
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.cluster.ray.calls import RayCalls
from xagents_ray.cluster.run.services import LearnerService, ReplayService
from xagents_ray.core.errors import Stopped, UserError
from xagents_ray.core.installation import is_complete
from xagents_ray.run.learner_access import export_parts
from xagents_ray.settings.config import Config

_READY_SECONDS = 60.0
_STEP = 1e-4
"""Ray counts resources in ten-thousandths."""

Bundle = dict[str, float]
Labels = list[dict[str, str]] | None
"""Node labels that each bundle requires; None if any node will do."""
_can_learn: dict[str, bool] = {}
"""Whether each node has TensorFlow, by node id."""


class ClusterNode(NamedTuple):
    """A live node of the cluster."""

    id: str
    has: Bundle
    can_learn: bool = True  # whether it has TensorFlow


def nodes_of(ray: Any) -> list[ClusterNode]:
    """Return all nodes; if there are several, check each once for TensorFlow.

    Raises:
        UserError: no node has TensorFlow.
    """
    alive = {node["NodeID"]: node["Resources"] for node in _alive(ray)}
    unknown = [node for node in alive if node not in _can_learn]
    if len(alive) > 1 and unknown:
        _ask(ray, unknown)
    nodes = [
        ClusterNode(id, has, _can_learn.get(id, True)) for id, has in alive.items()
    ]
    if not any(node.can_learn for node in nodes):
        raise UserError(
            "No node of the cluster has TensorFlow, which the learner needs: install "
            "xagents-ray, not xagents-ray-actor, on one."
        )
    return nodes


def _ask(ray: Any, nodes: Sequence[str]) -> None:
    """Record which nodes have TensorFlow; one that doesn't answer has none."""
    task = ray.remote(num_cpus=0)(is_complete)
    affinity = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    asked = {
        node: task.options(scheduling_strategy=affinity(node, soft=False)).remote()
        for node in nodes
    }
    calls = list(asked.values())
    answered, _ = ray.wait(calls, num_returns=len(calls), timeout=_READY_SECONDS)
    for node, call in asked.items():
        try:
            _can_learn[node] = call in answered and ray.get(call)
        except ray.exceptions.RayError:
            _can_learn[node] = False


def label_selectors(nodes: Sequence[ClusterNode], count: int) -> Labels:
    """Return node labels for `count` bundles; the first one is the learner's."""
    able = [node.id for node in nodes if node.can_learn]
    if len(able) == len(nodes):
        return None
    return [{"ray.io/node-id": f"in({','.join(able)})"}, *[{}] * (count - 1)]


def run_claims(
    nodes: Sequence[ClusterNode], config: Config, share: float = 1.0, spared: int = 0
) -> list[Bundle]:
    """Return the resource claims of a run: the learner's, then each env actor's.

    `share` is the fraction of the cluster that the run may claim. Without `--n-actors`,
    `spared` cores get no env actor.
    """
    flags, learning = config.placement, [node for node in nodes if node.can_learn]
    cpus = share * sum(node.has.get("CPU", 0.0) for node in nodes)
    gpus = share * sum(node.has.get("GPU", 0.0) for node in learning)
    n_actors = flags.n_actors or min(config.env.n_envs, max(1, int(cpus) - spared))
    learner_gpus = min(1.0, gpus) if flags.learner_gpus is None else flags.learner_gpus
    learner = {"CPU": _rounded(1.0 if cpus >= 2 else cpus / 2)}
    if learner_gpus:
        learner["GPU"] = learner_gpus
    free = {node.id: share * node.has.get("CPU", 0.0) for node in nodes}
    free[max(learning, key=lambda node: free[node.id]).id] -= learner["CPU"]
    actor = {"CPU": flags.actor_cpus or _even_share([*free.values()], n_actors)}
    return [learner, *[actor] * n_actors]


def single_claim(nodes: Sequence[ClusterNode], config: Config, share: float) -> Bundle:
    """Return the claim of a run in one process: at most the cores of one node."""
    learner, *_ = run_claims(nodes, config, share)
    cpus = [node.has.get("CPU", 0.0) for node in nodes if node.can_learn]
    return {**learner, "CPU": _rounded(min(share * sum(cpus), max(cpus)))}


def check_claims(nodes: Sequence[ClusterNode], bundles: Sequence[Bundle]) -> None:
    """Raise UserError if the claims exceed the cluster, or one exceeds every node.

    The first bundle is the learner's.
    """
    flags = {"CPU": "--actor-cpus or --n-actors", "GPU": "--learner-gpus"}
    for kind, flag in flags.items():
        needs = [bundle.get(kind, 0.0) for bundle in bundles]
        has = [node.has.get(kind, 0.0) for node in nodes]
        total, available = sum(needs), sum(has)
        if total > available + len(needs) * _STEP:
            raise UserError(
                f"The run needs {total:g} {kind}s and the cluster has {available:g}: "
                f"lower {flag}, or add nodes."
            )
        if max(needs) > max(has, default=0.0):
            raise UserError(
                f"One part of the run needs {max(needs):g} {kind}s and the largest "
                f"node has {max(has):g}: lower {flag}."
            )
        most = max(node.has.get(kind, 0.0) for node in nodes if node.can_learn)
        if needs[0] > most:
            raise UserError(
                f"The learner needs {needs[0]:g} {kind}s, and the largest node with "
                f"TensorFlow has {most:g}: install xagents-ray, not xagents-ray-actor, "
                "on larger ones."
            )


class RunParts:
    """Claims all resources of a run at once, and creates its actors.

    A trial of a sweep already has its claim.

    Args:
        calls: Ray calls that wait for the claim.
        run: the run whose actors are created.
        definitions: definitions of environments that other processes lack.
        has_claim: whether this process has a placement group for the run.
    Attributes:
        n_actors: number of env actors.
        shares: number of environments of each env actor.
    Raises:
        UserError: the cluster lacks a resource.
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
        self._is_own = not has_claim
        if self._is_own:
            nodes = nodes_of(self._ray)
            # With rollouts ahead, a multithreaded learner runs at the same time.
            is_wide = run.config.pipeline.ahead > 0 and run.learner_cores > 1
            bundles = run_claims(nodes, run.config, spared=int(is_wide))
            check_claims(nodes, bundles)
            self._group = self._claim(calls, nodes, bundles)
            cpus = sum(node.has.get("CPU", 0.0) for node in nodes)
        else:
            self._group = self._ray.util.get_current_placement_group()
            bundles = self._group.bundle_specs
            cpus = sum(bundle["CPU"] for bundle in bundles)
        self.n_actors = len(bundles) - 1
        self._threads = max(1, int(cpus) // self.n_actors)
        self._learner_gpus = bundles[0].get("GPU", 0.0)
        self._actor_cpus = bundles[1]["CPU"]
        bounds = np.linspace(0, run.config.env.n_envs, self.n_actors + 1)
        self._bounds: list[int] = bounds.astype(int).tolist()
        self.shares = [end - first for first, end in itertools.pairwise(self._bounds)]
        self._placed: set[int] = set()
        # Ray doesn't hide GPUs itself. Without GPUs, skip the slow runtime environment.
        has_gpus = any(node["Resources"].get("GPU") for node in _alive(self._ray))
        hidden = {"runtime_env": {"env_vars": {"CUDA_VISIBLE_DEVICES": "-1"}}}
        self._blind = hidden if has_gpus else {}
        self._anywhere = {"num_cpus": 0, "scheduling_strategy": "SPREAD", **self._blind}

    def learner(self) -> Any:
        options = self._within(0, num_gpus=self._learner_gpus)
        if self._learner_gpus == 0:
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
        share, first = self.shares[number], self._bounds[number]
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
        if self._is_own:
            self._ray.util.remove_placement_group(self._group)

    def _keep(self, part: str, number: int, actor: Any) -> Any:
        self._made[part, number] = actor
        return actor

    def _within(self, bundle: int, **claims: float) -> dict[str, Any]:
        strategies = self._ray.util.scheduling_strategies
        strategy = strategies.PlacementGroupSchedulingStrategy(
            self._group, placement_group_bundle_index=bundle
        )
        return {"num_cpus": 0, "scheduling_strategy": strategy, **claims}

    def _claim(
        self, calls: RayCalls, nodes: Sequence[ClusterNode], bundles: list[Bundle]
    ) -> Any:
        """Return a placement group of the bundles once it is ready."""
        labels = label_selectors(nodes, len(bundles))
        group = self._ray.util.placement_group(
            bundles, strategy="SPREAD", bundle_label_selector=labels
        )
        try:
            self._wait(calls, group, bundles)
        except BaseException:
            self._ray.util.remove_placement_group(group)
            raise
        return group

    def _wait(self, calls: RayCalls, group: Any, bundles: list[Bundle]) -> None:
        """Wait until a placement group is ready."""
        began = time.monotonic()
        while not group.wait(1):  # accepts whole seconds only
            if calls.shutdown_requested():
                raise Stopped
            if time.monotonic() - began > _READY_SECONDS:
                free = self._ray.available_resources()
                kinds = {kind for bundle in bundles for kind in bundle}
                found = " and ".join(f"{free.get(k, 0):g} {k}s" for k in sorted(kinds))
                raise UserError(
                    f"The cluster has {found} free after {_READY_SECONDS:.0f} s and no "
                    "room on its nodes for all parts of the run: wait for other jobs, "
                    "or lower --actor-cpus, --n-actors or --learner-gpus."
                )


def _alive(ray: Any) -> list[Any]:
    return [node for node in ray.nodes() if node["Alive"]]


def _rounded(amount: float) -> float:
    """Round an amount down to one that Ray can represent."""
    return math.floor(amount / _STEP) * _STEP


def _even_share(free: Sequence[float], n_actors: int) -> float:
    """Return the largest share of a core that every env actor can get."""
    shares = {min(1.0, cores / n) for cores in free for n in range(1, n_actors + 1)}
    for share in sorted(shares, reverse=True):
        rounded = _rounded(share)
        if rounded >= _STEP:
            fit = sum(int(cores / rounded + 1e-6) for cores in free)
            if fit >= n_actors:
                return rounded
    return _STEP
