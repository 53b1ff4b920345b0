"""Makes environments, registered or user-defined, single or vectorized."""

import dataclasses
import functools
import re
from collections.abc import Mapping
from contextlib import closing
from types import MappingProxyType
from typing import Any

import gymnasium as gym
import numpy as np

from xagents_ray.actors.envs import (
    action_masks,
    atari,
    factory,
    indices,
    interface,
    named_inputs,
    old_gym,
    registry,
    stacked,
    vector_forms,
    wrapper_statistics,
    wrapping,
)
from xagents_ray.actors.envs.vector import Envs, no_pictures
from xagents_ray.core.errors import (
    Diverged,
    Stopped,
    UserError,
    one_line,
    shortage,
)
from xagents_ray.core.objects import install_definitions
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Array
from xagents_ray.core.user_code import place_that_raised
from xagents_ray.settings.training import EnvConfig

_OTHER_SPACES = "[Ss]ub-environment|Some environments have an action space"
"""Gymnasium's errors for environments whose spaces differ."""
_SIMULATED = ("gymnasium.envs.box2d", "gymnasium.envs.mujoco")


def probe(
    config: EnvConfig, definitions: tuple[bytes, ...] = (), index: int = 0
) -> EnvSpec:
    """Return the spec of an environment by making one, which isn't reset.

    Masks that only `info` has are unknown then.

    Args:
        config: settings of the environment.
        definitions: definitions of environments that this process doesn't know.
        index: index that the environment's factory gets.
    Raises:
        UserError: the environment doesn't exist, or its spaces are not supported.
    """
    install_definitions(definitions)
    with interface.errors_name_line(str(config.env)):
        envs = make_envs(config, 1, 1, index)
        envs.close()
    return envs.spec


def check_env(config: EnvConfig) -> EnvSpec:
    """Return the spec of an environment after making and resetting one.

    Raises:
        UserError: as in `probe`, or the environment breaks Gymnasium's interface so
            that a run would end at its first step.
    """
    if config.vectorization == "async":  # its child processes would hide errors
        config = dataclasses.replace(config, vectorization="sync")
    with interface.errors_name_line(str(config.env)):
        with closing(make_envs(config, 1, 1)) as envs:
            envs.try_reset()
            return dataclasses.replace(envs.spec, remembering=envs.remembering())


def choose_vectorization(config: EnvConfig) -> EnvConfig:
    """Return the config with `auto` vectorization replaced by `envpool` if possible.

    EnvPool must be installed and provide the environment, which must be one of Box2D or
    MuJoCo without changes by other settings. A run chooses once, so that all its
    processes step the same environments.
    """
    env_id = str(config.env)
    spec = gym.registry.get(env_id)
    is_simulated = spec and str(spec.entry_point).startswith(_SIMULATED)
    is_plain = config.vectorization == "auto" and not config.preprocess
    if not is_simulated or not is_plain or config.env_kwargs or config.single_only:
        return config
    try:
        from xagents_ray.actors.envs import pool
    except ImportError:
        return config
    chosen = dataclasses.replace(config, vectorization="envpool")
    return chosen if pool.has_env(env_id) else config


def make_envs(
    config: EnvConfig, n_envs: int, threads: int, first_index: int = 0
) -> Envs:
    """Return vector environments that use up to `threads` cores, where supported.

    Their factories receive the indices `first_index` to `first_index + n_envs - 1`.

    Raises:
        UserError: the environment or this vectorization of it does not exist.
    """
    with registry.named_modules(config):
        return _make_envs(config, n_envs, threads, first_index)


def _make_envs(config: EnvConfig, n_envs: int, threads: int, first_index: int) -> Envs:
    env_id = str(config.env)
    own = registry.find_factory(env_id)
    mode = config.vectorization
    try:
        if mode == "envpool":
            return Envs(_envpool(config, n_envs, threads), config)
        if own is not None and factory.makes_vectors(own):
            made = vector_forms.user_vector(config, own, n_envs, first_index)
            return Envs(made, config)
        if own is None and mode in ("auto", "vector"):
            if (
                envs := vector_forms.native_vector(config, n_envs, threads)
            ) is not None:
                return Envs(envs, config)
        if mode == "vector":
            raise UserError(
                f"{env_id} has no vector environment of its own: use "
                "--vectorization auto."
            )
        numbers = range(first_index, first_index + n_envs)
        makes = [functools.partial(_single, config, own, number) for number in numbers]
        kind = vector_forms.AsyncEnvs if mode == "async" else vector_forms.SyncEnvs
        return Envs(kind(makes), config)
    except gym.error.Error as error:
        raise registry.unknown_environment(env_id, error) from None
    except RuntimeError as error:
        if not re.search(_OTHER_SPACES, str(error)):
            raise
        raise UserError(
            f"--env {env_id} makes environments whose spaces differ: give all of them "
            "the same observation_space and action_space."
        ) from None


def make_one(config: EnvConfig, render_mode: str | None, index: int = 0) -> Envs:
    """Return `Envs` of a single environment, ignoring the config's `vectorization`.

    Args:
        config: settings of the environment.
        render_mode: `rgb_array` for `Envs.picture`, None for no pictures.
        index: index that the environment's factory gets.

    Raises:
        UserError: the environment doesn't exist, or doesn't take the render mode.
    """
    own = registry.find_factory(str(config.env))
    with registry.named_modules(config):
        if own is not None and factory.makes_vectors(own):
            made = vector_forms.user_vector(config, own, 1, index, render_mode)
            return Envs(made, config)
        make = functools.partial(make_single, config, render_mode, index)
        return Envs(vector_forms.SyncEnvs([make]), config)


def make_single(
    config: EnvConfig, render_mode: str | None, index: int = 0
) -> gym.Env[Any, Any]:
    """Return a single Gymnasium environment; UserError if it can't be created."""
    env_id = str(config.env)
    own = registry.find_factory(env_id)
    if own is not None and factory.makes_vectors(own):
        raise UserError(
            f"{env_id} makes vector environments and there is no single one: call it "
            "yourself, with num_envs=1 or more."
        )
    try:
        return _single(config, own, index, render_mode)
    except gym.error.Error as error:
        raise registry.unknown_environment(env_id, error) from None
    except TypeError as error:
        if "'render_mode'" not in str(error):
            raise
        raise no_pictures(env_id) from None


def make_stacked(
    config: EnvConfig,
    stack: int,
    render_mode: str | None,
    arrays: Mapping[str, Array] = MappingProxyType({}),
) -> gym.Env[Any, Any]:
    """Return one environment as a policy sees it, with stacked frames.

    It has an index of its own in this process, since a user steps it. Its normalizing
    wrappers use the statistics among the policy's `arrays`, without updating them.

    Raises:
        UserError: the environment doesn't exist, or doesn't take the render mode.
    """
    env = make_single(config, render_mode, indices.next_own_index(config))
    wrapper_statistics.load_into(env, arrays)
    return stacked.stack_images(env, stack)


@registry.without_version_warning()
def _single(
    config: EnvConfig,
    own: factory.Factory | None,
    index: int,
    render_mode: str | None = None,
) -> gym.Env[Any, Any]:
    """Return the environment with this index, with the config's wrappers."""
    env_id = str(config.env)
    with registry.named_modules(config):
        if own is None:
            env = _registered(config, render_mode)
        else:
            given = config.arguments
            env = factory.call_factory(env_id, own, given, index, render_mode)
            if not isinstance(env, gym.Env):
                env = old_gym.adapt_made(env_id, env, render_mode)
        is_own = bool(config.wrappers) or registry.is_user_defined(env_id, own, env)
        env = wrapping.wrap_env(env, config)
    is_changed = config.preprocess or config.state_to_input is not None
    if is_own and (is_changed or named_inputs.has_parts(env)):
        env, is_own = interface.InterfaceCheck(env, env_id), False
    if config.action_masks:  # --state-to-input is given all that the environment gives
        keeps_key = config.state_to_input is not None
        env = action_masks.report_masks(env, env_id, keeps_key)
    if config.preprocess and _is_image(env := wrapping.with_channels_last(env), env_id):
        if own is not None and (skip := atari.frames_per_step(env)) != 1:
            raise UserError(
                f"--preprocess repeats each action for {atari.SKIP} frames, and the "
                f"environment that {env_id} makes repeats it for {skip}: make it with "
                "frameskip=1, or drop --preprocess."
            )
        env = atari.AtariPreprocessing(env, config.max_frame)
    if config.state_to_input is not None:
        env, is_own = wrapping.transform_observations(env, config.state_to_input), True
        if named_inputs.has_parts(env):
            env, is_own = interface.InterfaceCheck(env, env_id), False
    env = named_inputs.as_arrays(env)
    env = interface.InterfaceCheck(env, env_id) if is_own else env
    made: gym.Env[Any, Any] = wrapping.with_channels_last(env)
    return made


def _registered(config: EnvConfig, render_mode: str | None) -> gym.Env[Any, Any]:
    """Return one environment of Gymnasium's registry."""
    found, arguments = registry.find_registered(str(config.env)), config.arguments
    options: dict[str, Any] = {"render_mode": render_mode} if render_mode else {}
    if config.preprocess and atari.emulator_settings(found) is not None:
        if "frameskip" in arguments:
            raise UserError(
                f"--preprocess repeats each action for {atari.SKIP} frames: leave "
                "frameskip out of --env-kwargs, or drop --preprocess."
            )
        options["frameskip"] = 1
    try:
        return gym.make(found, **{**arguments, **options})
    except (UserError, Diverged, Stopped, gym.error.Error):
        raise
    except Exception as error:
        wrong = str(error).partition("unexpected keyword argument ")[2]
        if unknown := [name for name in arguments if wrong.startswith(repr(name))]:
            raise UserError(
                f"--env-kwargs: {config.env} takes no {unknown[0]}; leave it out."
            ) from None
        raise _why_not_made(str(config.env), error) from None


def _why_not_made(env_id: str, error: Exception) -> Exception:
    """Return the error of an environment's own code, or what Gymnasium refused."""
    first = error.__context__ if isinstance(error, TypeError) else None
    # Gymnasium raises a constructor's TypeError anew, without its line.
    own = first if isinstance(first, TypeError) else error
    if place_that_raised(own) or shortage(own) or "'render_mode'" in str(own):
        return own
    return UserError(
        f"--env {env_id} can't be made ({one_line(own)}): correct --env-kwargs, or how "
        "it is registered."
    )


def _is_image(env: gym.Env[Any, Any], env_id: str) -> bool:
    """Return whether observations are frames; raise UserError if those aren't RGB."""
    space = env.observation_space
    if space.dtype != np.uint8 or len(shape := space.shape or ()) not in (2, 3):
        return False
    if shape[2:] != (3,):
        raise UserError(
            f"--preprocess takes frames of three colors, [H, W, 3], and those of "
            f"{env_id} are {[*shape]}: leave it out, or what changes the frames before."
        )
    return True


def _envpool(config: EnvConfig, n_envs: int, threads: int) -> Any:
    vector_forms.refuse_single_only(config, "--vectorization envpool")
    try:
        from xagents_ray.actors.envs import pool
    except ImportError:
        raise UserError(
            "--vectorization envpool needs EnvPool: pip install "
            "'xagents-ray[envpool]', or take --vectorization sync."
        ) from None
    return pool.make_envpool(config, n_envs, threads)
