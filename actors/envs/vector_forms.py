"""Vector environments: native ones, the user's, and lists of single environments."""

import functools
import warnings
from collections.abc import Callable, Collection, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from xagents_ray.actors.envs import (
    action_masks,
    atari,
    factory,
    interface,
    named_inputs,
    registry,
    wrapping,
)
from xagents_ray.actors.envs.wrapper_statistics import SharingEnv, is_normalizing
from xagents_ray.core.errors import UserError
from xagents_ray.core.printed import relaying_forks
from xagents_ray.settings.training import EnvConfig

_READ_INFO = ("is_success", "success", "lives")
"""Entries of `info` that training reads, besides those of `read_also`."""


@registry.without_version_warning()
def native_vector(config: EnvConfig, n_envs: int, threads: int) -> Any:
    """Return the native vector environment; None if there is none."""
    is_changed = bool(config.env_kwargs or config.single_only)
    if is_changed and config.vectorization == "auto":
        return None  # the native environment may not take these arguments
    refuse_single_only(config, "--vectorization vector")
    env = registry.find_registered(str(config.env))
    atari_settings = atari.emulator_settings(env)
    if atari_settings is not None:
        if not config.preprocess or is_changed:
            return None
        if not atari.has_ale_vector(atari_settings):
            return None
        return atari.make_ale_vector(atari_settings, n_envs, threads, config.max_frame)
    spec = gym.spec(env) if isinstance(env, str) else env
    if config.preprocess or spec.vector_entry_point is None:
        return None
    _refuse_num_envs(config)
    envs = gym.make_vec(env, n_envs, "vector_entry_point", **config.arguments)
    _check_autoreset(envs, str(config.env))
    actions = getattr(envs, "action_space", None)
    if type(actions) is gym.spaces.MultiDiscrete:
        envs.action_space = _OwnActions(actions.nvec, start=actions.start)
    if config.action_masks:
        envs = action_masks.report_masks(envs, str(config.env))
    return wrapping.with_channels_last(named_inputs.as_arrays(envs))


def user_vector(
    config: EnvConfig,
    own: factory.Factory,
    n_envs: int,
    first_index: int,
    render_mode: str | None = None,
) -> Any:
    """Return the vector environment that the user's factory makes."""
    env_id = str(config.env)
    if config.vectorization not in ("auto", "vector") or config.preprocess:
        flag = "--preprocess" if config.preprocess else "--vectorization"
        raise UserError(
            f"{env_id} takes num_envs and makes vector environments, to which {flag} "
            f"can't be applied: leave {flag} out."
        )
    refuse_single_only(config, f"a factory of vector environments, {env_id}")
    _refuse_num_envs(config)
    envs = factory.call_vector_factory(
        env_id, own, config.arguments, n_envs, first_index, render_mode
    )
    _check_autoreset(envs, env_id)
    if type(envs) in (gym.vector.SyncVectorEnv, gym.vector.AsyncVectorEnv):
        # Only a wrapper would read other entries of the infos.
        envs.read_also = frozenset()
        envs._add_info = functools.partial(InfoReader._add_info, envs)
    if named_inputs.has_parts(envs):
        envs = interface.VectorCheck(envs, env_id)
    if config.action_masks:
        envs = action_masks.report_masks(envs, env_id)
    return wrapping.with_channels_last(named_inputs.as_arrays(envs))


def refuse_single_only(config: EnvConfig, where: str) -> None:
    """Raise UserError for a setting that vector environments don't support."""
    for flag in config.single_only:
        raise UserError(
            f"{flag} changes environments one by one, which {where} doesn't allow: "
            "leave one of the two out."
        )


def _refuse_num_envs(config: EnvConfig) -> None:
    if "num_envs" in config.arguments:
        raise UserError(
            "--env-kwargs num_envs is what --n-envs sets: give that instead."
        )


def _check_autoreset(envs: Any, env_id: str) -> None:
    """Raise UserError unless the environment resets on the step after an episode."""
    mode = envs.metadata.get("autoreset_mode", gym.vector.AutoresetMode.NEXT_STEP)
    if mode not in (gym.vector.AutoresetMode.NEXT_STEP, "NextStep"):
        envs.close()
        raise UserError(
            f"The vector environment of {env_id} has autoreset_mode {mode}, but "
            "training needs NEXT_STEP: use --vectorization sync, or make it reset on "
            "the step after an episode's end."
        )


class InfoReader:
    """Keeps only the entries of `info` that are read.

    Gymnasium would turn other entries into arrays, which requires the same shape and
    type in all environments.

    Attributes:
        read_also: keys of further entries to keep.
    """

    num_envs: int
    read_also: frozenset[Any] = frozenset()

    def _add_info(
        self, vector_infos: dict[str, Any], env_info: dict[str, Any], env_num: int
    ) -> dict[str, Any]:
        """Add an environment's entries to object arrays [B], None where missing."""
        for name in (*_READ_INFO, *self.read_also):
            if name in env_info:
                if name not in vector_infos:
                    vector_infos[name] = np.full(self.num_envs, None, object)
                vector_infos[name][env_num] = env_info[name]
        return vector_infos


def read_also(envs: Any, keys: Collection[Any]) -> None:
    """Make a vector environment keep further entries of `info`, if it drops any."""
    *_, base = interface.wrapper_layers(envs)
    if hasattr(base, "read_also"):
        base.read_also |= {*keys}


class SyncEnvs(InfoReader, gym.vector.SyncVectorEnv):
    """Environments that are stepped one after another."""


class AsyncEnvs(InfoReader, gym.vector.AsyncVectorEnv):
    """AsyncVectorEnv that prints a user error once, without Gymnasium's red text.

    Attributes:
        one: closed copy of the first environment, which describes all of them.
    """

    def __init__(self, makes: Sequence[Callable[[], Any]]) -> None:
        self.one = makes[0]()
        self.one.close()
        if any(map(is_normalizing, interface.wrapper_layers(self.one))):
            makes = [functools.partial(SharingEnv, make) for make in makes]
        with relaying_forks():
            super().__init__(makes)

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
        for each in noted:  # these contain the traceback that the error lost
            warnings.warn(each.message, stacklevel=2)
        raise raised


class _OwnActions(gym.spaces.MultiDiscrete):
    """Accepts all actions; checking our policies' takes a fifth of CartPole's time."""

    def contains(self, x: Any) -> bool:
        return True
