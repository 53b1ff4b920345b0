"""Environments that only the driver's process knows, for other processes to make.

What a script or a notebook registers, or holds in its `__main__`, is in no module that
an env actor could import.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import cloudpickle
import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from xagents_ray.core.errors import UserError, one_line

_MAIN = "__main__"


def export(env: str) -> tuple[bytes, ...]:
    """Return what another process needs to make an environment as this one does.

    It is a Gymnasium id, or `module:factory`. Definitions in `__main__` go by value,
    those in modules by name.

    Raises:
        UserError: it holds something that can't be sent.
    """
    name = env.rpartition(":")[2]
    own = [gym.registry[name]] if name in gym.registry else []
    others = [s for s in gym.registry.values() if s not in own and not _is_known(s)]
    try:
        found = [cloudpickle.dumps((own, _in_main([env, *_places(own)])))]
    except Exception as error:
        raise UserError(
            f"--env {env} can't be sent to other processes ({one_line(error)}): create "
            "what it holds in its constructor, move it to a module that they can "
            "import, or use --local."
        ) from None
    for spec in others:  # the environment may make these
        try:
            found.append(cloudpickle.dumps(([spec], _in_main(_places([spec])))))
        except Exception:  # matters only if the environment makes it
            continue
    return tuple(found)


def register(definitions: Iterable[bytes]) -> None:
    """Make environments known here that another process has exported.

    Raises:
        UserError: a module is missing here.
    """
    for definition in definitions:
        try:
            specs, held = cloudpickle.loads(definition)
        except (ImportError, AttributeError) as error:
            raise UserError(
                f"--env needs what can't be imported here ({error}): install the same "
                "modules on every node."
            ) from None
        gym.registry.update({spec.id: spec for spec in specs})
        vars(sys.modules[_MAIN]).update(held)


def _is_known(spec: EnvSpec) -> bool:
    """Return whether the modules that hold its parts are known by name."""
    return not any(
        callable(place) or place.partition(":")[0] == _MAIN for place in _places([spec])
    )


def _places(specs: Iterable[EnvSpec]) -> Iterator[Any]:
    """Yield where the parts of environments are, `module:name`, or the parts."""
    for spec in specs:
        places = [spec.entry_point, spec.vector_entry_point]
        places += [wrapper.entry_point for wrapper in spec.additional_wrappers]
        yield from (place for place in places if place is not None)


def _in_main(places: Iterable[Any]) -> dict[str, Any]:
    """Return what `__main__` holds of places in it, by name."""
    held, main = {}, vars(sys.modules[_MAIN])
    for place in places:
        module, _, name = place.partition(":") if isinstance(place, str) else ("",) * 3
        if module == _MAIN and name in main:
            held[name] = main[name]
    return held
