"""One small class for vector environments of every kind.

All of them reset on the step after an episode's end (Gymnasium's NEXT_STEP) and return
one frame per step; the trajectory stacks frames.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from xagents_ray.actors.envs import env_state, interface, memory, named_inputs, wrapping
from xagents_ray.actors.envs.action_masks import KEY, MaskReader, reports_masks
from xagents_ray.actors.envs.specs import spec_of
from xagents_ray.actors.envs.step_info import InfoCoder, read_success
from xagents_ray.actors.envs.vector_forms import AsyncEnvs, read_also
from xagents_ray.actors.envs.wrapper_statistics import WrapperStatistics
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import InfoField
from xagents_ray.core.trajectory import (
    Array,
    BoolArray,
    FloatArray,
    Observations,
    arrays_of,
    map_array,
)
from xagents_ray.settings.training import EnvConfig

Change = Callable[[Observations], Observations]
"""Function of observations that returns others of the same form."""


class EnvStep(NamedTuple):
    """One step of B environments.

    Attributes:
        observations: [B, *observation_shape], or a dict of arrays by name.
        rewards: float32 [B], for learning: clipped when frames are preprocessed.
        raw_rewards: float64 [B], for reports.
        terminated: bool [B], true where no value follows; with preprocessing, losing an
            Atari life counts.
        truncated: bool [B], true where an episode is cut off.
        ended: bool [B], true where the next step only resets.
        success: object [B], True or False where an episode ended and reports success or
            failure, else None; None if no environment reports it.
        infos: the entries of `info` that are read, in the form of Gymnasium's vector
            environments.
        action_masks: bool [B, action_units], the actions that the observations allow,
            or None.
    """

    observations: Observations
    rewards: FloatArray
    raw_rewards: Array
    terminated: BoolArray
    truncated: BoolArray
    ended: BoolArray
    success: Array | None = None
    infos: Mapping[Any, Any] = MappingProxyType({})
    action_masks: BoolArray | None = None


def learning_rewards(raw: Array, clip: bool) -> FloatArray:
    """Return float32 rewards for learning; infinite if float32 can't hold them."""
    rewards: Array = np.sign(raw) if clip else np.asarray(raw)
    if rewards.dtype == np.float32:
        return rewards
    with np.errstate(over="ignore"):
        return rewards.astype(np.float32)


class Envs:
    """B environments stepped together; wraps any Gymnasium vector environment.

    Attributes:
        id: the name of the environment.
        spec: the spec of one environment, for networks.
        own_space: space of one observation as the environment returns it; None if it is
            an array.
        statistics: running statistics of normalizing wrappers.
        has_time_limit: whether the episodes are known to end.
        change: function that observations [B, *observation_shape], or a dict of arrays,
            pass through; None to leave them unchanged.
        action_masks: masks of the newest observations, bool [B, action_units]; None if
            the spec has none.
    """

    change: Change | None = None
    action_masks: BoolArray | None = None
    _mask_reader: MaskReader | None = None

    def __init__(self, envs: Any, config: EnvConfig) -> None:
        self._envs = envs
        self.id, self._clip = str(config.env), config.preprocess
        space, actions = envs.single_observation_space, envs.single_action_space
        self._one = envs.envs[0] if isinstance(envs, gym.vector.SyncVectorEnv) else None
        made_at = (
            "" if self._one is None else interface.method_line(self._one, "__init__")
        )
        one = envs if self._one is None else self._one
        if isinstance(envs, AsyncEnvs):  # its environments are in other processes
            one = envs.one
        self.own_space = named_inputs.space_before_arrays(one)
        spec = spec_of(space, actions, config, made_at, self.own_space)
        self._place = interface.method_line(one, "step")
        self.has_time_limit = wrapping.has_time_limit(one)
        self.statistics = WrapperStatistics(envs, one)
        is_color = len(spec.observation_shape) == 3
        self.spec = dataclasses.replace(
            spec,
            channels_first=spec.channels_first
            or (is_color and wrapping.has_channels_first(one)),
            wrappers=self.statistics.shapes,
        )
        self._own_actions = wrapping.action_converter(actions)
        is_shifted = isinstance(actions, gym.spaces.Discrete) and actions.start != 0
        # float32 actions can exceed the bounds of another dtype: float32(0.1) > 0.1
        is_wide = isinstance(actions, gym.spaces.Box) and actions.dtype != np.float32
        self._is_plain = not (self.spec.action_sizes or is_shifted or is_wide)
        self._shape = (envs.num_envs, *self.spec.observation_shape)
        self._lives: Array = np.zeros(envs.num_envs, np.int64)
        may_have = self.is_checked or not config.preprocess  # no emulator has masks
        self._finds_masks = config.action_masks and may_have
        if reports_masks(envs) or reports_masks(one):
            self.read_masks()

    def reset(self, seed: int) -> Observations:
        """Begin an episode in every environment, seeding environment i with seed + i.

        Vector environments with a single generator are seeded with `seed`.
        """
        observations, infos = self._envs.reset(seed=seed)
        if self._clip:
            self._lives = self._count_lives(infos)
        if self._mask_reader is not None:
            none_ended = np.zeros(len(self._lives), np.bool_)
            self.action_masks = self._mask_reader.read(infos, none_ended)
        return self._observations(observations)

    def step(self, actions: Array) -> EnvStep:
        """Step every environment with actions [B], [B, P] or [B, A]."""
        if not self._is_plain:
            actions = self._own_actions(actions)
        observations, raw, terminated, truncated, infos = self._envs.step(actions)
        ended = terminated | truncated
        if self._clip:
            lives = self._count_lives(infos)
            terminated = terminated | ((lives < self._lives) & (lives > 0))
            self._lives = lives
        if self._mask_reader is not None:
            self.action_masks = self._mask_reader.read(infos, ended)
        return EnvStep(
            self._observations(observations),
            learning_rewards(raw, self._clip),
            np.asarray(raw, np.float64),
            terminated,
            truncated,
            ended,
            self._success(infos, ended),
            infos,
            self.action_masks,
        )

    def try_reset(self) -> None:
        """Reset once; the spec then says whether infos have masks.

        Raises:
            EnvironmentFault: the environment breaks Gymnasium's interface.
        """
        if not (self.is_checked or self._finds_masks):
            return
        if self._finds_masks:
            read_also(self._envs, {KEY})
        observations, infos = self._envs.reset(seed=0)
        if self._finds_masks and isinstance(infos, Mapping) and KEY in infos:
            self.read_masks()
        if self.is_checked:
            self.check_finite(self._observations(observations))

    def read_masks(self) -> None:
        """Read masks from the infos from now on."""
        self.spec = dataclasses.replace(self.spec, has_action_masks=True)
        if self.spec.is_discrete:  # no agent takes masks of other actions
            self._mask_reader = MaskReader(
                self.spec, lambda value, remedy: self._fault(KEY, value, remedy)
            )
        read_also(self._envs, {KEY})

    def read_info(self, fields: tuple[InfoField, ...]) -> InfoCoder | None:
        """Make steps keep entries of `info`; return their coder, None without any."""
        if not fields:
            return None
        read_also(self._envs, {each.key for each in fields})
        return InfoCoder(fields, self.id, self._place)

    @property
    def spaces(self) -> tuple[Any, Any]:
        """Spaces of one environment's unstacked observations and of its actions."""
        return self._envs.single_observation_space, self._envs.single_action_space

    @property
    def is_checked(self) -> bool:
        """Whether the environments are user-defined and created one by one."""
        layers = () if self._one is None else interface.wrapper_layers(self._one)
        return any(isinstance(layer, interface.InterfaceCheck) for layer in layers)

    @property
    def fps(self) -> float:
        """Frames per second at which pictures are shown."""
        return float(self._envs.metadata.get("render_fps") or 30)

    def picture(self) -> Array:
        """Return a picture of the first environment: uint8 [H, W, 3], RGB.

        Raises:
            UserError: the environments don't render RGB pictures.
        """
        picture: Array | None = None
        if self._envs.render_mode == "rgb_array":
            with contextlib.suppress(NotImplementedError):
                picture = self._envs.render()[0]
        shape = picture.shape if isinstance(picture, np.ndarray) else ()
        if picture is None or shape[2:] != (3,) or picture.dtype != np.uint8:
            raise no_pictures(self.id)
        return picture

    def remembering(self) -> tuple[str, ...]:
        """Return the user's wrappers with memory, found by stepping."""
        return memory.remembering_wrappers(self._envs, self._mask_reader is not None)

    def check_finite(self, observations: Observations) -> None:
        """Raise EnvironmentFault if an observation of a rollout is not finite."""
        for rows in arrays_of(observations):
            interface.check_observations(self.id, self._one, rows)

    def state(self) -> dict[str, Any] | None:
        """Return the state as JSON; None if a layer's state is not available."""
        envs = env_state.get_envs_state(self._envs)
        if envs is None:
            return None
        found = {"lives": env_state.encode_array(self._lives), "envs": envs}
        if self.action_masks is not None:
            found[KEY] = env_state.encode_array(self.action_masks)
        return found

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a state; call it after a reset.

        Raises:
            Exception: of any type; the state is damaged, or belongs to other
                environments.
        """
        env_state.set_envs_state(self._envs, state["envs"])
        self._lives = env_state.decode_array(state["lives"], self._lives)
        if (masks := self.action_masks) is not None:
            self.action_masks = env_state.decode_array(state[KEY], masks)

    def close(self) -> None:
        self._envs.close()

    def _observations(self, observations: Any) -> Observations:
        frames: Observations
        if isinstance(observations, dict):
            frames = named_inputs.join_vectors(observations, self.spec.inputs)
        else:
            dtype = self.spec.observation_dtype
            frames = np.asarray(observations, dtype).reshape(self._shape)
        if self.change is None:
            return frames
        return self.change(map_array(np.copy, frames))

    def _count_lives(self, infos: dict[str, Any]) -> Array:
        """Return each environment's lives, int64 [B]; those not reported stay as is."""
        lives = np.asarray(infos.get("lives", self._lives))
        try:
            if lives.dtype == object:
                lives = np.where(lives == None, self._lives, lives)  # noqa: E711
            return lives.astype(np.int64)
        except (TypeError, ValueError, OverflowError):
            raise self._fault("lives", lives, "give a whole number") from None

    def _success(self, infos: Any, ended: BoolArray) -> Array | None:
        """Return `EnvStep.success`; EnvironmentFault if the infos are not a dict."""
        if not isinstance(infos, Mapping):  # of a user's vector environment
            what = f"step() returned {infos!r:.80} as the info"
            raise interface.env_fault(self.id, what, self._place, "return a dict")
        return read_success(infos, ended, self._fault)

    def _fault(self, name: str, value: Any, remedy: str) -> UserError:
        """Return the error for an entry of `info`, with the line of `step`."""
        what = f"info[{name!r}] is {value!r:.80}"
        return interface.env_fault(self.id, what, self._place, remedy)


def no_pictures(env_id: str) -> UserError:
    """Return the error for an environment that can't be rendered."""
    return UserError(
        f"{env_id} gives no pictures: its factory must make it with "
        'render_mode="rgb_array", and may take render_mode as an argument.'
    )
