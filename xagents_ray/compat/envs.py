"""A list of environments that are made on demand."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xagents_ray import UserError, extend

if TYPE_CHECKING:
    import gymnasium as gym

_SKIPPED, _SHAPE = 4, (84, 84)


class EnvList(Sequence["gym.Env[Any, Any]"]):
    """A list of environments of one kind.

    An item is a Gymnasium environment that is made on first access. Training makes its
    own environments in the processes that step them, so the list can be pickled.

    Attributes:
        settings: settings of the environments by flat name.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings, self._config = settings, extend.EnvConfig.of(settings)
        self._made: dict[int, gym.Env[Any, Any]] = {}

    def __len__(self) -> int:
        return self._config.n_envs

    def __getitem__(self, index: Any) -> Any:
        """Return the environment at an index, or a list for a slice."""
        place = range(len(self))[index]
        if isinstance(place, range):
            return [self[each] for each in place]
        if place not in self._made:
            self._made[place] = _make(self._config)
        return self._made[place]

    def __reduce__(self) -> Any:
        return EnvList, (self.settings,)


def create_envs(
    env_name: Any,
    n: int = 1,
    preprocess: bool = True,
    frame_skips: int = _SKIPPED,
    resize_shape: tuple[int, int] = _SHAPE,
    max_frame: bool = False,
    **settings: Any,
) -> EnvList:
    """Return a list of environments.

    Args:
        env_name: the `env` of `train`, such as a Gymnasium ID.
        n: number of environments.
        preprocess: whether to treat images as Atari frames: every 4th, gray, 84x84.
        frame_skips: number of repeated frames; must be 4.
        resize_shape: size of frames; must be (84, 84).
        max_frame: whether to take the maximum of the last two frames.
        settings: `train` settings of environments, such as `frame_stack=1`, which was
            the default in xagents.
    Raises:
        UserError: a setting isn't supported.

    >>> from xagents_ray.utils.common import create_envs
    >>> envs = create_envs("CartPole-v1", 16, preprocess=False)
    >>> len(envs), envs[0].observation_space.shape
    (16, (4,))
    """
    if (frame_skips, tuple(resize_shape)) != (_SKIPPED, _SHAPE):
        raise UserError(
            f"create_envs takes every {_SKIPPED}th frame in {_SHAPE}: leave out "
            "frame_skips and resize_shape, or wrap the environment in a function."
        )
    own = {"env": env_name, "n_envs": n, "preprocess": preprocess}
    return EnvList({**own, "max_frame": max_frame, **settings})


def _make(config: extend.EnvConfig) -> "gym.Env[Any, Any]":
    """Return an environment; stacked frames of images are its channels."""
    import gymnasium as gym
    import numpy as np

    env, spec = extend.make_env(config)
    if not spec.is_image:  # several arrays keep their stacks, as `make_env` gives them
        return env
    space = gym.spaces.Box(0, 255, spec.input_shape, np.uint8)

    def as_channels(frames: Any) -> Any:
        stack = np.reshape(frames, (spec.stack, *spec.observation_shape))
        return np.moveaxis(stack, 0, 2).reshape(spec.input_shape)

    return gym.wrappers.TransformObservation(env, as_channels, space)
