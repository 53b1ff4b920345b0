"""The spec of an environment, from its spaces."""

from typing import Any

import gymnasium as gym
import numpy as np

from xagents_ray.actors.envs import named_inputs, wrapping
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec, InputSpec
from xagents_ray.settings.training import EnvConfig


def spec_of(
    observations: gym.Space[Any],
    actions: gym.Space[Any],
    config: EnvConfig,
    made_at: str,
    own: gym.Space[Any] | None = None,
) -> EnvSpec:
    """Return the spec of an environment with the given spaces.

    uint8 observations of two or three dimensions are frames; all others are vectors,
    flattened when they have more than one dimension. Errors name `made_at`, the file
    and line of a user-defined environment; it is "" for a library's. `own` is the space
    of one observation before `named_inputs.as_arrays`; None if it is the same.
    """
    env = f"{config.env} ({made_at})" if made_at else str(config.env)
    named_inputs.check_parts(observations if own is None else own, env)
    named, facts = named_inputs.input_specs(own), action_facts(actions, env)
    facts |= {
        "goals": named_inputs.goals_of(own),
        "channels_first": named_inputs.moves_channels(own),
    }
    if not isinstance(observations, gym.spaces.Box):
        return _spec_of_several(named, config, facts)
    shape, flattened = observations.shape, ""
    is_image = wrapping.is_image(observations)
    if not is_image:
        if own is not None:
            flattened = type(own).__name__
        elif len(shape) > 1:
            flattened = f"{observations.dtype} {list(shape)}"
        shape = (int(np.prod(shape)),)
        _refuse_image_flags(shape, config)
    elif len(shape) == 3 and shape[0] == 1:
        shape = shape[1:]  # AtariVectorEnv's stack of one frame
    return EnvSpec(
        observation_shape=shape,
        observation_dtype="uint8" if observations.dtype == np.uint8 else "float32",
        stack=config.frame_stack if is_image else 1,
        flattened=flattened,
        inputs=named,
        **facts,
    )


def _refuse_image_flags(shape: tuple[int, ...], config: EnvConfig) -> None:
    """Raise UserError for settings of images if observations are vectors."""
    stacked = config.frame_stack != EnvConfig.frame_stack
    if config.preprocess or stacked:
        flag = "--preprocess" if config.preprocess else "--frame-stack"
        raise UserError(
            f"{flag} is for images and the observations of {config.env} are "
            f"vectors of {shape[0]} numbers: leave the flag out."
        )


def _spec_of_several(
    named: tuple[InputSpec, ...], config: EnvConfig, facts: dict[str, Any]
) -> EnvSpec:
    """Return the spec of an environment with observations of several arrays."""
    if config.preprocess:
        raise UserError(
            f"--preprocess is for observations of one image and those of {config.env} "
            f"have the parts {', '.join(each.name for each in named)}: leave it out."
        )
    sizes = [each.shape[0] for each in named if not each.is_image]
    return EnvSpec(
        observation_shape=(sum(sizes),),
        observation_dtype="float32",
        stack=config.frame_stack,
        inputs=named,
        **facts,
    )


def action_facts(actions: gym.Space[Any], env: str) -> dict[str, Any]:
    """Return the fields of an EnvSpec that describe actions."""
    if isinstance(actions, gym.spaces.Discrete):
        return {"n_actions": int(actions.n)}
    if isinstance(actions, gym.spaces.MultiDiscrete):
        return {"n_actions": 0, "action_sizes": tuple(actions.nvec.ravel().tolist())}
    if isinstance(actions, gym.spaces.MultiBinary):
        return {"n_actions": 0, "action_sizes": (2,) * int(np.prod(actions.shape))}
    if isinstance(actions, gym.spaces.Box) and len(actions.shape) == 1:
        low, high = wrapping.action_bounds(actions)
        return {"n_actions": 0, "action_low": low, "action_high": high}
    raise UserError(
        f"{env} has the action space {actions}; only Discrete, MultiDiscrete, "
        "MultiBinary and one-dimensional Box actions are supported: wrap it with a "
        "gymnasium.ActionWrapper."
    )
