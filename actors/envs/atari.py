"""Atari: emulator settings, the vector environment, and frame preprocessing."""

from typing import Any, SupportsFloat

import ale_py  # registers the environment ids
import gymnasium as gym
import numpy as np
from ale_py.vector_env import AtariVectorEnv
from gymnasium.envs.registration import EnvSpec

from xagents_ray.core.trajectory import Array

SKIP = 4  # frames per agent step
NOOPS = 30  # an episode begins with fewer no-ops than this
SIDE = 84  # side of a preprocessed frame, in pixels

# Otherwise the emulator prints a banner to stderr.
ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)


def emulator_settings(env: str | EnvSpec) -> dict[str, Any] | None:
    """Return the emulator settings of an Atari id or spec, None for other ids.

    Raises:
        gymnasium.error.Error: there is no environment with this id.
    """
    spec = gym.spec(env) if isinstance(env, str) else env
    if not str(spec.entry_point).startswith("ale_py."):
        return None
    return dict(spec.kwargs)


_VECTOR_SETTINGS = (
    "game",
    "repeat_action_probability",
    "full_action_space",
    "max_num_frames_per_episode",
)
"""Emulator settings that ALE's vector environment supports."""


def has_ale_vector(settings: dict[str, Any]) -> bool:
    """Return whether ALE's vector environment supports preprocessing with settings."""
    others = settings.keys() - {*_VECTOR_SETTINGS, "frameskip", "obs_type"}
    return not others and settings.get("obs_type", "rgb") == "rgb"


def frames_per_step(env: gym.Env[Any, Any]) -> Any:
    """Return the frame skip of an ALE environment, int or range; 1 for any other."""
    own = env.unwrapped
    return own._frameskip if isinstance(own, ale_py.AtariEnv) else 1


def make_ale_vector(
    settings: dict[str, Any], n_envs: int, threads: int, max_frame: bool
) -> Any:
    """Return ALE's vector environment: uint8 [B, 1, 84, 84] frames, raw rewards."""
    return AtariVectorEnv(
        **{name: settings[name] for name in _VECTOR_SETTINGS if name in settings},
        num_envs=n_envs,
        num_threads=threads,
        stack_num=1,
        frameskip=SKIP,
        maxpool=max_frame,
        noop_max=NOOPS,
        use_fire_reset=True,
        reward_clipping=False,
    )


class AtariPreprocessing(gym.Wrapper[Array, Any, Array, Any]):
    """Returns every 4th frame, gray, 84x84; resets with no-ops and FIRE if available.

    Source: preprocessing of doi:10.1038/nature14236.
    """

    def __init__(self, env: gym.Env[Array, Any], max_frame: bool) -> None:
        super().__init__(env)
        meanings: list[str] = getattr(env.unwrapped, "get_action_meanings", list)()
        self._noop = meanings.index("NOOP") if "NOOP" in meanings else None
        self._fire = meanings.index("FIRE") if "FIRE" in meanings else None
        self._max_frame = max_frame
        self.observation_space = gym.spaces.Box(0, 255, (SIDE, SIDE), np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begin an episode and return its first frame."""
        frame, info = self.env.reset(seed=seed, options=options)
        actions = [] if self._fire is None else [self._fire]
        if self._noop is not None:
            noops = int(self.unwrapped.np_random.integers(NOOPS))
            actions += [self._noop] * (noops - len(actions))
        for action in actions:
            frame, _, terminated, truncated, info = self.env.step(action)
            if terminated or truncated:
                frame, info = self.env.reset(options=options)
        return _shrink(frame), info

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Repeat the action for 4 frames and sum their rewards."""
        total: SupportsFloat = 0.0
        frames: list[Array] = []
        for _ in range(SKIP):
            frame, reward, terminated, truncated, info = self.env.step(action)
            total = float(total) + float(reward)
            frames.append(frame)
            if terminated or truncated:
                break
        newest = np.maximum(*frames[-2:]) if self._max_frame and frames[1:] else frame
        return _shrink(newest), float(total), terminated, truncated, info


def _shrink(frame: Array) -> Array:
    import cv2  # 40 MB that the vector environment doesn't need

    gray = cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY)
    return cv2.resize(gray, (SIDE, SIDE), interpolation=cv2.INTER_AREA)  # type: ignore[no-any-return]
