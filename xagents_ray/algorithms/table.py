"""The table of algorithms: one import for each."""

from xagents_ray.algorithms import a2c, acer, ddpg, dqn, ppo, td3, trpo  # noqa: F401
from xagents_ray.algorithms.row import ALGORITHMS, Algorithm
from xagents_ray.core.errors import UserError, near

__all__ = ["ALGORITHMS", "find"]


def find(name: str) -> Algorithm:
    """Return the row of this name; UserError with near names when there is none."""
    if name not in ALGORITHMS:
        hint = near(name, ALGORITHMS) or f"; known: {', '.join(ALGORITHMS)}."
        raise UserError(f"There is no agent {name!r}{hint}")
    return ALGORITHMS[name]
