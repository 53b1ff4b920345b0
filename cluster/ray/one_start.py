"""Starts an own Ray once and ends it, in a process of its own."""

import time

from xagents_ray.cluster.ray import connection
from xagents_ray.core.signals import Signals
from xagents_ray.settings.resources import PlacementConfig

_STORE_BYTES = 100_000_000


def seconds_of_one_start() -> float:
    """Return the seconds in which Ray starts on this machine, as a run starts it."""
    placement, began = PlacementConfig(address="local"), time.monotonic()
    ray = connection.start_ray(placement, _STORE_BYTES, Signals(), lambda line: None)
    seconds = time.monotonic() - began
    connection.leave_ray(ray)
    return seconds
