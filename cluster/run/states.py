"""Fetches the states of a run's learner and env actors, which are to be saved."""

import time
from collections.abc import Sequence
from typing import Any

from xagents_ray.cluster.ray.calls import LateError, RayCalls
from xagents_ray.core.errors import Broken, Stopped
from xagents_ray.core.trajectory import Array

_STATE_SECONDS = 60.0


def fetch_learner(
    calls: RayCalls, reference: Any, patience: float
) -> dict[str, Array] | None:
    """Return the arrays of the learner's state; None if they are lost.

    Args:
        calls: Ray calls.
        reference: reference to the state.
        patience: seconds to wait despite a requested shutdown.
    Raises:
        Stopped: a shutdown was requested, and the state takes longer.
        Broken: Ray was lost while the state was on its way.
    """
    if calls.is_lost:
        calls.begin_saving()
    try:
        arrays: dict[str, Array] = calls.get(reference, _STATE_SECONDS, patience)
    except (calls.ray.exceptions.RayError, LateError):
        return None
    except Stopped:
        if not calls.is_lost:
            raise
    except Broken:
        if not calls.is_saving:
            raise
    else:
        return arrays
    return None


def fetch_actors(
    calls: RayCalls, references: Sequence[Any], began: float, patience: float
) -> list[Any]:
    """Return the states of all env actors; [] if one is lost or late.

    Args:
        calls: Ray calls.
        references: references to the states.
        began: time from which all limits count.
        patience: seconds to wait despite a requested shutdown.
    """
    actors = []
    try:
        for each in references:
            waited = time.monotonic() - began
            left = _STATE_SECONDS - waited
            actors.append(calls.get(each, left, patience - waited))
    except (calls.ray.exceptions.RayError, LateError, Broken, Stopped):
        return []
    return actors
