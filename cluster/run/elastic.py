"""Claims of env actors that follow the nodes of a cluster, for --n-actors auto."""

import importlib
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xagents_ray.cluster.ray.calls import RayCalls
from xagents_ray.cluster.ray.inquiry import inquire
from xagents_ray.cluster.run.claims import count_fitting
from xagents_ray.cluster.run.nodes import (
    Bundle,
    amount_of,
    free_by_node,
    live_nodes,
    lost_bundles,
)
from xagents_ray.core.env_shares import EnvShares
from xagents_ray.core.errors import pluralize

_LOOK_SECONDS = 5.0
"""Interval at which the nodes are looked at."""
_REST_SECONDS = 30.0
"""Shortest time between two changes, as each begins new episodes: nodes that come and
go quickly must not keep a run from learning."""
_GRANT_SECONDS = 30.0
"""Time in which Ray grants a claim on free cores, unless others were faster."""


class ActorClaim(NamedTuple):
    """The claim of one env actor: a bundle of a placement group."""

    group: Any  # None if the actor runs on what this process holds
    bundle: int
    cpus: float  # that the bundle holds
    cores: float  # that it adds to those which the env actors share


class ElasticClaims:
    """The claims of a run's env actors, of which some come and go with the nodes.

    Cores that become free are claimed, one per env actor, up to one env actor per
    environment. Ray itself moves a claim whose node is lost to cores that become free.

    Args:
        calls: Ray calls, whose log announces the changes.
        claims: claims that the run has at its start.
        n_envs: number of environments of the run.
        cpus: number of cores that each further claim holds.
        learner: claim of the learner.
        request: function that tells the autoscaler what the run could use.
        name: function that returns a new name for a placement group; Ray accepts each
            name once.
    Attributes:
        claims: claims of the present env actors, by their numbers.
    """

    def __init__(
        self,
        calls: RayCalls,
        claims: Sequence[ActorClaim],
        n_envs: int,
        cpus: float,
        learner: Bundle,
        request: Callable[[list[Bundle]], None],
        name: Callable[[], str],
    ) -> None:
        self._calls, self._ray, self.claims = calls, calls.ray, [*claims]
        self._n_envs, self._cpus = n_envs, cpus
        self._request, self._name = request, name
        self._all = [*claims]  # also those whose nodes are lost
        self._groups: list[Any] = []  # placement groups of further claims
        self._pending: Any = None  # placement group that Ray hasn't granted yet
        self._asked_at = self._looked_at = self._changed_at = time.monotonic()
        request([learner, *[{"CPU": cpus}] * n_envs])

    @property
    def cores(self) -> float:
        """Number of cores that the env actors share."""
        return sum(claim.cores for claim in self.claims)

    def follow(self) -> bool:
        """Look at the nodes if it is time to; return whether `claims` have changed."""
        now = time.monotonic()
        if now - self._looked_at < _LOOK_SECONDS:
            return False
        self._looked_at = now
        lost = inquire(self._calls, lambda: self._look(now))
        live = [claim for n, claim in enumerate(self._all) if n not in lost]
        if not live or live == self.claims or now - self._changed_at < _REST_SECONDS:
            return False
        self._announce(live)
        self.claims, self._changed_at = live, now
        return True

    def _look(self, now: float) -> set[int]:
        """Take and make claims; return the numbers of those that are lost."""
        self._take_granted(now)
        self._claim_more(now)
        return lost_claims(self._ray, self._all)

    def release(self) -> None:
        """Release the further claims, and take back what the autoscaler was told."""
        for group in (*self._groups, self._pending):
            if group is not None:
                self._ray.util.remove_placement_group(group)
        self._request([])

    def _claim_more(self, now: float) -> None:
        """Claim cores that are free, if the run could use them."""
        wanted = self._n_envs - len(self._all)
        if self._pending is not None or wanted <= 0:
            return
        free, alive = free_by_node(self._ray), live_nodes(self._ray)
        cores = [amount_of(free.get(node["NodeID"], {}), "CPU") for node in alive]
        if count := min(wanted, count_fitting(cores, self._cpus)):
            self._pending = self._ray.util.placement_group(
                [{"CPU": self._cpus}] * count,
                strategy="SPREAD",
                name=self._name(),
            )
            self._asked_at = now

    def _take_granted(self, now: float) -> None:
        """Add the claims that Ray has granted; withdraw those that come too late."""
        group = self._pending
        if group is None:
            return
        table = self._ray.util.placement_group_table(group)
        if table["state"] == "CREATED":
            numbers = range(len(table["bundles"]))
            self._all += [ActorClaim(group, n, self._cpus, self._cpus) for n in numbers]
            self._groups.append(group)
        elif now - self._asked_at > _GRANT_SECONDS:
            self._ray.util.remove_placement_group(group)
        else:
            return
        self._pending = None

    def _announce(self, live: Sequence[ActorClaim]) -> None:
        changes = []
        if joined := sum(claim not in self.claims for claim in live):
            changes.append(f"{pluralize(joined, 'env actor')} joined")
        if left := sum(claim not in live for claim in self.claims):
            changes.append(f"{pluralize(left, 'env actor')} left with lost nodes")
        sizes = {*EnvShares.of(self._n_envs, len(live), self.cores).envs}
        each = " or ".join(map(str, sorted(sizes)))
        self._calls.log.warn(
            f"{', '.join(changes)}: {pluralize(len(live), 'env actor')}, {each} "
            f"environment{'s' * (sizes != {1})} each, all of which begin new episodes; "
            "the run isn't reproducible"
        )


def lost_claims(ray: Any, claims: Sequence[ActorClaim]) -> set[int]:
    """Return the numbers of the claims that are not on a live node."""
    found: set[int] = set()
    for group in {claim.group for claim in claims} - {None}:
        own = {
            n: claim.bundle for n, claim in enumerate(claims) if claim.group is group
        }
        lost = lost_bundles(ray, group, own.values())
        found |= {number for number, bundle in own.items() if bundle in lost}
    return found


def request_cores(bundles: list[Bundle]) -> None:
    """Tell Ray's autoscaler, if there is one, to have room for bundles."""
    sdk = importlib.import_module("ray.autoscaler.sdk")
    sdk.request_resources(bundles=bundles)
