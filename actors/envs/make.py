"""Makes environments: registered or the user's, one by one or vectorized."""

import dataclasses
import functools
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium as gym

from xagents_ray.actors.envs import atari, factory, interface, registry
from xagents_ray.actors.envs.vector import Envs, no_pictures
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.settings.training import EnvConfig

_SIMULATED = ("gymnasium.envs.box2d", "gymnasium.envs.mujoco")


def probe(config: EnvConfig, definitions: tuple[bytes, ...] = ()) -> EnvSpec:
    """Return the spec of an environment by making one; see `registry.export`.

    Raises:
        UserError: there is no such environment, or no algorithm can learn in it.
    """
    registry.register(definitions)
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
    """Return what the user should know about an environment."""
    env_id = str(config.env)
    newest = None if ":" in env_id else registry.newest_version(env_id)
    if newest in (None, env_id):
        return ()
    return (f"{env_id} is outdated; its newest version is {newest}",)


def choose(config: EnvConfig) -> EnvConfig:
    """Return it with `envpool` in place of `auto` where that is the fastest right one.

    EnvPool is where it is installed and has the environment, of Box2D or MuJoCo. A run
    chooses once, so that all of its parts step the same environments.
    """
    env_id = str(config.env)
    spec = gym.registry.get(env_id)
    is_simulated = spec and str(spec.entry_point).startswith(_SIMULATED)
    is_plain = config.vectorization == "auto" and not config.preprocess
    if not is_simulated or not is_plain or config.env_kwargs:
        return config
    try:
        from xagents_ray.actors.envs import pool
    except ImportError:
        return config
    chosen = dataclasses.replace(config, vectorization="envpool")
    return chosen if pool.knows(env_id) else config


def make_envs(config: EnvConfig, n_envs: int, threads: int) -> Envs:
    """Return vector environments that may use `threads` cores, if their kind can.

    Raises:
        UserError: there is no such environment, or not in this vectorization.
    """
    env_id = str(config.env)
    own = registry.find_factory(env_id)
    mode = config.vectorization
    try:
        if mode == "envpool":
            return Envs(_envpool(config, n_envs, threads), config)
        if own is None and mode in ("auto", "vector"):
            if (envs := _vector(config, n_envs, threads)) is not None:
                return Envs(envs, config)
        if mode == "vector":
            raise UserError(
                f"{env_id} has no vector environment of its own: use "
                "--vectorization auto."
            )
        make = functools.partial(_single, config, own)
        kind = _AsyncEnvs if mode == "async" else gym.vector.SyncVectorEnv
        return Envs(kind([make] * n_envs), config)
    except gym.error.Error as error:
        raise registry.unknown_environment(env_id, error) from None


def make_one(config: EnvConfig, render_mode: str | None) -> Envs:
    """Return a single environment, whatever the config's `vectorization`.

    The render mode is `rgb_array` for `Envs.picture`, None for no pictures.

    Raises:
        UserError: there is no such environment, or it takes no render mode.
    """
    make = functools.partial(make_single, config, render_mode)
    return Envs(gym.vector.SyncVectorEnv([make]), config)


def make_single(config: EnvConfig, render_mode: str | None) -> gym.Env[Any, Any]:
    """Return what `make_one` steps, as Gymnasium has it; see there."""
    env_id = str(config.env)
    try:
        return _single(config, registry.find_factory(env_id), render_mode)
    except gym.error.Error as error:
        raise registry.unknown_environment(env_id, error) from None
    except TypeError as error:
        if "'render_mode'" not in str(error):
            raise
        raise no_pictures(env_id) from None


def make_stacked(
    config: EnvConfig, stack: int, render_mode: str | None
) -> gym.Env[Any, Any]:
    """Return one environment as a policy sees it, with frames stacked.

    Raises:
        UserError: there is no such environment, or it takes no render mode.
    """
    env = make_single(config, render_mode)
    if stack == 1:
        return env
    return gym.wrappers.FrameStackObservation(env, stack, padding_type="zero")


class _AsyncEnvs(gym.vector.AsyncVectorEnv):
    """Gymnasium's, but it prints an error of the user's once, and not in red."""

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
        for each in noted:  # they have the traceback that the error has lost
            warnings.warn(each.message, stacklevel=2)
        raise raised


@registry.without_version_warning()
def _vector(config: EnvConfig, n_envs: int, threads: int) -> Any:
    """Return the environment's own vector form, None when it has none."""
    if config.env_kwargs and config.vectorization == "auto":
        return None  # it may lack these arguments
    env = registry.registered(str(config.env))
    atari_settings = atari.settings(env)
    if atari_settings is not None:
        if not config.preprocess or config.env_kwargs:
            return None
        return atari.vector_env(atari_settings, n_envs, threads, config.max_frame)
    spec = gym.spec(env) if isinstance(env, str) else env
    if config.preprocess or spec.vector_entry_point is None:
        return None
    envs = gym.make_vec(env, n_envs, "vector_entry_point", **config.arguments)
    mode = envs.metadata.get("autoreset_mode", gym.vector.AutoresetMode.NEXT_STEP)
    if mode not in (gym.vector.AutoresetMode.NEXT_STEP, "NextStep"):
        envs.close()
        raise UserError(
            f"The vector environment of {config.env} has autoreset_mode {mode}, but "
            "training needs NEXT_STEP: use --vectorization sync, or make it reset on "
            "the step after an episode's end."
        )
    actions = getattr(envs, "action_space", None)
    if type(actions) is gym.spaces.MultiDiscrete:
        envs.action_space = _OwnActions(actions.nvec, start=actions.start)
    return envs


class _OwnActions(gym.spaces.MultiDiscrete):
    """Of actions that our policies choose: to check them costs a fifth of CartPole."""

    def contains(self, x: Any) -> bool:
        """Return True."""
        return True


@registry.without_version_warning()
def _single(
    config: EnvConfig,
    own: Callable[..., Any] | None,
    render_mode: str | None = None,
) -> gym.Env[Any, Any]:
    """Return one environment, preprocessed if the config says so."""
    env_id, arguments = str(config.env), config.arguments
    if own is not None:
        env = factory.call(env_id, own, arguments, render_mode)
    else:
        env = _registered(config, render_mode)
    if registry.is_user_defined(env_id, own, env):
        env = interface.InterfaceCheck(env, env_id)
    if config.preprocess and _is_image(env):
        env = atari.Preprocessing(env, config.max_frame)
    return env


def _registered(config: EnvConfig, render_mode: str | None) -> gym.Env[Any, Any]:
    """Return one environment that Gymnasium makes."""
    found, arguments = registry.registered(str(config.env)), config.arguments
    options: dict[str, Any] = {"render_mode": render_mode} if render_mode else {}
    if config.preprocess and atari.settings(found) is not None:
        options["frameskip"] = 1
    try:
        return gym.make(found, **{**arguments, **options})
    except TypeError as error:
        wrong = str(error).partition("unexpected keyword argument ")[2]
        unknown = [name for name in arguments if wrong.startswith(repr(name))]
        if not unknown:
            raise
        raise UserError(
            f"--env-kwargs: {config.env} takes no {unknown[0]}; leave it out."
        ) from None


def _is_image(env: gym.Env[Any, Any]) -> bool:
    space = env.observation_space
    return isinstance(space, gym.spaces.Box) and len(space.shape) == 3


def _envpool(config: EnvConfig, n_envs: int, threads: int) -> Any:
    try:
        from xagents_ray.actors.envs import pool
    except ImportError:
        raise UserError(
            "--vectorization envpool needs EnvPool: pip install "
            "'xagents-ray[envpool]', or take --vectorization sync."
        ) from None
    return pool.make(config, n_envs, threads)
