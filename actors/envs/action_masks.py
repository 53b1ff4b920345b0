"""Masks of the actions that an environment allows: found, read and checked.

Environments give them as `info["action_mask"]`, by a method `action_masks()`, or as the
key `action_mask` of a Dict observation. All become the entry of `info`, at `reset` too.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from xagents_ray.actors.envs import factory, interface
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Array, BoolArray

KEY = "action_mask"
"""Key of a mask in `info`, or in a Dict observation."""
_METHOD = "action_masks"
_REMEDY = "or add --no-action-masks to ignore it"


class ReportedMasks(gym.Wrapper[Any, Any, Any, Any]):
    """Puts the masks of a method into `info`; added by this package, not the user."""

    def __init__(self, env: gym.Env[Any, Any], method: Callable[[], Any]) -> None:
        super().__init__(env)
        self._method = method

    def reset(self, **given: Any) -> Any:
        observation, info = self.env.reset(**given)
        return observation, {**info, KEY: self._method()}

    def step(self, action: Any) -> Any:
        *results, terminated, truncated, info = self.env.step(action)
        # No action is needed after an end, where some methods raise.
        mask = None if terminated else self._method()
        return *results, terminated, truncated, {**info, KEY: mask}


class ObservedMasks(gym.Wrapper[Any, Any, Any, Any]):
    """Puts the masks of a Dict observation into `info`.

    Args:
        env: the environment.
        keeps_key: whether the observation has the key still.
    """

    def __init__(self, env: gym.Env[Any, Any], keeps_key: bool) -> None:
        super().__init__(env)
        self._keeps_key = keeps_key
        if not keeps_key:
            self.observation_space = _other_inputs(env.observation_space)

    def reset(self, **given: Any) -> Any:
        observation, info = self.env.reset(**given)
        rest, mask = _split(observation)
        shown = observation if self._keeps_key else rest
        return shown, {**info, KEY: mask}

    def step(self, action: Any) -> Any:
        observation, *results, info = self.env.step(action)
        rest, mask = _split(observation)
        shown = observation if self._keeps_key else rest
        return shown, *results, {**info, KEY: mask}


class VectorMasks(gym.vector.VectorWrapper):
    """Puts a vector environment's masks into `infos`, as the two classes above do."""

    def __init__(self, envs: Any, method: Callable[[BoolArray], Any] | None) -> None:
        super().__init__(envs)
        self._method = method
        if method is None:
            single = _other_inputs(envs.single_observation_space)
            self.single_observation_space = single
            space = gym.vector.utils.batch_space(single, envs.num_envs)
            self.observation_space = space

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        """Begin an episode in every environment."""
        observations, infos = self.env.reset(seed=seed, options=options)
        return self._reported(observations, infos, np.zeros(self.num_envs, np.bool_))

    def step(self, actions: Any) -> Any:
        observations, reward, terminated, *rest, infos = self.env.step(actions)
        observations, infos = self._reported(observations, infos, terminated)
        return observations, reward, terminated, *rest, infos

    def _reported(
        self, observations: Any, infos: Any, terminated: BoolArray
    ) -> tuple[Any, Any]:
        if self._method is not None:
            return observations, {**infos, KEY: self._method(terminated)}
        rest, masks = _split(observations)
        if isinstance(masks, tuple):  # of a Tuple space: a batch of each part
            masks = [*zip(*masks, strict=True)]
        return rest, {**infos, KEY: masks}


_KINDS = (ReportedMasks, ObservedMasks, VectorMasks)


def report_masks(env: Any, env_id: str, keeps_key: bool = False) -> Any:
    """Return a single or vector environment that has its masks in `info`.

    It is the same one if masks are found neither in its observations nor by a method.

    Args:
        env: the environment.
        env_id: name of the environment, for messages.
        keeps_key: whether the observations of a single environment have the key still.
    Raises:
        EnvironmentFault: the method takes arguments.
    """
    is_vector = isinstance(env, gym.vector.VectorEnv)
    name = "single_observation_space" if is_vector else "observation_space"
    if has_mask_key(getattr(env, name, None)):
        return VectorMasks(env, None) if is_vector else ObservedMasks(env, keeps_key)
    if is_vector:
        of_all = _find_vector_method(env, env_id)
        return env if of_all is None else VectorMasks(env, of_all)
    method = _find_method(env, env_id)
    return env if method is None else ReportedMasks(env, method)


def has_mask_key(space: Any) -> bool:
    """Return whether a space is a Dict with masks and something else."""
    return isinstance(space, gym.spaces.Dict) and KEY in space.spaces and len(space) > 1


def reports_masks(env: Any) -> bool:
    """Return whether `report_masks` changed a single or vector environment."""
    return any(isinstance(x, _KINDS) for x in interface.wrapper_layers(env))


class MaskReader:
    """Reads masks from the infos of B environments.

    Args:
        spec: spec of the environments.
        fault: function of an entry and a remedy that returns the error to raise.
    """

    def __init__(self, spec: EnvSpec, fault: Callable[[Any, str], UserError]) -> None:
        sizes = spec.action_sizes or (spec.n_actions,)
        self._begins, self._units = np.cumsum([0, *sizes[:-1]]), sum(sizes)
        self._sizes, self._fault = sizes, fault
        self._form = f"{self._units} numbers, 1 where an action is allowed and else 0"

    def read(self, infos: Mapping[Any, Any], ended: BoolArray) -> BoolArray:
        """Return the masks, bool [B, action_units]; never all False for an action.

        An environment whose episode has ended, bool [B], may give no mask, or one that
        allows nothing; all of its actions then count as allowed.

        Raises:
            EnvironmentFault: a mask has another form, or allows nothing.
        """
        values = infos.get(KEY)
        if values is None:
            values = [None] * len(ended)
        if _length(values) != len(ended):
            raise self._fault(values, "give one for each environment")
        rows = values if isinstance(values, np.ndarray) else np.empty(0, object)
        is_whole = rows.dtype != object and rows.shape == (len(ended), self._units)
        if not (is_whole and _is_zero_or_one(rows)):
            pairs = zip(values, ended.tolist(), strict=True)
            rows = np.stack([self._row(*each) for each in pairs])
        masks = np.array(rows, np.bool_)
        counts = np.add.reduceat(masks, self._begins, axis=1, dtype=np.int64)
        if (counts == 0).any():
            for i in np.flatnonzero((counts == 0).any(axis=1) & ~ended).tolist():
                raise self._fault(values[i], "allow an action until the episode ends")
            masks |= np.repeat(counts == 0, self._sizes, axis=1)
        return masks

    def given(self, masks: Any, ended: BoolArray) -> BoolArray:
        """Return masks that a user passes; see `read`.

        Args:
            masks: one mask, if B is 1, or a batch of them.
            ended: bool [B], environments that take no action.
        """
        is_batch = _length(masks) == 1 and _length(masks[0]) is not None
        is_one = len(ended) == 1 and not is_batch
        return self.read({KEY: [masks] if is_one else masks}, ended)

    def _row(self, value: Any, has_ended: bool) -> Array:
        """Return one environment's mask: [action_units] of 0 and 1."""
        if value is None and has_ended:
            return np.ones(self._units, np.bool_)
        with_parts = isinstance(value, tuple | list) and len(value) == len(self._sizes)
        sizes = self._sizes if with_parts else (self._units,)
        try:
            parts = [np.ravel(x) for x in value] if with_parts else [np.asarray(value)]
            is_right = [each.shape for each in parts] == [(size,) for size in sizes]
            row = np.concatenate(parts) if is_right else np.empty(0)
        except ValueError:  # lists of numbers and of lists
            row = np.empty(0)
        if row.shape != (self._units,) or not _is_zero_or_one(row):
            raise self._fault(value, f"give {self._form}, {_REMEDY}")
        return row


def _length(values: Any) -> int | None:
    """Return the length of a sequence, whose items may differ in size; else None."""
    is_array = isinstance(values, np.ndarray) and values.ndim > 0
    return len(values) if is_array or isinstance(values, list | tuple) else None


def sample_action(space: Any, mask: Any) -> Any:
    """Return a random action of a space, drawn by its own generator.

    If the mask is not None, it is one that the mask allows.
    """
    if mask is None:
        return space.sample()
    if isinstance(space, gym.spaces.Discrete):
        return space.sample(np.asarray(mask, np.int8))
    is_binary = isinstance(space, gym.spaces.MultiBinary)
    sizes = np.full(space.shape, 2) if is_binary else space.nvec
    joined = np.concatenate([*map(np.ravel, mask)]).astype(np.int8)
    parts = tuple(np.split(joined, np.cumsum(sizes.ravel())[:-1]))
    flat = gym.spaces.MultiDiscrete(sizes.ravel(), seed=space.np_random)
    first = 0 if is_binary else space.start
    return (flat.sample(parts).reshape(space.shape) + first).astype(space.dtype)


def sample_allowed(envs: Any, infos: Mapping[Any, Any]) -> Any:
    """Return random actions of a vector environment that its infos' masks allow."""
    if (masks := infos.get(KEY)) is None:
        return envs.action_space.sample()
    space = envs.single_action_space
    return np.stack([np.asarray(sample_action(space, mask)) for mask in masks])


def _is_zero_or_one(array: Array) -> bool:
    if array.dtype.kind == "b":
        return True
    return array.dtype.kind in "iuf" and bool(((array == 0) | (array == 1)).all())


def _find_method(env: Any, env_id: str) -> Callable[[], Any] | None:
    """Return the method of an environment that gives masks, if a layer has one."""
    for layer in interface.wrapper_layers(env):
        if callable(method := getattr(layer, _METHOD, None)):
            subject = f"--env {env_id}: {_METHOD}()"
            remedy = f"let it take none, {_REMEDY}"
            factory.check_call(subject, method, "no arguments", remedy)
            return method  # type: ignore[no-any-return]
    return None


def _find_vector_method(envs: Any, env_id: str) -> Callable[[BoolArray], Any] | None:
    """Return a function that gives the masks of a vector environment, if there is one.

    Its argument, bool [B], tells which environments have terminated. Their masks aren't
    read: None or ones are in their place. The methods of those in a SyncVectorEnv
    aren't called, nor is one of the vector environment when all have terminated.
    """
    if (method := _find_method(envs, env_id)) is not None:
        return functools.partial(_masks_of_others, method)
    *_, base = interface.wrapper_layers(envs)
    if not isinstance(base, gym.vector.SyncVectorEnv):
        return None
    found = [_find_method(each, env_id) for each in base.envs]
    methods = [each for each in found if each is not None]
    if len(methods) < len(found):
        return None

    def masks(terminated: BoolArray) -> list[Any]:
        pairs = zip(methods, terminated.tolist(), strict=True)
        return [None if is_over else method() for method, is_over in pairs]

    return masks


def _masks_of_others(method: Callable[[], Any], terminated: BoolArray) -> Any:
    """Return the masks of a vector environment's method, except where it terminated.

    The method takes no argument that would leave some environments out, so one that
    raises while others need an action is a fault.
    """
    if terminated.all():
        return [None] * len(terminated)
    masks = method()
    if not terminated.any() or _length(masks) != len(terminated):
        return masks
    if isinstance(masks, np.ndarray) and masks.dtype != object:
        masks = masks.copy()
        masks[terminated] = 1  # an array of many environments is read at once
        return masks
    pairs = zip(masks, terminated.tolist(), strict=True)
    return [None if is_over else mask for mask, is_over in pairs]


def _other_inputs(space: Any) -> gym.Space[Any]:
    """Return the space of an observation without its masks."""
    others = [(key, each) for key, each in space.items() if key != KEY]
    if [key for key, _ in others] == ["observation"]:
        only: gym.Space[Any] = others[0][1]
        return only
    return gym.spaces.Dict(others)  # of pairs, whose order stays


def _split(observation: Any) -> tuple[Any, Any]:
    """Return an observation without its mask, and the mask."""
    others = {key: each for key, each in observation.items() if key != KEY}
    rest = others["observation"] if [*others] == ["observation"] else others
    return rest, observation[KEY]
