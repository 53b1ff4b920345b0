"""Finds user-defined wrappers that keep memory from one episode to the next."""

import random
import sys
from collections import deque
from contextlib import suppress
from typing import Any

import gymnasium as gym
import numpy as np

from xagents_ray.actors.envs import interface
from xagents_ray.actors.envs.action_masks import sample_allowed
from xagents_ray.actors.envs.wrapper_statistics import is_normalizing
from xagents_ray.core.user_code import is_library

_STEPS = 10
_DEPTH = 6
_SKIPPED = (
    gym.Env,
    gym.vector.VectorEnv,
    gym.Space,
    np.random.Generator,
    np.random.RandomState,
    random.Random,
)


def remembering_wrappers(envs: Any, reads_masks: bool) -> tuple[str, ...]:
    """Return the class names of user-defined wrappers with memory across episodes.

    They are those around a vector environment and within it. It is reset with the same
    seed before and after some random steps; the attributes of a wrapper without such
    memory are the same both times. Errors of the environments are ignored; the run
    reports them. With `reads_masks`, only actions that masks allow are taken.
    """
    *layers, base = interface.wrapper_layers(envs)
    if isinstance(base, gym.vector.SyncVectorEnv):
        layers += [*interface.wrapper_layers(base.envs[0])][:-1]
    layers = [
        layer
        for layer in layers
        if not is_library(type(layer).__module__) and not is_normalizing(layer)
    ]
    found: tuple[str, ...] = ()
    if not layers:
        return found
    with suppress(Exception):
        envs.action_space.seed(0)
        _, infos = envs.reset(seed=0)
        before = [_state_of(vars(layer), set()) for layer in layers]
        for _ in range(_STEPS):
            actions = sample_allowed(envs, infos if reads_masks else {})
            *_, infos = envs.step(actions)
        envs.reset(seed=0)
        pairs = zip(layers, before, strict=True)
        changed = [x for x, was in pairs if _state_of(vars(x), set()) != was]
        found = tuple(type(layer).__name__ for layer in changed)
    return found


def _state_of(value: Any, seen: set[int], depth: int = 0) -> str:
    """Return a string that differs if attributes other than environments differ.

    `seen` are ids of the objects that are part of it already.
    """
    if depth > _DEPTH or callable(value) or isinstance(value, _SKIPPED):
        return ""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return f"{value.dtype}{value.shape}{value.tobytes()!r}"
    if isinstance(value, list | tuple | deque | set | frozenset | np.ndarray):
        parts: Any = enumerate(value)
    elif isinstance(value, dict):
        parts = value.items()
    elif type(value).__module__.partition(".")[0] in sys.stdlib_module_names:
        return repr(value)  # numbers, strings, and objects such as loggers
    else:
        parts = getattr(value, "__dict__", {"": repr(value)}).items()
    if id(value) in seen:
        return ""
    seen.add(id(value))
    return str([(str(key), _state_of(x, seen, depth + 1)) for key, x in parts])
