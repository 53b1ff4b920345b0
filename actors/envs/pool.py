"""Environments of EnvPool, in the extra `[envpool]`."""

import warnings
from typing import Any

import envpool
import gymnasium as gym

from xagents_ray.actors.envs import atari
from xagents_ray.core.errors import UserError, did_you_mean
from xagents_ray.settings.training import EnvConfig


class _Pool(gym.vector.VectorWrapper):
    """EnvPool environments, recreated on reset because only creation seeds them."""

    def __init__(self, make: Any) -> None:
        self._make = make
        super().__init__(make(0))
        self._single_observation_space = self.env.observation_space
        self._single_action_space = self.env.action_space

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        """Recreate the environments with `seed` and begin their episodes."""
        self.env.close()
        self.env = self._make(int(seed or 0))
        return self.env.reset()


def has_env(env_id: str) -> bool:
    """Return whether EnvPool provides this environment."""
    return env_id in envpool.list_all_envs()


def make_envpool(config: EnvConfig, n_envs: int, threads: int) -> Any:
    """Return `n_envs` environments of EnvPool that run on `threads` threads."""
    env_id = str(config.env)
    if config.env_kwargs:
        raise UserError(
            "--env-kwargs are arguments of Gymnasium's environments, which EnvPool's "
            "don't take: use --vectorization auto."
        )
    settings = atari.emulator_settings(env_id) if env_id in gym.registry else None
    known = envpool.list_all_envs()
    name, more = env_id, {}
    if settings is not None and config.preprocess:
        if not config.max_frame:
            raise UserError(
                "EnvPool always takes the maximum of the last two frames: add "
                "--max-frame, or use --vectorization vector."
            )
        name = "".join(part.title() for part in settings["game"].split("_")) + "-v5"
        more = {
            "stack_num": 1,
            "frame_skip": atari.SKIP,
            "noop_max": atari.NOOPS,
            "use_fire_reset": True,
            "episodic_life": False,
            "reward_clip": False,
            "repeat_action_probability": settings["repeat_action_probability"],
        }
    if name not in known or (settings is not None and not config.preprocess):
        raise UserError(
            f"EnvPool has no {env_id}{did_you_mean(name, known) or '.'} "
            "Use --vectorization auto."
        )

    def build(seed: int) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Box bounds are rounded to float32
            made = envpool.make_gymnasium(
                name, num_envs=n_envs, num_threads=threads, seed=seed, **more
            )
            _ = made.observation_space, made.action_space  # cached here
            return made

    return _Pool(build)
