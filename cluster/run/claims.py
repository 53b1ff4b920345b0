"""Resource claims of a run: how much of what is free its parts get."""

import math
from collections.abc import Sequence

from xagents_ray.cluster.run.nodes import Bundle, ClusterNode, amount_of
from xagents_ray.core.env_shares import best_actor_count
from xagents_ray.core.errors import UserError
from xagents_ray.settings.config import Config
from xagents_ray.settings.resources import PlacementConfig

_STEP = 1e-4
"""Ray counts resources in ten-thousandths."""
_LEAST_CPUS = 0.1
"""Free cores below which a learner and an env actor are not worth starting."""

Labels = list[dict[str, str]] | None
"""Node labels that each bundle requires; None if any node will do."""
_FLAGS = {"CPU": "--actor-cpus or --n-actors", "GPU": "--learner-gpus"}


class NoRoomError(UserError):
    """The cluster has enough of a resource, but not enough of it is free.

    Args:
        what: description of what is missing, as a clause.
        remedy: advice to the user, as a clause.
        kind: name of the resource.
    """

    def __init__(
        self,
        what: str,
        remedy: str = "wait, or add nodes",
        kind: str = "CPU",
    ) -> None:
        super().__init__(f"{what}: {remedy}.")
        self.what, self.remedy, self.kind = what, remedy, kind


def run_claims(
    nodes: Sequence[ClusterNode], config: Config, share: float = 1.0, spared: int = 0
) -> list[Bundle]:
    """Return the resource claims of a run: the learner's, then each env actor's.

    `share` is the fraction of the free resources that the run may claim. `spared` is
    as in `acting_cores`.

    Raises:
        NoRoomError: there is no core for even one env actor.
    """
    flags = config.placement
    learner = _learner_claim(nodes, flags, share)
    free = {node.id: share * node.free_cpus for node in nodes}
    if learner.get("CPU"):
        free[learners_node(nodes, learner).id] -= learner["CPU"]
    n_actors = flags.actor_count
    if n_actors is None:
        most = None
        if flags.actor_cpus is not None:
            most = max(1, count_fitting([*free.values()], flags.actor_cpus))
        cores = acting_cores(nodes, learner, share, spared)
        if flags.follows_nodes:
            n_actors = max(1, min(config.env.n_envs, int(cores), most or int(cores)))
        else:
            n_actors = best_actor_count(config.env.n_envs, cores, most)
    cpus = flags.actor_cpus or _even_share([*free.values()], n_actors)
    return [learner, *[{"CPU": cpus}] * n_actors]


def acting_cores(
    nodes: Sequence[ClusterNode], learner: Bundle, share: float = 1.0, spared: int = 0
) -> float:
    """Return the number of cores on which env actors act.

    They use the learner's core too, which is idle while they act. Only of a learner on
    CPUs that works at the same time they leave `spared` cores.
    """
    cpus = share * sum(node.free_cpus for node in nodes)
    return cpus - spared if cpus >= 1 + spared and "GPU" not in learner else cpus


def _learner_claim(
    nodes: Sequence[ClusterNode], flags: PlacementConfig, share: float
) -> Bundle:
    """Return the claim of the learner, or of all learners, on one node."""
    free_cpus = sum(node.free_cpus for node in nodes)
    if free_cpus < _LEAST_CPUS:
        raise NoRoomError("No core is free for an env actor")
    able = [node for node in nodes if node.can_learn]
    if not able:
        raise NoRoomError("No core is free on a node with TensorFlow")
    count, gpus = flags.n_learners, flags.learner_gpus
    if gpus is None:
        free = [amount_of(node.free, "GPU") for node in able]
        gpus = _rounded(min(count, share * sum(free), max(free)))
        if count > 1 and _STEP <= gpus < count:
            raise NoRoomError(
                f"--n-learners {count} takes a GPU for each, and no node has as many "
                "free",
                "lower it, or add --learner-gpus 0 to learn on cores",
                kind="GPU",
            )
    else:
        gpus *= count
    learner = {"GPU": gpus} if gpus >= _STEP else {}
    most = learners_node(nodes, learner).free_cpus
    amount = _rounded(min(count, share * free_cpus / 2, most))
    if amount < _STEP and not learner:
        raise NoRoomError("No core is free on a node with TensorFlow")
    return {"CPU": amount, **learner} if amount >= _STEP else learner


def learners_node(nodes: Sequence[ClusterNode], learner: Bundle) -> ClusterNode:
    """Return the node with the most free cores where the learner's GPUs fit best."""
    able = [node for node in nodes if node.can_learn]
    gpus = amount_of(learner, "GPU")
    fitting = [node for node in able if amount_of(node.free, "GPU") >= gpus]
    return max(fitting or able, key=lambda node: node.free_cpus)


def single_claim(nodes: Sequence[ClusterNode], config: Config, share: float) -> Bundle:
    """Return the claim of a run in one process: at most the cores of one node."""
    learner, *_ = run_claims(nodes, config, share)
    cpus = [node.free_cpus for node in nodes if node.can_learn]
    return {**learner, "CPU": _rounded(min(share * sum(cpus), max(cpus)))}


def claim_with_memory(
    nodes: Sequence[ClusterNode], learner: Bundle, nbytes: int
) -> Bundle:
    """Return a learner's claim that includes memory, as far as its node has it free.

    Args:
        nodes: the nodes of the cluster.
        learner: the learner's claim.
        nbytes: size of the memory that it needs.
    """
    free = amount_of(learners_node(nodes, learner).free, "memory")
    amount = min(nbytes, int(free))
    return {**learner, "memory": amount} if amount > 0 else learner


def memory_claims(nodes: Sequence[ClusterNode], needs: Sequence[int]) -> list[int]:
    """Return the memory that each of several parts claims, in bytes.

    Each gets what it needs from the node with the most free memory, or what is free
    there if that is less; what runs on such a node today must not be refused.
    """
    free = [int(amount_of(node.free, "memory")) for node in nodes]
    claims = []
    for need in needs:
        most = max(range(len(free)), key=free.__getitem__)
        claims.append(min(need, free[most]))
        free[most] -= claims[-1]
    return claims


def unclaimed(part: str, needed: int, claimed: float) -> str:
    """Return a note on a part that claims less memory than it needs, in bytes."""
    remedy = "lower --buffer-max-size" if part == "replay" else "add nodes"
    return (
        f"The {part} needs about {needed / 2**30:.3g} GiB of memory, and Ray had "
        f"{claimed / 2**30:.3g} GiB free for it: {remedy}, or end other jobs."
    )


def check_claims(nodes: Sequence[ClusterNode], bundles: Sequence[Bundle]) -> None:
    """Raise UserError if the claims exceed the cluster, or one exceeds every node.

    The first bundle is the learner's.

    Raises:
        UserError: the cluster is too small.
        NoRoomError: it is large enough, and too little of it is free.
    """
    for kind, flag in _FLAGS.items():
        needs = [amount_of(bundle, kind) for bundle in bundles]
        has = [amount_of(node.has, kind) for node in nodes]
        total, available = sum(needs), sum(has)
        if total > available + len(needs) * _STEP:
            raise UserError(
                f"The run needs {total:g} {kind}s and the cluster has {available:g}: "
                f"lower {flag}, or add nodes."
            )
        if max(needs) > max(has):
            raise UserError(
                f"One part of the run needs {max(needs):g} {kind}s and the largest "
                f"node has {max(has):g}: lower {flag}."
            )
        most = max(amount_of(node.has, kind) for node in nodes if node.can_learn)
        if needs[0] > most:
            raise UserError(
                f"The learner needs {needs[0]:g} {kind}s, and the largest node with "
                f"TensorFlow has {most:g}: install xagents-ray, not xagents-ray-actor, "
                "on larger ones."
            )
        if not _fits(nodes, kind, needs):
            free = sum(amount_of(node.free, kind) for node in nodes)
            raise NoRoomError(
                f"The run needs {total:g} {kind}s, and {free:g} of {available:g} are "
                "free on nodes with room for its parts",
                f"wait, or lower {flag}",
                kind,
            )


def _fits(nodes: Sequence[ClusterNode], kind: str, needs: Sequence[float]) -> bool:
    """Return whether the learner's need and then equal ones fit on the nodes."""
    learner, *actors = needs
    free = [amount_of(node.free, kind) for node in nodes]
    if not actors or not actors[0]:
        able = [f for node, f in zip(nodes, free, strict=True) if node.can_learn]
        return learner <= max(able) + _STEP
    for home, node in enumerate(nodes):
        left = [f - learner * (n == home) for n, f in enumerate(free)]
        fits = left[home] >= -_STEP and count_fitting(left, actors[0]) >= len(actors)
        if node.can_learn and fits:
            return True
    return False


def label_selectors(nodes: Sequence[ClusterNode], count: int) -> Labels:
    """Return node labels for `count` bundles; the first one is the learner's."""
    able = [node.id for node in nodes if node.can_learn]
    if len(able) == len(nodes):
        return None
    return [{"ray.io/node-id": f"in({','.join(able)})"}, *[{}] * (count - 1)]


def _rounded(amount: float) -> float:
    """Round an amount down to one that Ray can represent."""
    return math.floor(amount / _STEP + 1e-6) * _STEP


def count_fitting(free: Sequence[float], cpus: float) -> int:
    """Return how many claims of some cores fit on nodes with these free cores."""
    return sum(max(0, int(cores / cpus + 1e-6)) for cores in free)


def _even_share(free: Sequence[float], n_actors: int) -> float:
    """Return the largest share of a core that every env actor can get."""
    shares = {min(1.0, cores / n) for cores in free for n in range(1, n_actors + 1)}
    for share in sorted(shares, reverse=True):
        rounded = _rounded(share)
        if rounded >= _STEP and count_fitting(free, rounded) >= n_actors:
            return rounded
    return _STEP
