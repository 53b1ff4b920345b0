"""Converts an environment's observations to network input, and actions back."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import VECTOR, EnvSpec
from xagents_ray.core.stacks import network_input
from xagents_ray.core.trajectory import Array, Observations, arrays_of
from xagents_ray.settings.training import EnvConfig

if TYPE_CHECKING:
    import gymnasium as gym


class Conversion:
    """Converts the observations and actions of one environment.

    Args:
        env_id: ID of the environment.
        spec: specification of the environment.
        observations: Gymnasium space of one observation, without stacked frames.
        actions: Gymnasium space of one action.
        own: space of one observation as the environment returns it; None if it is an
            array.
        unread: names of inputs that observations need not have.
    Attributes:
        spaces: spaces of observations, with stacked frames, and of actions.
        mask_reader: reader of action masks that a user passes; None without masks.
    """

    def __init__(
        self,
        env_id: str,
        spec: EnvSpec,
        observations: Any,
        actions: Any,
        own: Any,
        unread: Collection[str] = (),
    ) -> None:
        from gymnasium.spaces.utils import flatten

        from xagents_ray.actors.envs.action_masks import MaskReader
        from xagents_ray.actors.envs.named_inputs import is_composite, join_vectors
        from xagents_ray.actors.envs.stacked import stacked_space
        from xagents_ray.actors.envs.wrapping import action_converter
        from xagents_ray.policy.parts import PartReader

        self.spaces = stacked_space(observations, spec.stack), actions
        self._env_id, self._spec, self._own_shape = env_id, spec, observations.shape
        self.actions = action_converter(actions)
        self.mask_reader = None
        if spec.has_action_masks:
            self.mask_reader = MaskReader(spec, self._wrong_mask)
        self._own, self._flatten, self._join = own, flatten, join_vectors
        self._parts = None
        if is_composite(own):
            self._parts = PartReader(env_id, own, unread)
        # Shape of the environment's own images if their channels come first.
        self._first_shape: tuple[int, ...] = ()
        if spec.channels_first and spec.is_image:
            *sides, channels = spec.observation_shape
            self._first_shape = (channels, *sides)

    @classmethod
    def of(
        cls, config: EnvConfig, spec: EnvSpec, unread: Collection[str] = ()
    ) -> "Conversion":
        """Return the conversion for an environment; makes one to get its spaces."""
        from xagents_ray.actors.envs.indices import next_own_index
        from xagents_ray.actors.envs.make import make_one

        envs = make_one(config, None, next_own_index(config))
        envs.close()
        return cls(str(config.env), spec, *envs.spaces, envs.own_space, unread)

    def rows(self, observation: Any) -> tuple[Observations, bool]:
        """Return the network's input [B, ...], and whether it was a single observation.

        The input is a dict of arrays if observations have several.

        Raises:
            UserError: the shape or type doesn't fit the environment, or there is a NaN.
        """
        spec = self._spec
        batch, is_single = self._batch(observation, spec.stack, None)
        for array in arrays_of(batch):
            if array.dtype.kind == "f" and np.isnan(array).any():
                raise UserError(
                    f"This observation of {self._env_id} contains NaN, from which a "
                    "network computes only NaN: replace it, or find where it comes "
                    "from."
                )

        def window(rows: Array, is_image: bool) -> Array:
            return rows.swapaxes(0, 1) if is_image and spec.stack > 1 else rows[None]

        if isinstance(batch, dict):
            frames: Observations = {k: window(x, k != VECTOR) for k, x in batch.items()}
        else:
            frames = window(batch, spec.is_image)
        starts = np.zeros((spec.stack, len(arrays_of(batch)[0])), np.bool_)
        return network_input(frames, starts, spec.is_image), is_single

    def frames(self, observation: Any, n_envs: int) -> tuple[Observations, bool]:
        """Return observations as `Envs` returns them, and whether it was a single one.

        Raises:
            UserError: they don't fit, or are not those of `n_envs` environments.
        """
        batch, is_single = self._batch(observation, 1, n_envs)
        count = len(arrays_of(batch)[0])
        if count != n_envs or (is_single and n_envs != 1):
            raise UserError(
                f"n_envs is {n_envs}, and this is "
                f"{'a single observation' if is_single else f'a batch of {count}'}: "
                "pass one observation of each environment."
            )
        return batch, is_single

    def _batch(
        self, observation: Any, stack: int, n_envs: int | None
    ) -> tuple[Observations, bool]:
        """Return a batch [B, ...] or [B, stack, ...], and whether it was a single one.

        Vectors have no dimension of frames, and images only if there are several.
        """
        spec = self._spec
        if self._parts is not None and self._parts.takes(observation):
            named, is_single = self._parts.arrays(observation, stack)
            arrays = self._join(named, spec.inputs)
            if spec.has_several_arrays:
                return arrays, is_single
            (array,) = arrays.values()
            return array.astype(spec.observation_dtype, copy=False), is_single
        array = self._array(observation)
        own = self._own_shape if stack == 1 else (stack, *self._own_shape)
        is_single = array.shape == own
        if not (is_single or (array.shape[1:] == own and len(array))):
            raise self._wrong_shape(own, array.shape, n_envs)
        if spec.observation_dtype == "uint8" and array.dtype.kind == "f":
            raise UserError(
                f"Observations of {self._env_id} are uint8, from 0 to 255, and this "
                f"one is {array.dtype}: pass them as they come, without scaling."
            )
        rows = array.astype(spec.observation_dtype, copy=False)
        frames = (stack,) if stack > 1 else ()
        return rows.reshape(-1, *frames, *spec.observation_shape), is_single

    def _array(self, observation: Any) -> Array:
        """Return an observation of one array, or a batch, as an array.

        Images [C, H, W] become [H, W, C].

        Raises:
            UserError: the value includes other results of `reset` or `step`, or isn't
                numeric, or observations have several arrays.
        """
        from xagents_ray.policy.parts import numbers_of, short

        own = self._own
        if own is not None and self._parts is None and own.contains(observation):
            observation = self._flatten(own, observation)
        elif _has_info(observation):
            raise UserError(
                "This is the whole tuple that reset() or step() returned: pass the "
                "observation alone, as in env.reset()[0]."
            )
        array, what = numbers_of(observation), "an array of numbers"
        if self._spec.has_several_arrays:
            names = ", ".join(each.name for each in self._spec.inputs)
            array, what = None, f"a dict of {names}"
        if array is None:
            raise UserError(
                f"An observation of {self._env_id} is {what}, and this one is "
                f"{short(observation)}: pass what the environment of make_env() gives."
            )
        if self._first_shape and array.shape[-3:] == self._first_shape:
            return np.moveaxis(array, -3, -1)
        return array

    def check_masks(self, masks: Any) -> None:
        """Raise UserError for masks that a user passes where none are read."""
        if masks is not None and self.mask_reader is None:
            raise UserError(
                f"{self._env_id} has no action masks here, since it gives none or "
                "--no-action-masks ignores them: leave action_masks out, or train with "
                "masks."
            )

    def _wrong_mask(self, mask: Any, remedy: str) -> UserError:
        if mask is None:
            remedy = 'pass action_masks=info["action_mask"], or another array'
        return UserError(
            f"{self._env_id} allows only some actions, and the mask of this "
            f"observation is {mask!r:.80}: {remedy}."
        )

    def _wrong_shape(
        self, own: tuple[int, ...], shape: tuple[int, ...], n_envs: int | None
    ) -> UserError:
        if n_envs is None:
            return UserError(
                f"An observation of {self._env_id} has the shape {own}, a batch "
                f"[B, …] of that, and this one has {shape}: pass what the environment "
                "of make_env() gives."
            )
        return UserError(
            f"{self._env_id} gives observations of {own}, and n_envs is {n_envs}: this "
            f"one has the shape {shape}."
        )


def make_env(config: EnvConfig) -> tuple["gym.Env[Any, Any]", EnvSpec]:
    """Return an environment as a policy sees it, with stacked frames, and its spec.

    Raises:
        UserError: the environment doesn't exist, or no algorithm supports it.
    """
    from xagents_ray.actors.envs.indices import next_own_index
    from xagents_ray.actors.envs.make import make_stacked, probe

    spec = probe(config, index=next_own_index(config))
    return make_stacked(config, spec.stack, None), spec


def _has_info(value: Any) -> bool:
    """Return whether a value looks like the result of `reset` or `step`."""
    return isinstance(value, tuple) and len(value) > 1 and isinstance(value[-1], dict)
