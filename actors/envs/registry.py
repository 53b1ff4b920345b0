"""Resolves --env: an id of Gymnasium or the old gym, or a factory.

Other processes can't import what a script or a notebook registers, passes or defines in
`__main__`: `export_definitions` serializes it, and `core/objects.py` installs it there.
"""

import contextlib
import functools
import importlib
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import cloudpickle
import gymnasium as gym
from gymnasium.envs import registration
from gymnasium.envs.registration import EnvSpec

from xagents_ray.actors.envs import interface, old_atari, old_gym
from xagents_ray.core import objects
from xagents_ray.core.errors import UserError, did_you_mean, one_line
from xagents_ray.core.user_code import importing_from_here
from xagents_ray.settings.training import EnvConfig

_MAIN = "__main__"


def named_modules(config: EnvConfig) -> contextlib.AbstractContextManager[None]:
    """Return a context in which environments are made.

    Within it, modules in the working directory can be imported if the environment or
    its wrappers are named as `module:name`.
    """
    names = (name for _, name in config.objects)
    own = (each.removeprefix("gym:").removeprefix("atari-py:") for each in names)
    if any(":" in each for each in own):
        return importing_from_here()
    return contextlib.nullcontext()


def find_registered(env_id: str) -> str | EnvSpec:
    """Return what Gymnasium can make: an EnvSpec passed from Python, or an id.

    The module of `module:EnvId` is imported, which registers the id.
    """
    kept = objects.find_kept("env", env_id)
    if isinstance(kept, EnvSpec):
        return kept
    module, colon, name = env_id.rpartition(":")
    if colon:  # not imported yet in a process of AsyncVectorEnv
        with importing_from_here():
            importlib.import_module(module)
    return name


def check_env_id(env_id: str) -> None:
    """Raise UserError if no environment has this name; none is created."""
    import ale_py  # noqa: F401 (registers the ids of Atari)

    found = find_registered(env_id) if find_factory(env_id) is None else None
    if isinstance(found, str):
        try:
            gym.spec(found)
        except gym.error.Error as error:
            raise unknown_environment(env_id, error) from None


def find_factory(env_id: str) -> Callable[..., Any] | None:
    """Return the factory `package.module:factory`, or one passed from Python by name.

    Return None for ids that Gymnasium makes, including `package.module:EnvId`, where
    importing the module registers the id.
    """
    kept = objects.find_kept("env", env_id)
    if kept is not None:
        return None if isinstance(kept, EnvSpec) else kept
    module, colon, name = env_id.partition(":")
    if not colon:
        return None
    if module == "gym":
        return functools.partial(old_gym.make_old_gym, name)
    if module == "atari-py":
        return functools.partial(old_atari.make_atari_py, name)
    if not module or module.startswith("."):
        raise UserError(
            f"--env {env_id}: name a module as package.module:{name or 'make'}, "
            "without a path and without .py."
        )
    try:
        with interface.errors_name_line(env_id), importing_from_here():
            imported = importlib.import_module(module)
    except ImportError as error:
        raise UserError(
            f"--env {env_id}: module {module} can't be imported ({error}); install "
            "it, or start in the directory that holds it."
        ) from None
    found: Any = imported
    for part in name.split("."):  # may be a nested class
        found = getattr(found, part, None)
    if found is None and name in gym.registry:
        return None
    if callable(found):
        return found  # type: ignore[no-any-return]
    place = getattr(imported, "__file__", None) or ""
    remedy = "name a function or a class that makes an environment"
    if found is not None:
        raise interface.env_fault(
            env_id, f"its factory is {found!r}"[:80], place, remedy
        )
    what = f"module {module} has no {name} and registers no such environment"
    hint = did_you_mean(name, [*vars(imported), *gym.registry])
    raise interface.env_fault(env_id, what, place, hint[2:] or remedy)


def is_user_defined(env_id: str, factory: Any, env: gym.Env[Any, Any]) -> bool:
    """Return whether an environment is not from Gymnasium, ALE, gym or atari-py."""
    if isinstance(env.unwrapped, old_gym.OldGymAdapter):
        return not env.unwrapped.is_library
    if factory is not None:
        return not env_id.startswith("atari-py:")
    entry = None if env.spec is None else env.spec.entry_point
    return not str(entry).startswith(("gymnasium.", "ale_py."))


def newest_version(env_id: str) -> str | None:
    """Return the id of the newest version of an environment; None if unknown."""
    try:
        namespace, name, _ = registration.parse_env_id(env_id)
    except gym.error.Error:
        return None
    newest = registration.find_highest_version(namespace, name)
    if newest is None:
        return None
    return registration.get_env_id(namespace, name, newest)


@contextlib.contextmanager
def without_version_warning() -> Iterator[None]:
    """Hide Gymnasium's warning about an outdated version; `env_notes` reports it."""
    with warnings.catch_warnings():
        message = ".*The environment .* is out of date"
        warnings.filterwarnings("ignore", message, DeprecationWarning)
        yield


def unknown_environment(env_id: str, error: Exception) -> UserError:
    """Return the error for an id that Gymnasium rejected with `error`."""
    newest = newest_version(env_id)
    is_named = newest is not None and newest != env_id
    hint = (
        f"; did you mean {newest}?" if is_named else did_you_mean(env_id, gym.registry)
    )
    reason = str(error).split("`")
    if isinstance(error, gym.error.DeprecatedEnv) and len(reason) > 3:
        return UserError(f"{env_id} no longer exists; use {reason[-2]}.")
    if hint and not is_named and "-v" in env_id:
        hint = f"{hint} {_ELSEWHERE}"
    is_unversioned = is_named and env_id not in gym.registry
    if isinstance(error, gym.error.UnregisteredEnv) or is_unversioned:
        return UserError(
            f"There is no environment {env_id!r}{hint or _no_hint(env_id)}"
        )
    return UserError(f"{env_id} can't be made: {str(error).rstrip('.')}.")


_ELSEWHERE = (
    "For an environment of another package, put its module first: "
    "gymnasium_robotics:FetchReach-v4."
)


def _no_hint(env_id: str) -> str:
    if "-v" in env_id or ":" in env_id:
        return f"; see gymnasium.pprint_registry(). {_ELSEWHERE}"
    return (
        "; see gymnasium.pprint_registry(), or pass the class or function of this "
        f"name from Python, as in env={env_id}."
    )


def export_definitions(config: EnvConfig) -> tuple[bytes, ...]:
    """Return the definitions that another process needs to make environments.

    Objects defined in `__main__` are sent by value, others by name.

    Raises:
        UserError: a definition can't be serialized.
    """
    env = str(config.env)
    name, kept = env.rpartition(":")[2], objects.find_kept("env", env)
    own = [gym.registry[name]] if name in gym.registry and kept is None else []
    places = [env, *_places(own), *_places([kept] if isinstance(kept, EnvSpec) else [])]
    others = [s for s in gym.registry.values() if s not in own and not _is_known(s)]
    try:
        found = [objects.export_objects(config.objects)]
        found.append(_exported(own, _in_main(places)))
    except Exception as error:
        raise UserError(
            f"--env {env} can't be sent to other processes ({one_line(error)}): create "
            "what it holds in its constructor, move it to a module that they can "
            "import, or use --local."
        ) from None
    for spec in others:  # the environment may create these
        try:
            found.append(_exported([spec], _in_main(_places([spec]))))
        except Exception:  # matters only if the environment needs it
            continue
    return tuple(found)


def _exported(specs: list[EnvSpec], held: dict[str, Any]) -> bytes:
    data: bytes = cloudpickle.dumps(functools.partial(_install, specs, held))
    return data


def _install(specs: list[EnvSpec], held: dict[str, Any]) -> None:
    gym.registry.update({spec.id: spec for spec in specs})
    vars(sys.modules[_MAIN]).update(held)


def _is_known(spec: EnvSpec) -> bool:
    """Return whether other processes can import all parts of an environment."""
    return not any(
        callable(place) or place.partition(":")[0] == _MAIN for place in _places([spec])
    )


def _places(specs: Iterable[EnvSpec]) -> Iterator[Any]:
    """Yield the parts of environments, as import paths `module:name` or callables."""
    for spec in specs:
        places = [spec.entry_point, spec.vector_entry_point]
        places += [wrapper.entry_point for wrapper in spec.additional_wrappers]
        yield from (place for place in places if place is not None)


def _in_main(places: Iterable[Any]) -> dict[str, Any]:
    """Return the objects of `__main__` that import paths name, by name."""
    held, main = {}, vars(sys.modules[_MAIN])
    for place in places:
        module, _, name = place.partition(":") if isinstance(place, str) else ("",) * 3
        if module == _MAIN and name in main:
            held[name] = main[name]
    return held
