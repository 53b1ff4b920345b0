"""Which cores and GPUs the parts of a run claim, and where they may lie."""

import math
import time
from collections.abc import Sequence
from typing import Any

from xagents_ray.cluster.calls import Calls
from xagents_ray.config import Config
from xagents_ray.errors import Stopped, UserError

_READY_SECONDS = 60.0
_STEP = 1e-4
"""Ray counts resources in ten-thousandths."""


class Placement:
    """Claims what a run needs, all at once, and refuses what no cluster node has.

    Args:
        calls: waits for it.
        config: of the run.
    Attributes:
        n_actors: env actors.
        threads: cores that the environments of one may use.
    Raises:
        UserError: the cluster lacks something.
    """

    def __init__(self, calls: Calls, config: Config) -> None:
        self._ray, flags = calls.ray, config.placement
        has = self._ray.cluster_resources()
        cpus, self._gpus = has.get("CPU", 0.0), has.get("GPU", 0.0)
        n_envs = config.env.n_envs
        self.n_actors = flags.n_actors or min(n_envs, max(1, int(cpus)))
        gpus = flags.learner_gpus
        self._learner_gpus = min(1.0, self._gpus) if gpus is None else gpus
        learner_cpus = 1.0 if cpus >= 2 else cpus / 2
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        free = sorted(node.get("CPU", 0.0) for node in nodes)
        free[-1] -= learner_cpus
        self._actor_cpus = flags.actor_cpus or _even_share(free, self.n_actors)
        # A replacement must not wait for a share that the user didn't ask for.
        self._is_fixed = flags.actor_cpus is not None
        self.threads = max(1, int(cpus) // self.n_actors)
        learner = {"CPU": learner_cpus}
        if self._learner_gpus:
            learner["GPU"] = self._learner_gpus
        bundles = [learner, *[{"CPU": self._actor_cpus}] * self.n_actors]
        self._check(bundles, has, nodes)
        self._group = self._claim(calls, bundles)

    def learner(self) -> dict[str, Any]:
        """Return the options of the learner's actor."""
        options = self._within(0, num_gpus=self._learner_gpus)
        if self._learner_gpus == 0:
            options |= self._blind()
        return options

    def env_actor(self, number: int, is_first: bool) -> dict[str, Any]:
        """Return the options of an env actor.

        Args:
            number: from 0.
            is_first: it replaces none.
        """
        if is_first or self._is_fixed:
            claimed = self._within(number + 1, num_cpus=self._actor_cpus)
        else:
            claimed = {"num_cpus": 0, "scheduling_strategy": "SPREAD"}
        return claimed | self._blind()

    def service(self) -> dict[str, Any]:
        """Return the options of a part that mostly waits."""
        return {"num_cpus": 0, "scheduling_strategy": "SPREAD", **self._blind()}

    def release(self) -> None:
        """Give everything back."""
        self._ray.util.remove_placement_group(self._group)

    def _within(self, bundle: int, **claims: float) -> dict[str, Any]:
        strategies = self._ray.util.scheduling_strategies
        strategy = strategies.PlacementGroupSchedulingStrategy(
            self._group, placement_group_bundle_index=bundle
        )
        return {"num_cpus": 0, "scheduling_strategy": strategy, **claims}

    def _blind(self) -> dict[str, Any]:
        """Return the option that hides GPUs; Ray doesn't hide them by itself."""
        if not self._gpus:
            return {}  # an environment of its own would slow the start
        return {"runtime_env": {"env_vars": {"CUDA_VISIBLE_DEVICES": "-1"}}}

    def _check(
        self,
        bundles: list[dict[str, float]],
        has: dict[str, float],
        nodes: list[dict[str, float]],
    ) -> None:
        """Raise UserError when all nodes together, or each alone, lack something."""
        flags = {"CPU": "--actor-cpus or --n-actors", "GPU": "--learner-gpus"}
        for kind, flag in flags.items():
            needs = [bundle.get(kind, 0.0) for bundle in bundles]
            largest = max((node.get(kind, 0.0) for node in nodes), default=0.0)
            there, total = has.get(kind, 0.0), sum(needs)
            if total > there + len(needs) * _STEP:
                raise UserError(
                    f"The run needs {total:g} {kind}s and the cluster has {there:g}: "
                    f"lower {flag}, or add nodes."
                )
            if max(needs) > largest:
                raise UserError(
                    f"One part of the run needs {max(needs):g} {kind}s and the largest "
                    f"node has {largest:g}: lower {flag}."
                )

    def _claim(self, calls: Calls, bundles: list[dict[str, float]]) -> Any:
        """Return a placement group of the bundles once it is there."""
        group = self._ray.util.placement_group(bundles, strategy="SPREAD")
        began = time.monotonic()
        while not group.wait(1):  # it takes whole seconds
            if calls.is_pressing():
                raise Stopped
            if time.monotonic() - began > _READY_SECONDS:
                free = self._ray.available_resources()
                self._ray.util.remove_placement_group(group)
                kinds = {kind for bundle in bundles for kind in bundle}
                found = " and ".join(f"{free.get(k, 0):g} {k}s" for k in sorted(kinds))
                raise UserError(
                    f"The cluster has {found} free after {_READY_SECONDS:.0f} s and no "
                    "room on its nodes for all parts of the run: wait for other jobs, "
                    "or lower --actor-cpus, --n-actors or --learner-gpus."
                )
        return group


def _even_share(free: Sequence[float], n_actors: int) -> float:
    """Return the most cores that each of so many env actors can have, 1 at most.

    Args:
        free: cores of each node, without the learner's.
        n_actors: which must all fit, none across two nodes.
    """
    shares = {min(1.0, cores / n) for cores in free for n in range(1, n_actors + 1)}
    for share in sorted(shares, reverse=True):
        rounded = math.floor(share / _STEP) * _STEP
        if rounded >= _STEP:
            fit = sum(int(cores / rounded + 1e-6) for cores in free)
            if fit >= n_actors:
                return rounded
    return _STEP
