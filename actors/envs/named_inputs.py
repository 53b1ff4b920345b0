"""Observations that are not arrays, as a network's inputs.

Images within a Dict or Tuple stay images; all other spaces are flattened to vectors.
"""

import functools
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.spaces.utils import flatdim, flatten, flatten_space
from gymnasium.vector.utils import batch_space, iterate

from xagents_ray.actors.envs import interface, wrapping
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import VECTOR, Goals, InputSpec
from xagents_ray.core.trajectory import Array, Observations


class Part(NamedTuple):
    """A part of an observation: a space within Dict and Tuple spaces.

    Attributes:
        keys: keys or indices of the part, from the outermost space inwards.
        space: space of the part.
    """

    keys: tuple[Any, ...]
    space: Any

    @property
    def name(self) -> str:
        return ".".join(map(str, self.keys))

    @property
    def is_image(self) -> bool:
        return wrapping.is_image(self.space)

    @property
    def has_channels_first(self) -> bool:
        """Whether it is an image [C, H, W], which becomes [H, W, C]."""
        return self.is_image and wrapping.come_channels_first(self.space.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the network's input: of one frame, or of a vector."""
        if not self.is_image:
            return (flatdim(self.space),)
        shape: tuple[int, ...] = self.space.shape
        if self.has_channels_first:
            return (*shape[1:], shape[0])
        return shape[1:] if len(shape) == 3 and shape[0] == 1 else shape

    @property
    def box(self) -> gym.spaces.Box:
        """Space of the network's input, without stacked frames."""
        if self.is_image:
            return gym.spaces.Box(0, 255, self.shape, np.uint8)
        flat: Any = flatten_space(self.space)
        with np.errstate(over="ignore"):
            low, high = (x.astype(np.float32) for x in (flat.low, flat.high))
        return gym.spaces.Box(low, high, dtype=np.float32)

    def array(self, observation: Any, batch: int | None = None) -> Array:
        """Return the network's input, from an observation or a batch of this size.

        It is uint8 [..., H, W] or [..., H, W, C], or float32 [..., D].
        """
        value = functools.reduce(operator.getitem, self.keys, observation)
        lead = () if batch is None else (batch,)
        if self.is_image:
            frames = np.asarray(value, np.uint8)
            if self.has_channels_first:
                frames = np.moveaxis(frames, -3, -1)
            return frames.reshape(*lead, *self.shape)
        if isinstance(self.space, gym.spaces.Box):
            return np.asarray(value, np.float32).reshape(*lead, -1)
        if batch is None:
            return np.asarray(flatten(self.space, value), np.float32)
        rows = iterate(batch_space(self.space, batch), value)
        flat: list[Any] = [flatten(self.space, row) for row in rows]
        return np.stack(flat).astype(np.float32)


def is_composite(space: Any) -> bool:
    """Return whether a space is a Dict or a Tuple."""
    return isinstance(space, gym.spaces.Dict | gym.spaces.Tuple)


def parts_of(space: Any, keys: tuple[Any, ...] = ()) -> Iterator[Part]:
    """Yield the parts of a space, in the order in which Gymnasium flattens them."""
    if isinstance(space, gym.spaces.Dict):
        for key, each in space.spaces.items():
            yield from parts_of(each, (*keys, key))
    elif isinstance(space, gym.spaces.Tuple):
        for index, each in enumerate(space.spaces):
            yield from parts_of(each, (*keys, index))
    else:
        yield Part(keys, space)


def input_specs(space: Any) -> tuple[InputSpec, ...]:
    """Return the named inputs of a Dict or Tuple space; () for any other."""
    found: list[InputSpec] = []
    begin = 0
    for part in parts_of(space) if is_composite(space) else ():
        if part.is_image:
            found.append(InputSpec(part.name, part.shape))
        else:
            found.append(InputSpec(part.name, part.shape, begin))
            begin += part.shape[0]
    return tuple(found)


def check_parts(space: Any, env: str) -> None:
    """Raise UserError if parts of a space can't be a network's inputs.

    `env` names the environment.
    """
    names: set[str] = set()
    for part in parts_of(space):
        at = f" {part.name}" if part.keys else ""
        if not _has_size(part.space):
            raise UserError(
                f"{env} has {type(part.space).__name__} observations{at}, whose size "
                "isn't fixed: make an array of each with --state-to-input."
            )
        if part.name in names:
            raise UserError(
                f"{env} has two observations of the name {part.name}: name the keys "
                "of its Dict without dots, or return another dict from "
                "--state-to-input."
            )
        if part.is_image and part.name == VECTOR:
            raise UserError(
                f"{env} has an image {VECTOR}, which is the name of all vectors "
                "together: name its key otherwise."
            )
        names.add(part.name)


def _has_size(space: gym.Space[Any]) -> bool:
    return space.is_np_flattenable and not isinstance(space, gym.spaces.Text)


def join_vectors(
    named: Mapping[str, Array], inputs: Sequence[InputSpec]
) -> dict[str, Array]:
    """Return named inputs as `EnvSpec.arrays` has them: vectors [..., D] joined."""
    arrays = {each.name: named[each.name] for each in inputs if each.is_image}
    vectors = [named[each.name] for each in inputs if not each.is_image]
    if vectors:
        arrays[VECTOR] = np.concatenate(vectors, axis=-1)
    return arrays


class InputArrays:
    """Turns the observations of a Dict or Tuple space with images into arrays.

    Attributes:
        space: space of the arrays: a Dict by the inputs' names, or the space of the
            only one.
    """

    def __init__(self, space: Any) -> None:
        self._parts = [*parts_of(space)]
        boxes = [(part.name, part.box) for part in self._parts]
        self.space: Any = gym.spaces.Dict(boxes) if len(boxes) > 1 else boxes[0][1]

    def __call__(self, observation: Any, batch: int | None = None) -> Observations:
        """Return the arrays of an observation, or of a batch of this size."""
        found = {part.name: part.array(observation, batch) for part in self._parts}
        return found if len(found) > 1 else next(iter(found.values()))


class FlattenedEnv(gym.wrappers.FlattenObservation[Any, Any, Any]):
    """FlattenObservation that this package added, not the user."""


class FlattenedVector(gym.wrappers.vector.FlattenObservation):
    """FlattenObservation for vector environments, added by this package."""


class NamedInputs(gym.ObservationWrapper[Any, Any, Any]):
    """Returns Dict or Tuple observations with images as arrays by name.

    If there is only one part, its array is returned alone.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self._arrays = InputArrays(env.observation_space)
        self.observation_space = self._arrays.space

    def observation(self, observation: Any) -> Observations:
        return self._arrays(observation)


class NamedVectorInputs(gym.vector.VectorWrapper):
    """NamedInputs for vector environments."""

    def __init__(self, envs: Any) -> None:
        super().__init__(envs)
        self._arrays = InputArrays(envs.single_observation_space)
        self.single_observation_space = self._arrays.space
        self.observation_space = batch_space(self._arrays.space, envs.num_envs)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        """Begin an episode in every environment."""
        observations, infos = self.env.reset(seed=seed, options=options)
        return self._arrays(observations, self.num_envs), infos

    def step(self, actions: Any) -> Any:
        observations, *results = self.env.step(actions)
        return self._arrays(observations, self.num_envs), *results


def as_arrays(env: Any) -> Any:
    """Return a single or vector environment whose observations are arrays.

    Gymnasium's wrapper flattens Dict, Tuple and discrete observations to vectors, but
    those with images become arrays by name. Spaces without a fixed size are left
    unchanged.
    """
    is_vector = isinstance(env, gym.vector.VectorEnv)
    space = _space_of(env)
    if not isinstance(space, gym.Space) or isinstance(space, gym.spaces.Box):
        return env
    parts = [*parts_of(space)]
    if not all(_has_size(part.space) for part in parts):
        return env
    if any(part.is_image for part in parts):
        return NamedVectorInputs(env) if is_vector else NamedInputs(env)
    return FlattenedVector(env) if is_vector else FlattenedEnv(env)


def _space_of(env: Any) -> Any:
    """Return the space of one observation of a single or vector environment."""
    is_vector = isinstance(env, gym.vector.VectorEnv)
    name = "single_observation_space" if is_vector else "observation_space"
    return getattr(env, name, None)


def has_parts(env: Any) -> bool:
    """Return whether observations of a single or vector environment have parts."""
    return is_composite(_space_of(env))


def space_before_arrays(env: Any) -> gym.Space[Any] | None:
    """Return the space of one observation before `as_arrays`; None if unchanged."""
    layers = interface.wrapper_layers(env)
    if isinstance(env, gym.vector.VectorEnv):
        of_vectors = FlattenedVector | NamedVectorInputs
        found = [each for each in layers if isinstance(each, of_vectors)]
        return found[0].env.single_observation_space if found else None
    inner = [each for each in layers if isinstance(each, FlattenedEnv | NamedInputs)]
    return inner[0].env.observation_space if inner else None


def moves_channels(space: Any) -> bool:
    """Return whether a Dict or Tuple space has images [C, H, W]."""
    return is_composite(space) and any(p.has_channels_first for p in parts_of(space))


def goals_of(space: gym.Space[Any] | None) -> Goals | None:
    """Return the positions of the goals among the vectors of a space's observations.

    Return None unless it is the space of a goal environment: a Dict of `observation`,
    `achieved_goal` and `desired_goal`, with goal vectors of the same size.
    """
    names = "achieved_goal", "desired_goal"
    if not isinstance(space, gym.spaces.Dict) or not {"observation", *names} <= {
        *space
    }:
        return None
    places = {each.name: each for each in input_specs(space)}
    if not {*names} <= places.keys():
        return None
    achieved, desired = (places[name] for name in names)
    shapes = {space[name].shape for name in names}
    if shapes != {achieved.shape} or achieved.begin is None or desired.begin is None:
        return None
    return Goals(achieved.begin, desired.begin, achieved.shape[0])
