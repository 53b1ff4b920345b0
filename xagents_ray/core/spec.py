"""The environment spec that networks are built from."""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Goals(NamedTuple):
    """Positions of a goal environment's goals in its flattened observations.

    Attributes:
        achieved: start index of `achieved_goal`.
        desired: start index of `desired_goal`.
        size: length of each goal vector.
    """

    achieved: int
    desired: int
    size: int

    @property
    def slices(self) -> tuple[slice, slice]:
        """Slices of the achieved and of the desired goal."""
        achieved, desired, size = self
        return slice(achieved, achieved + size), slice(desired, desired + size)


class InfoField(NamedTuple):
    """An entry of `info` that is stored with each step.

    Attributes:
        key: key of the entry.
        dtype: dtype of its numbers.
        shape: shape of its numbers; () for a single one.
    """

    key: Any
    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of stored numbers, including the flag for whether it is present."""
        return 1 + math.prod(self.shape)


FORBIDDEN = -1e8
"""Logit or value of an action that a mask forbids."""
VECTOR = "_vector"
"""Name of the array with all vectors of an observation that has images, too."""


class InputSpec(NamedTuple):
    """A named input: one part of a Dict or Tuple observation.

    Attributes:
        name: key in the observation; keys of nested spaces are joined by dots, and
            parts of a Tuple are named by their indices.
        shape: `(H, W)` or `(H, W, C)` of a frame, or `(D,)` of a vector, to which all
            other spaces are flattened.
        begin: index of a vector's first component among all vectors, which are stored
            as one; None for an image.
    """

    name: str
    shape: tuple[int, ...]
    begin: int | None = None

    @property
    def is_image(self) -> bool:
        return self.begin is None

    @property
    def place(self) -> slice:
        """Slice of a vector's components among those of all vectors."""
        assert self.begin is not None
        return slice(self.begin, self.begin + self.shape[0])


@dataclass(frozen=True)
class EnvSpec:
    """Spaces of one environment, shared by all of its copies."""

    # `(84, 84)` or `(H, W, C)` of one frame, or `(D,)` of a vector; of the vectors
    # joined, `(0,)` for none, if `arrays` has several.
    observation_shape: tuple[int, ...]
    observation_dtype: str  # `uint8` or `float32`, as stored
    stack: int  # number of frames per network input; 1 for vectors
    n_actions: int  # number of discrete actions; 0 for any other space
    # Lower bounds of a continuous action; those of integers lie 0.5 outside the space.
    # Empty for a discrete action.
    action_low: tuple[float, ...] = ()
    action_high: tuple[float, ...] = ()  # upper bounds; empty if discrete
    # Number of choices for each component of a MultiDiscrete or MultiBinary action;
    # empty for other spaces.
    action_sizes: tuple[int, ...] = ()
    # What was flattened to vectors: the type of a space, such as `Dict`, or dtype and
    # shape of an array; "" if nothing was.
    flattened: str = field(default="", compare=False)
    goals: Goals | None = None  # None unless it is a goal environment
    # Whether the environment itself returns images as [C, H, W].
    channels_first: bool = field(default=False, compare=False)
    # Shapes of the statistics of its normalizing wrappers, outermost first.
    wrappers: tuple[tuple[int, ...], ...] = field(default=(), compare=False)
    # Class names of the user's wrappers with memory across episodes.
    remembering: tuple[str, ...] = field(default=(), compare=False)
    # Entries of `info` that are stored with each step, for rewards of other goals.
    info: tuple[InfoField, ...] = field(default=(), compare=False)
    # Named inputs of a Dict or Tuple observation; empty for one array. Vectors are
    # stored as one array, so that only images make it several.
    inputs: tuple[InputSpec, ...] = ()
    # Whether each observation comes with a mask of the actions that are allowed.
    has_action_masks: bool = False

    @property
    def has_several_arrays(self) -> bool:
        """Whether an observation is a dict of arrays in place of one array."""
        return len(self.inputs) > 1 and any(each.is_image for each in self.inputs)

    @property
    def arrays(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Dtype and shape of each array of an observation that has several, by name.

        They are those of the images, and of all vectors joined (`VECTOR`), if any.
        """
        found = {x.name: ("uint8", x.shape) for x in self.inputs if x.is_image}
        if self.observation_shape != (0,):
            found[VECTOR] = self.observation_dtype, self.observation_shape
        return found

    @property
    def is_image(self) -> bool:
        return len(self.observation_shape) > 1

    @property
    def info_size(self) -> int:
        """Number of stored numbers of a step's info."""
        return sum(each.size for each in self.info)

    @property
    def is_discrete(self) -> bool:
        """Whether an action is one integer or a vector of integers."""
        return self.n_actions > 0 or bool(self.action_sizes)

    @property
    def is_bounded(self) -> tuple[bool, ...]:
        """Whether each component of a continuous action has two finite bounds."""
        ends = zip(self.action_low, self.action_high, strict=True)
        return tuple(all(map(math.isfinite, each)) for each in ends)

    @property
    def action_shape(self) -> tuple[int, ...]:
        """Shape of an action: `()` or `(P,)` of integers, `(A,)` of floats."""
        return () if self.n_actions else (len(self.action_sizes or self.action_low),)

    @property
    def action_units(self) -> int:
        """Number of outputs of a policy head: logits, or means."""
        return self.n_actions or sum(self.action_sizes) or len(self.action_low)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of a network's input: `(H, W, stack * C)` for frames, else `(D,)`."""
        if not self.is_image:
            return self.observation_shape
        height, width, *channels = self.observation_shape
        return height, width, self.stack * (channels[0] if channels else 1)
