"""What --env names: an id of Gymnasium or the old gym, or a factory; here or elsewhere.

What a script or a notebook registers, or holds in its `__main__`, is in no module that
another process could import; `export` and `register` take it there.
"""

import contextlib
import functools
import importlib
import inspect
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
from gymnasium.envs import registration
from gymnasium.envs.registration import EnvSpec

from xagents_ray.actors.envs import interface
from xagents_ray.core.errors import UserError, near, one_line
from xagents_ray.core.process import quiet_stderr
from xagents_ray.core.user_code import line_of

_MAIN = "__main__"


def registered_id(env_id: str) -> str:
    """Return Gymnasium's id of `module:EnvId`, which importing the module registers."""
    module, colon, name = env_id.rpartition(":")
    if colon:  # not imported yet in a process of AsyncVectorEnv
        importlib.import_module(module)
    return name


def find_factory(env_id: str) -> Callable[..., Any] | None:
    """Return what `package.module:factory` names; None for ids of Gymnasium.

    `package.module:EnvId` is such an id too: importing the module registers it.
    """
    module, colon, name = env_id.partition(":")
    if not colon:
        return None
    if module == "gym":
        return functools.partial(_from_old_gym, name)
    try:
        with interface.naming_their_line(env_id):
            imported = importlib.import_module(module)
    except ImportError as error:
        raise UserError(
            f"--env {env_id}: module {module} can't be imported ({error}); install "
            "it, or start in the directory that holds it."
        ) from None
    found = getattr(imported, name, None)
    if found is None and name in gym.registry:
        return None
    if callable(found):
        return found  # type: ignore[no-any-return]
    place = getattr(imported, "__file__", None) or ""
    remedy = "name a function or a class that makes an environment"
    if found is not None:
        raise interface.fault(env_id, f"its factory is {found!r}"[:80], place, remedy)
    what = f"module {module} has no {name} and registers no such environment"
    hint = near(name, [*vars(imported), *gym.registry])
    raise interface.fault(env_id, what, place, hint[2:].rstrip("?") or remedy)


def from_factory(
    env_id: str, factory: Callable[..., Any], options: dict[str, Any]
) -> gym.Env[Any, Any]:
    """Return what a factory makes, with options if it takes render_mode.

    Raises:
        EnvironmentFault: it requires arguments, or makes something else.
    """
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):  # some that are written in C have none
        signature = inspect.Signature()
    try:
        signature.bind()
    except TypeError as error:
        what = f"its factory is called without arguments and is {error}"
        place = line_of(factory)
        raise interface.fault(env_id, what, place, "give them defaults") from None
    made = factory(**options if "render_mode" in signature.parameters else {})
    if isinstance(made, gym.Env):
        return made
    what, place = f"its factory returned {made!r:.80}", line_of(factory)
    raise interface.fault(env_id, what, place, "return a gymnasium.Env")


def is_user_defined(env_id: str, factory: Any, env: gym.Env[Any, Any]) -> bool:
    """Return whether an environment isn't from Gymnasium, ALE or the old gym."""
    if factory is not None:
        return not env_id.startswith("gym:")
    entry = None if env.spec is None else env.spec.entry_point
    return not str(entry).startswith(("gymnasium.", "ale_py."))


def newest_version(env_id: str) -> str | None:
    """Return the id of an environment's newest version, whatever version is named."""
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
    """Hide Gymnasium's warning about an outdated version; `make.notes` gives it."""
    with warnings.catch_warnings():
        message = ".*The environment .* is out of date"
        warnings.filterwarnings("ignore", message, DeprecationWarning)
        yield


def unknown_environment(env_id: str, error: Exception) -> UserError:
    """Return the error for an id that Gymnasium refused with another one."""
    newest = newest_version(env_id)
    is_named = newest is not None and newest != env_id
    hint = f"; did you mean {newest}?" if is_named else near(env_id, gym.registry)
    reason = str(error).split("`")
    if isinstance(error, gym.error.DeprecatedEnv) and len(reason) > 3:
        return UserError(f"{env_id} is no longer there; use {reason[-2]}.")
    is_unversioned = is_named and env_id not in gym.registry
    if isinstance(error, gym.error.UnregisteredEnv) or is_unversioned:
        return UserError(
            f"There is no environment {env_id!r}"
            f"{hint or '; see gymnasium.pprint_registry().'}"
        )
    return UserError(f"{env_id} can't be made: {str(error).rstrip('.')}.")


def _from_old_gym(env_id: str, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """Return an environment of gym 0.26, of the extra `[gym]`, as a Gymnasium one."""
    # gym 0.26 uses two names that NumPy 2 dropped.
    for name, kind in (("bool8", np.bool_), ("float_", np.float64)):
        if not hasattr(np, name):
            setattr(np, name, kind)
    try:
        with quiet_stderr():  # its farewell banner
            import gym as old_gym
    except ImportError:
        raise UserError(
            f"gym:{env_id} needs the old gym: pip install 'xagents-ray[gym]'."
        ) from None
    try:
        made = old_gym.make(env_id, disable_env_checker=True, render_mode=render_mode)
        return _Adapter(made, render_mode)
    except old_gym.error.Error as error:
        raise UserError(f"gym:{env_id} can't be made: {error}") from None


class _Adapter(gym.Env[Any, Any]):
    def __init__(self, env: Any, render_mode: str | None) -> None:
        self._env, self.render_mode = env, render_mode
        self.metadata = dict(env.metadata)
        self.observation_space = _space(env.observation_space)
        self.action_space = _space(env.action_space)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self._env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self._env.step(action)
        return observation, float(reward), bool(terminated), bool(truncated), info

    def render(self) -> Any:
        return self._env.render()

    def close(self) -> None:
        self._env.close()


def _space(space: Any) -> gym.Space[Any]:
    kind = type(space).__name__
    if kind == "Box":
        return gym.spaces.Box(space.low, space.high, space.shape, space.dtype.type)
    if kind == "Discrete":
        return gym.spaces.Discrete(int(space.n), start=int(space.start))
    raise UserError(f"gym spaces of the kind {kind} are not supported.")


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
