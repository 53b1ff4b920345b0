"""Checks of the cores of a machine or cluster, and of how busy a run keeps them."""

from typing import TYPE_CHECKING

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.commands.doctor.checks import Check, warning_check
from xagents_ray.core.env_shares import EnvShares, best_actor_count
from xagents_ray.core.errors import pluralize
from xagents_ray.core.process import available_cores
from xagents_ray.settings.config import Config

if TYPE_CHECKING:
    from xagents_ray.cluster.run.preflight import ClusterFacts

_BUSY = 0.9
"""Smallest share of busy cores that is no reason for a warning."""
_FEW_ENVS = 8
"""Environments of an env actor below which a GPU that learns from images waits."""


def divide_envs(
    config: Config, run: RunSpec | None, cluster: "ClusterFacts | None", has_gpu: bool
) -> EnvShares:
    """Return how a run would divide its environments among the free cores.

    Args:
        config: settings of the run.
        run: the run; None if its network is unknown, so that it spares no core.
        cluster: facts of the cluster that it would join; None for this machine.
        has_gpu: whether there is a GPU for the learner.
    """
    placement, n_envs = config.placement, config.env.n_envs
    cores = available_cores() if cluster is None else max(1, cluster.free_cpus)
    if placement.local:
        return EnvShares.of(n_envs, 1, cores)
    on_gpu = _learns_on_gpu(config, has_gpu)
    if run is not None and not on_gpu and cores > run.spared_cores:
        cores -= run.spared_cores
    if placement.follows_nodes:
        count = min(n_envs, max(1, int(cores)))
    else:
        count = placement.actor_count or best_actor_count(n_envs, cores)
    return EnvShares.of(n_envs, count, cores)


def check_cores(config: Config, load: float, shares: EnvShares) -> Check:
    """Compare the number of cores with the env actors and the current load."""
    count, actors = available_cores(), config.placement.actor_count or 0
    found = f"{count} cores here, load {load:.1f} before this check"
    if remedy := _remedy(config, shares):
        envs = f"{pluralize(len(shares.envs), 'env actor')}, {shares}"
        busy = f"keep {shares.busy_share:.0%} of {pluralize(int(shares.cores), 'core')}"
        return warning_check(
            "cores", f"{found}; {envs} environments, {busy} busy", remedy
        )
    if config.placement.address is not None:
        return Check("cores", found)
    best = best_actor_count(config.env.n_envs, shares.cores)
    if actors > max(count, best):
        return warning_check(
            "cores",
            f"{found}, {pluralize(actors, 'env actor')}",
            f"Lower --n-actors to {best}: more env actors than cores take turns.",
        )
    if load >= count:
        return warning_check(
            "cores",
            found,
            "Stop other processes if you can: they keep the cores busy, slow the run "
            "down, and make the times above longer.",
        )
    return Check("cores", found)


def check_gpu_feed(
    run: RunSpec | None, has_gpu: bool, shares: EnvShares
) -> Check | None:
    """Return a warning if few environments feed a GPU that learns from images."""
    if run is None or not (run.spec.is_image and _learns_on_gpu(run.config, has_gpu)):
        return None
    if (fewest := min(shares.envs)) >= _FEW_ENVS:
        return None
    n_envs = _FEW_ENVS * max(len(shares.envs), int(shares.cores))
    return warning_check(
        "env actors",
        f"{pluralize(fewest, 'environment')} per env actor, and a GPU that learns",
        f"Raise --n-envs to {n_envs}, {_FEW_ENVS} per env actor: the GPU waits for "
        "fewer. --profile says what share of the time it learns.",
    )


def _learns_on_gpu(config: Config, has_gpu: bool) -> bool:
    return has_gpu and config.placement.learner_gpus != 0


def _remedy(config: Config, shares: EnvShares) -> str:
    """Return what keeps more cores busy; "" if they are, or if it is unknown."""
    # The environments of one process are stepped in parallel with `async`.
    is_unknown = config.placement.local or config.env.vectorization == "async"
    if is_unknown or shares.busy_share >= _BUSY:
        return ""
    n_envs, cores = config.env.n_envs, shares.cores
    best = EnvShares.of(n_envs, best_actor_count(n_envs, cores), cores)
    if best.busy_share > shares.busy_share:
        return (
            f"Leave out --n-actors: {len(best.envs)} env actors keep "
            f"{best.busy_share:.0%} of the cores busy, as all wait for the largest "
            "share of environments."
        )
    return f"Raise --n-envs to {int(cores)}: each core steps one environment at a time."


def with_room(row: Check, cluster: "ClusterFacts", config: Config) -> Check:
    """Return the cluster's row, as a warning if others hold what the run needs."""
    flags = config.placement
    needed = (flags.actor_count or 1) * (flags.actor_cpus or 0.0)
    if cluster.free_cpus >= max(1.0, needed) or not cluster.cpus >= needed:
        return row
    change = ", or lower --n-actors or --actor-cpus" if needed else ""
    remedy = f"Wait for others{change}: a run claims what is free, and ends without it."
    return warning_check(row.name, row.found, remedy)
