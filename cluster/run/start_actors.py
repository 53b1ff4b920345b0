"""Starts the env actors of a run."""

from xagents_ray.cluster.ray.calls import RayCalls
from xagents_ray.cluster.run.actor_pool import ActorPool
from xagents_ray.cluster.run.placement import RunParts
from xagents_ray.settings.resources import PlacementConfig


def start_pool(calls: RayCalls, config: PlacementConfig, parts: RunParts) -> ActorPool:
    """Return the pool of a run's env actors, which are starting."""
    return ActorPool(
        calls,
        parts.shares.envs,
        parts.env_actor,
        config.max_actor_restarts,
        # A replacement must not wait for cores that the user didn't ask for.
        None if config.actor_cpus else parts.env_actor_elsewhere,
        parts.lost_claims,
    )
