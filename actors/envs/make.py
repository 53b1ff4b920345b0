"""Vector environments of every kind behind one small class.

All of them reset on the step after an end (Gymnasium's NEXT_STEP) and give one
frame per step; stacking is the trajectory's business.
"""

import contextlib
import dataclasses
import functools
import importlib
import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.envs import registration

from xagents_ray.actors.envs import atari, interface
from xagents_ray.actors.envs import state as env_state
from xagents_ray.actors.envs.definitions import register
from xagents_ray.core.errors import UserError, near
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Array, BoolArray, FloatArray
from xagents_ray.settings.config import EnvConfig


class EnvStep(NamedTuple):
    """One step of B environments.

    Attributes:
        observations: [B, *observation_shape].
        rewards: float32 [B], for learning: clipped when frames are preprocessed.
        raw_rewards: float64 [B], for reports.
        terminated: bool [B], no value after this; a lost Atari life counts.
        truncated: bool [B], cut off.
        ended: bool [B], the next step only resets.
    """

    observations: Array
    rewards: FloatArray
    raw_rewards: Array
    terminated: BoolArray
    truncated: BoolArray
    ended: BoolArray


class Envs:
    """B environments stepped together; wraps any Gymnasium vector environment."""

    def __init__(self, envs: Any, config: EnvConfig) -> None:
        self._envs = envs
        self._id, self._clip = str(config.env), config.preprocess
        space, actions = envs.single_observation_space, envs.single_action_space
        self._one = envs.envs[0] if isinstance(envs, gym.vector.SyncVectorEnv) else None
        made_at = ""
        if self._one is not None:
            made_at = interface.place_of(self._one, "__init__")
        self.spec = describe(space, actions, config, made_at)
        self._start = int(actions.start) if self.spec.is_discrete else 0
        self._shape = (envs.num_envs, *self.spec.observation_shape)
        self._lives: Array = np.zeros(envs.num_envs, np.int64)

    def reset(self, seed: int) -> Array:
        """Begin an episode in every environment, number i with seed + i.

        Vector environments with one generator for all are seeded with `seed`.
        """
        observations, infos = self._envs.reset(seed=seed)
        self._lives = self._count_lives(infos)
        return self._observations(observations)

    def step(self, actions: Array) -> EnvStep:
        """Step every environment with [B] or [B, A] actions."""
        if self._start:
            actions = actions + np.asarray(self._start, actions.dtype)
        observations, raw, terminated, truncated, infos = self._envs.step(actions)
        ended = terminated | truncated
        if self._clip:
            lives = self._count_lives(infos)
            terminated = terminated | ((lives < self._lives) & (lives > 0))
            self._lives = lives
        rewards = np.sign(raw) if self._clip else raw
        return EnvStep(
            self._observations(observations),
            np.asarray(rewards, np.float32),
            np.asarray(raw, np.float64),
            terminated,
            truncated,
            ended,
        )

    @property
    def is_checked(self) -> bool:
        """Whether they are the user's own, made one by one."""
        return isinstance(self._one, interface.InterfaceCheck)

    @property
    def fps(self) -> float:
        """Pictures a second that a person should see."""
        return float(self._envs.metadata.get("render_fps") or 30)

    def picture(self) -> Array:
        """Return what a person sees of the first environment: uint8 [H, W, 3], RGB.

        Raises:
            UserError: it was made without pictures.
        """
        picture: Array | None = None
        if self._envs.render_mode == "rgb_array":
            with contextlib.suppress(NotImplementedError):
                picture = self._envs.render()[0]
        shape = picture.shape if isinstance(picture, np.ndarray) else ()
        if picture is None or shape[2:] != (3,) or picture.dtype != np.uint8:
            raise _no_pictures(self._id)
        return picture

    def check_finite(self, observations: Array) -> None:
        """Raise EnvironmentFault when one of a rollout's numbers is not finite."""
        interface.check_finite(self._id, self._one, observations)

    def state(self) -> dict[str, Any] | None:
        """Return what JSON can hold of them; None where it can't be had."""
        envs = env_state.get_state(self._envs)
        if envs is None:
            return None
        return {"lives": env_state.encode(self._lives.astype(np.int64)), "envs": envs}

    def restore(self, state: dict[str, Any]) -> None:
        """Put a state back, after a reset.

        Raises:
            Exception: of some kind; the state is damaged or not of such environments.
        """
        env_state.set_state(self._envs, state["envs"])
        self._lives = env_state.decode(state["lives"], self._lives.astype(np.int64))

    def close(self) -> None:
        """End them."""
        self._envs.close()

    def _observations(self, observations: Array) -> Array:
        dtype = self.spec.observation_dtype
        return np.asarray(observations, dtype).reshape(self._shape)

    def _count_lives(self, infos: dict[str, Any]) -> Array:
        return np.asarray(infos.get("lives", self._lives))


def describe(
    space: gym.Space[Any], actions: gym.Space[Any], c: EnvConfig, made_at: str = ""
) -> EnvSpec:
    """Return the spec of an environment with these spaces.

    uint8 observations of two or three dimensions are frames; all others are
    vectors, flattened when they have more than one dimension.

    Args:
        space: of observations.
        actions: likewise.
        c: settings of the environment.
        made_at: file and line of the user's that make it; "" where it is not theirs.
    Raises:
        UserError: nothing can learn in it.
    """
    place = f" ({made_at})" if made_at else ""
    if not isinstance(space, gym.spaces.Box):
        raise UserError(
            f"{c.env}{place} observes {type(space).__name__}; only Box observations "
            "can be learnt from: wrap it with gymnasium.wrappers.FlattenObservation."
        )
    image = space.dtype == np.uint8 and len(space.shape) in (2, 3)
    if c.preprocess and not image:
        raise UserError(
            f"--preprocess is for images and {c.env} observes a vector of "
            f"{int(np.prod(space.shape))} numbers: leave the flag out."
        )
    shape: tuple[int, ...] = space.shape if image else (int(np.prod(space.shape)),)
    if image and len(shape) == 3 and shape[0] == 1:
        shape = shape[1:]  # AtariVectorEnv's stack of one frame
    common: dict[str, Any] = {
        "observation_shape": shape,
        "observation_dtype": "uint8" if space.dtype == np.uint8 else "float32",
        "stack": c.frame_stack if image else 1,
    }
    if isinstance(actions, gym.spaces.Discrete):
        return EnvSpec(**common, n_actions=int(actions.n))
    if isinstance(actions, gym.spaces.Box) and len(actions.shape) == 1:
        low, high = (tuple(map(float, b)) for b in (actions.low, actions.high))
        return EnvSpec(**common, n_actions=0, action_low=low, action_high=high)
    raise UserError(
        f"{c.env}{place} acts in {actions}; only Discrete and one-dimensional Box "
        "actions can be taken: wrap it with a gymnasium.ActionWrapper."
    )


def probe(config: EnvConfig, definitions: tuple[bytes, ...] = ()) -> EnvSpec:
    """Return the spec of an environment by making one.

    Args:
        config: which, and how.
        definitions: of environments, for a process that doesn't know them.
    Raises:
        UserError: there is no such environment, or nothing can learn in it.
    """
    register(definitions)
    with interface.naming_their_line(str(config.env)):
        envs = make_envs(config, 1, 1)
        envs.close()
    return envs.spec


def check(config: EnvConfig) -> EnvSpec:
    """Return the spec of an environment by making and resetting one.

    Raises:
        UserError: as in `probe`; or it breaks Gymnasium's interface where a run would
            otherwise end at its first step.
    """
    if config.vectorization == "async":  # its processes would hide what goes wrong
        config = dataclasses.replace(config, vectorization="sync")
    with interface.naming_their_line(str(config.env)):
        envs = make_envs(config, 1, 1)
        if envs.is_checked:
            envs.check_finite(envs.reset(0))
        envs.close()
    return envs.spec


def notes(config: EnvConfig) -> tuple[str, ...]:
    """Return what the user should know of an environment that can be made."""
    env_id = str(config.env)
    if ":" in env_id:
        return ()
    newest = _newest(env_id)
    if newest in (None, env_id):
        return ()
    return (f"{env_id} is outdated; its newest version is {newest}",)


def _newest(env_id: str) -> str | None:
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
def _without_version_warning() -> Iterator[None]:
    """Leave out Gymnasium's warning of an outdated version; `notes` says it."""
    with warnings.catch_warnings():
        message = ".*The environment .* is out of date"
        warnings.filterwarnings("ignore", message, DeprecationWarning)
        yield


def make_envs(config: EnvConfig, n_envs: int, threads: int) -> Envs:
    """Return vector environments.

    Args:
        config: which, and how.
        n_envs: how many.
        threads: cores that they may use, where their kind has threads.
    Raises:
        UserError: there is no such environment, or not in this vectorization.
    """
    env_id = str(config.env)
    factory = _factory(env_id)
    mode = config.vectorization
    try:
        if mode == "envpool":
            return Envs(_envpool(config, n_envs, threads), config)
        if factory is None and mode in ("auto", "vector"):
            envs = _vector(config, n_envs, threads)
            if envs is not None:
                return Envs(envs, config)
        if mode == "vector":
            raise UserError(
                f"{env_id} has no vector environment of its own: use "
                "--vectorization auto."
            )
        make = functools.partial(_single, config, factory)
        return Envs(_sync_or_async(mode, [make] * n_envs), config)
    except gym.error.Error as error:
        raise _unknown(env_id, error) from None


def make_one(config: EnvConfig, render_mode: str | None) -> Envs:
    """Return a single environment, in no vector form of its own.

    Args:
        config: which, and how; `vectorization` does not matter.
        render_mode: `rgb_array` for `Envs.picture`, None for no pictures.
    Raises:
        UserError: there is no such environment, or it takes no render mode.
    """
    env_id = str(config.env)
    make = functools.partial(_single, config, _factory(env_id), render_mode)
    try:
        return Envs(gym.vector.SyncVectorEnv([make]), config)
    except gym.error.Error as error:
        raise _unknown(env_id, error) from None
    except TypeError as error:
        if "'render_mode'" not in str(error):
            raise
        raise _no_pictures(env_id) from None


class _AsyncEnvs(gym.vector.AsyncVectorEnv):
    """Gymnasium's, which prints a fault of the user's once, and not in red."""

    def _raise_if_errors(self, successes: Any) -> None:
        if all(successes):
            return
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            try:
                super()._raise_if_errors(successes)
            except UserError:
                raise
            except Exception as error:
                raised = error
        for each in noted:  # with the traceback, which the error has lost
            warnings.warn(each.message, stacklevel=2)
        raise raised


def _sync_or_async(mode: str, makers: list[Callable[[], gym.Env[Any, Any]]]) -> Any:
    if mode == "async":
        return _AsyncEnvs(makers)
    return gym.vector.SyncVectorEnv(makers)


@_without_version_warning()
def _vector(config: EnvConfig, n_envs: int, threads: int) -> Any:
    """Return the environment's own vector form, None when it has none."""
    env_id = _registered(str(config.env))
    atari_settings = atari.settings(env_id)
    if atari_settings is not None:
        if not config.preprocess:
            return None
        return atari.vector_env(atari_settings, n_envs, threads, config.max_frame)
    if config.preprocess or gym.spec(env_id).vector_entry_point is None:
        return None
    envs = gym.make_vec(
        env_id, num_envs=n_envs, vectorization_mode="vector_entry_point"
    )
    mode = envs.metadata.get("autoreset_mode", gym.vector.AutoresetMode.NEXT_STEP)
    if mode not in (gym.vector.AutoresetMode.NEXT_STEP, "NextStep"):
        envs.close()
        raise UserError(
            f"The vector environment of {config.env} has autoreset_mode {mode}, but "
            "training needs NEXT_STEP: use --vectorization sync, or make it reset on "
            "the step after an episode's end."
        )
    return envs


@_without_version_warning()
def _single(
    config: EnvConfig,
    factory: Callable[..., Any] | None,
    render_mode: str | None = None,
) -> gym.Env[Any, Any]:
    """Return one environment, preprocessed where that is asked for."""
    env_id = str(config.env)
    settings = None if factory else atari.settings(_registered(env_id))
    options: dict[str, Any] = {"render_mode": render_mode} if render_mode else {}
    env: gym.Env[Any, Any]
    if factory is not None:
        _check_arguments(env_id, factory)
        if options and "render_mode" not in inspect.signature(factory).parameters:
            options = {}
        made = factory(**options)
        if not isinstance(made, gym.Env):
            what = f"its factory returned {made!r:.80}"
            place = interface.line_of(factory)
            raise interface.fault(env_id, what, place, "return a gymnasium.Env")
        env = made
    elif settings is not None and config.preprocess:
        env = gym.make(_registered(env_id), frameskip=1, **options)
    else:
        env = gym.make(_registered(env_id), **options)
    if _is_own(env_id, factory, env):
        env = interface.InterfaceCheck(env, env_id)
    if config.preprocess and _is_image(env):
        env = atari.Preprocessing(env, config.max_frame)
    return env


def _is_image(env: gym.Env[Any, Any]) -> bool:
    space = env.observation_space
    return isinstance(space, gym.spaces.Box) and len(space.shape) == 3


def _is_own(env_id: str, factory: Any, env: gym.Env[Any, Any]) -> bool:
    """Return whether an environment is no library's that we know to be well."""
    if factory is not None:
        return not env_id.startswith("gym:")
    entry = None if env.spec is None else env.spec.entry_point
    return not str(entry).startswith(("gymnasium.", "ale_py."))


def _registered(env_id: str) -> str:
    """Return Gymnasium's id of `module:EnvId`, which importing the module registers."""
    module, colon, name = env_id.rpartition(":")
    if colon:  # not imported yet in a process of AsyncVectorEnv
        importlib.import_module(module)
    return name


def _factory(env_id: str) -> Callable[..., Any] | None:
    """Return what `package.module:factory` names; None for ids of Gymnasium.

    `package.module:EnvId` is such an id too: importing the module registers it.
    """
    module, colon, name = env_id.partition(":")
    if not colon:
        return None
    if module == "gym":
        legacy = importlib.import_module("xagents_ray.actors.envs.legacy")
        return functools.partial(legacy.make, name)
    try:
        with interface.naming_their_line(env_id):
            imported = importlib.import_module(module)
    except ImportError as error:
        raise UserError(
            f"--env {env_id}: module {module} can't be imported ({error}); install "
            "it or start where it lies."
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


def _check_arguments(env_id: str, factory: Callable[..., Any]) -> None:
    """Raise EnvironmentFault when a factory can't be called without arguments."""
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):  # some that are written in C have none
        return
    try:
        signature.bind()
    except TypeError as error:
        what = f"its factory is called without arguments and is {error}"
        remedy = "give them defaults"
        raise interface.fault(
            env_id, what, interface.line_of(factory), remedy
        ) from None


def _envpool(config: EnvConfig, n_envs: int, threads: int) -> Any:
    try:
        from xagents_ray.actors.envs import pool
    except ImportError:
        raise UserError(
            "--vectorization envpool needs EnvPool: pip install 'xagents-ray[envpool]'."
        ) from None
    return pool.make(config, n_envs, threads)


def _no_pictures(env_id: str) -> UserError:
    return UserError(
        f"{env_id} gives no pictures: its factory must make it with "
        'render_mode="rgb_array", and may take render_mode as an argument.'
    )


def _unknown(env_id: str, error: Exception) -> UserError:
    newest = _newest(env_id)
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
