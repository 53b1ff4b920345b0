"""What a run claims before its actors start, and where Ray places each of them."""

import itertools
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.cluster.ray.calls import RayCalls
from xagents_ray.cluster.run.claims import (
    Labels,
    NoRoomError,
    acting_cores,
    check_claims,
    claim_with_memory,
    label_selectors,
    learners_node,
    run_claims,
    unclaimed,
)
from xagents_ray.cluster.run.holders import assigned_resources, describe_holders
from xagents_ray.cluster.run.nodes import (
    Bundle,
    ClusterNode,
    amount_of,
    has_memory,
    held_amount,
    nodes_of,
    nodes_of_group,
)
from xagents_ray.cluster.run.preflight import learner_bytes
from xagents_ray.core.errors import Stopped, UserError

Nodes = Sequence[ClusterNode]
_READY_SECONDS = 60.0
_FIRST_TRY_SECONDS = 2.0
"""Time limit of the first claim; each further one waits twice as long. What is free is
looked up before each, as another run may have claimed it in between."""
_RELEASE_SECONDS = 1.5
"""Time that Ray needs to show what a run that has just ended held as free."""
_CONSIDERABLE = 0.1
"""Amount of a resource held by others that is worth a note."""
FIXED_CLAIMS = (
    "With --n-actors auto a run claims cores that become free, and a sweep's trial, or "
    "a Ray task or actor, has fixed ones: give --n-actors a number, or leave it out."
)
_groups_made = itertools.count(1)


@dataclass(frozen=True)
class Reservation:
    """The resources of a run.

    Attributes:
        ray: the module `ray`.
        claims: claims of the learner and then of each env actor.
        cores: cores that the env actors share.
        group: the placement group that holds the claims; None without one.
        bundles: index of each part's bundle in the group.
        is_own: whether the run made the group.
        notes: notes for the user, one sentence each.
        visible_gpus: value of CUDA_VISIBLE_DEVICES for the learner; None leaves it to
            Ray.
    """

    ray: Any
    claims: Sequence[Bundle]
    cores: float
    group: Any
    bundles: Sequence[int]
    is_own: bool = False
    notes: tuple[str, ...] = ()
    visible_gpus: str | None = None

    def strategy(self, part: int) -> Any:
        """Return Ray's scheduling strategy for a part of the run."""
        bundle = 0 if self.group is None else self.bundles[part]
        return strategy_within(self.ray, self.group, bundle)

    def release(self) -> None:
        """Release what the run has claimed itself."""
        if self.is_own:
            self.ray.util.remove_placement_group(self.group)


def strategy_within(ray: Any, group: Any, bundle: int) -> Any:
    """Return Ray's scheduling strategy for a bundle; on this node without a group."""
    strategies = ray.util.scheduling_strategies
    if group is None:
        node = ray.get_runtime_context().get_node_id()
        return strategies.NodeAffinitySchedulingStrategy(node, soft=False)
    return strategies.PlacementGroupSchedulingStrategy(
        group, placement_group_bundle_index=bundle
    )


def reserve(calls: RayCalls, run: RunSpec, has_claim: bool) -> Reservation:
    """Claim a run's resources from what is free.

    Args:
        calls: Ray calls that wait for the claim.
        run: the run.
        has_claim: whether the placement group of this process has exactly the run's
            claims, as that of a sweep's trial does.
    Raises:
        UserError: the cluster lacks a resource, or others hold it.
        Stopped: a shutdown was requested.
    """
    ray = calls.ray
    group = ray.util.get_current_placement_group()
    follows = run.config.placement.follows_nodes
    if follows and (has_claim or group is not None):
        raise UserError(FIXED_CLAIMS)
    if has_claim:
        bundles = group.bundle_specs
        cores = sum(amount_of(bundle, "CPU") for bundle in bundles)
        return Reservation(ray, bundles, cores, group, range(len(bundles)))
    try:
        if group is not None:
            return _within(calls, group, run)
        return _claim(calls, run)
    except NoRoomError as error:
        own = assigned_resources(ray)
        if error.kind == "CPU" and amount_of(own, "CPU") > 0:
            if follows:
                raise UserError(FIXED_CLAIMS) from None
            return _on_own_cores(ray, run, own)
        raise with_holders(ray, error, group) from None


def settled(calls: RayCalls, find: Callable[[], list[ClusterNode]]) -> Nodes:
    """Return nodes, looked up twice if something isn't free at first.

    Raises:
        Stopped: a shutdown was requested.
    """
    nodes = find()
    if all(held_amount(nodes, kind) < _CONSIDERABLE for kind in ("CPU", "GPU")):
        return nodes
    if calls.shutdown_requested():
        raise Stopped
    time.sleep(_RELEASE_SECONDS)
    return find()


def _within(calls: RayCalls, group: Any, run: RunSpec) -> Reservation:
    """Return a reservation of the free bundles of the current placement group."""
    ray = calls.ray
    nodes = settled(calls, lambda: nodes_of_group(ray, group))
    claims = run_claims(nodes, run.config, spared=run.spared_cores)
    check_claims(nodes, claims)
    learner, *actors = claims
    home = learners_node(nodes, learner)
    free = {int(node.id): node.free_cpus for node in nodes}
    bundles = [int(home.id)]
    free[bundles[0]] -= amount_of(learner, "CPU")
    for claim in actors:
        roomiest = max(free, key=free.__getitem__)
        free[roomiest] -= claim["CPU"]
        bundles.append(roomiest)
    cores = acting_cores(nodes, learner, spared=run.spared_cores)
    notes = (f"Training on {_cores(cores)} of this process's placement group.",)
    return Reservation(ray, claims, cores, group, bundles, notes=notes)


def _on_own_cores(ray: Any, run: RunSpec, own: Bundle) -> Reservation:
    """Return a reservation of what this process holds, which only waits for the run.

    A trial of Ray Tune has no more than that by default.
    """
    gpus = amount_of(own, "GPU")
    here = ClusterNode("here", own, own)
    learner, *actors = run_claims([here], run.config, spared=run.spared_cores)
    check_claims([here], [learner, *actors])
    cores = acting_cores([here], learner, spared=run.spared_cores)
    nothing: Bundle = {"CPU": 0.0}
    note = (
        f"Training on what this Ray task or actor holds, {_cores(cores)}: give it more "
        "(num_cpus, or tune.with_resources) to train on more."
    )
    return Reservation(
        ray,
        [nothing] * (1 + len(actors)),
        cores,
        None,
        [],
        notes=(note,),
        visible_gpus=os.environ.get("CUDA_VISIBLE_DEVICES") if gpus else None,
    )


def _claim(calls: RayCalls, run: RunSpec) -> Reservation:
    """Return a reservation by a placement group of the run's own."""
    ray, began, seconds = calls.ray, time.monotonic(), _FIRST_TRY_SECONDS
    while True:
        nodes = settled(calls, lambda: nodes_of(ray))
        bundles = run_claims(nodes, run.config, spared=run.spared_cores)
        check_claims(nodes, bundles)
        notes = _notes(ray, nodes, run, bundles[0])  # before it is a holder itself
        needed = learner_bytes(run) if has_memory(nodes) else 0
        needed *= run.config.placement.n_learners
        learner = claim_with_memory(nodes, bundles[0], needed)
        if (claimed := amount_of(learner, "memory")) < needed:
            notes = (*notes, unclaimed("learner", needed, claimed))
        if seconds == _FIRST_TRY_SECONDS:
            # Only once: no run may wait for memory that it could do without.
            bundles[0] = learner
        labels = label_selectors(nodes, len(bundles))
        group = claimed_group(calls, bundles, group_name(run), seconds, labels)
        if group is not None:
            cores = acting_cores(nodes, bundles[0], spared=run.spared_cores)
            parts = range(len(bundles))
            return Reservation(ray, bundles, cores, group, parts, True, notes)
        if time.monotonic() - began >= _READY_SECONDS:
            raise UserError(
                f"The cluster has no room on its nodes for all parts of the run after "
                f"{_READY_SECONDS:.0f} s: wait for other jobs, or lower --actor-cpus, "
                "--n-actors or --learner-gpus."
            )
        seconds *= 2


def claimed_group(
    calls: RayCalls,
    bundles: Sequence[Bundle],
    name: str,
    seconds: float,
    labels: Labels = None,
) -> Any:
    """Return a new placement group; None if Ray finds no room within some seconds.

    Args:
        calls: Ray calls that wait for it.
        bundles: resources of each bundle.
        name: name that tells others who holds the resources.
        seconds: time limit.
        labels: node labels that each bundle requires.
    Raises:
        Stopped: a shutdown was requested.
    """
    util = calls.ray.util
    group = util.placement_group(
        bundles, strategy="SPREAD", name=name, bundle_label_selector=labels
    )
    try:
        if _wait(calls, group, seconds):
            return group
    except BaseException:
        util.remove_placement_group(group)
        raise
    util.remove_placement_group(group)
    return None


def _wait(calls: RayCalls, group: Any, seconds: float) -> bool:
    """Return whether a placement group is ready within some seconds."""
    until = time.monotonic() + seconds
    while not group.wait(1):  # accepts whole seconds only
        if calls.shutdown_requested():
            raise Stopped
        if time.monotonic() >= until:
            return False
    return True


def _cores(number: float) -> str:
    return f"{number:.3g} core{'' if number == 1 else 's'}"


def group_name(run: RunSpec) -> str:
    """Return a new name of a placement group, which tells others who holds it."""
    process = f"process {os.getpid()} on {socket.gethostname()}"
    made = f"{run.algorithm.name} on {run.config.env.env}"
    return f"xagents-ray {made} ({process}, claim {next(_groups_made)})"


def _notes(ray: Any, nodes: Nodes, run: RunSpec, learner: Bundle) -> tuple[str, ...]:
    """Return notes on what others held when the run claimed what was free."""
    notes = []
    for kind in ("CPU", "GPU"):
        if held_amount(nodes, kind) < _CONSIDERABLE:
            continue
        has = sum(amount_of(node.has, kind) for node in nodes)
        free = sum(amount_of(node.free, kind) for node in nodes)
        holders = describe_holders(ray, nodes, kind)
        if kind == "CPU":
            notes.append(f"Training on {free:.3g} of {_cores(has)}: {holders}.")
        elif "GPU" not in learner and run.config.placement.learner_gpus is None:
            notes.append(f"No GPU is free, so the learner uses cores: {holders}.")
    return tuple(notes)


def with_holders(ray: Any, error: NoRoomError, group: Any = None) -> UserError:
    """Return an error that also says who holds what is missing.

    `group` is the placement group that lacks it; None if the cluster does.
    """
    nodes = nodes_of(ray) if group is None else nodes_of_group(ray, group)
    holders = describe_holders(ray, nodes, error.kind, in_group=group is not None)
    if not holders:
        return error
    remedy = error.remedy
    if group is not None:
        remedy = f"{remedy.removesuffix(', or add nodes')}, or enlarge the group"
    return UserError(f"{error.what}, as {holders}: {remedy}.")
