"""The agent classes of xagents, by name."""

import functools
from pathlib import Path
from typing import Any

import xagents_ray
from xagents_ray.compat.agent import CompatAgent
from xagents_ray.extend import ALGORITHMS, Algorithm

_KINDS = {"cnn": "image", "ann": "vector"}


@functools.cache
def agent_class(row: Algorithm) -> type[CompatAgent]:
    """Return the class of an agent; `pickle` finds it as `xagents_ray.PPO`."""
    own = {"row": row, "__module__": "xagents_ray", "__doc__": row.config.__doc__}
    return type(row.name.upper(), (CompatAgent,), own)


def agents_by_name() -> dict[str, dict[str, Any]]:
    """Return each agent's class and its default networks by kind, by name.

    >>> import xagents_ray
    >>> [path] = xagents_ray.agents["ppo"]["model"]["cnn"]
    """
    folder = Path(xagents_ray.__file__).parent / "networks"
    found: dict[str, dict[str, Any]] = {}
    for row in ALGORITHMS.values():
        found[row.name] = {"agent": agent_class(row)}
        for model in row.models:
            named = {
                k: folder / model.networks.format(kind=v) for k, v in _KINDS.items()
            }
            known = {k: [str(p)] if p.is_file() else [] for k, p in named.items()}
            found[row.name][model.file] = known
    return found


def xagents_attribute(name: str) -> Any:
    """Return an attribute of the package for scripts of xagents: `PPO` or `agents`.

    Raises:
        AttributeError: there is no such attribute.
    """
    if name == "agents":
        return agents_by_name()
    row = ALGORITHMS.get(name.lower())
    if row is None:
        raise AttributeError(f"module 'xagents_ray' has no attribute {name!r}")
    return agent_class(row)
