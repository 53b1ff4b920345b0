"""Atari games of atari-py, in the extra `[gym]`, as Gymnasium environments."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from xagents_ray.actors.envs import factory
from xagents_ray.core.errors import UserError, did_you_mean
from xagents_ray.core.trajectory import Array

_MAX_FRAMES = 108_000
"""Maximum frames of an episode: half an hour, as in the papers."""
_MEANINGS = (
    *("NOOP", "FIRE", "UP", "RIGHT", "LEFT", "DOWN"),
    *("UPRIGHT", "UPLEFT", "DOWNRIGHT", "DOWNLEFT"),
    *("UPFIRE", "RIGHTFIRE", "LEFTFIRE", "DOWNFIRE"),
    *("UPRIGHTFIRE", "UPLEFTFIRE", "DOWNRIGHTFIRE", "DOWNLEFTFIRE"),
)


def make_atari_py(game: str, render_mode: str | None = None, **arguments: Any) -> Any:
    """Return a game whose steps are single frames; see `AtariPy`.

    Raises:
        UserError: atari-py is not installed, or has no such game.
    """
    rom = _rom(game)
    arguments = {"rom": rom, "render_mode": render_mode, **arguments}
    factory.check_arguments(f"atari-py:{game}", AtariPy, arguments)
    env = AtariPy(**arguments)
    return gym.wrappers.TimeLimit(env, _MAX_FRAMES)


class AtariPy(gym.Env[Array, Any]):
    """An Atari game with color frames, uint8 [210, 160, 3], and raw rewards.

    Args:
        rom: path of the game's ROM.
        render_mode: `rgb_array`, or None for no pictures.
        repeat_action_probability: probability of repeating the action (sticky actions).
        full_action_space: whether to offer all 18 actions, not the game's minimal set.
    """

    def __init__(
        self,
        rom: Path,
        render_mode: str | None = None,
        repeat_action_probability: float = 0.0,
        full_action_space: bool = False,
    ) -> None:
        import atari_py

        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 60}
        self.render_mode, self._rom = render_mode, str(rom)
        self._ale = ale = atari_py.ALEInterface()
        ale.setLoggerMode(ale.Logger.Error)
        ale.setFloat("repeat_action_probability", repeat_action_probability)
        ale.loadROM(self._rom)
        legal, minimal = ale.getLegalActionSet, ale.getMinimalActionSet
        self._actions = list(map(int, (legal if full_action_space else minimal)()))
        width, height = ale.getScreenDims()
        self.observation_space = gym.spaces.Box(0, 255, (height, width, 3), np.uint8)
        self.action_space = gym.spaces.Discrete(len(self._actions))

    def get_action_meanings(self) -> list[str]:
        """Return the names of the actions, `NOOP` first."""
        return [_MEANINGS[action] for action in self._actions]

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin an episode; return the first frame and the lives."""
        super().reset(seed=seed)
        if seed is not None:
            self._ale.setInt("random_seed", seed)
            self._ale.loadROM(self._rom)  # loading applies the seed
        self._ale.reset_game()
        return self.render(), self._info()

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        reward = float(self._ale.act(self._actions[int(action)]))
        return self.render(), reward, self._ale.game_over(), False, self._info()

    def render(self) -> Any:
        return self._ale.getScreenRGB2()

    def _info(self) -> dict[str, Any]:
        return {"lives": self._ale.lives()}


def _rom(game: str) -> Path:
    """Return the path of a game's ROM, from atari-py or else from ale-py."""
    try:
        import atari_py
    except ImportError:
        raise UserError(
            f"atari-py:{game} needs atari-py: pip install 'xagents-ray[gym]', which "
            "compiles it and needs cmake, a C++ compiler and zlib."
        ) from None
    import ale_py

    package, file = Path(atari_py.__file__).parent, f"{game}.bin"
    lines = (package / "ale_interface" / "md5.txt").read_text().splitlines()
    known = {line.split()[-1] for line in lines if line.endswith(".bin")}
    own = package / "atari_roms" / file
    rom = own if own.exists() else Path(ale_py.__file__).parent / "roms" / file
    if file not in known or not rom.exists():
        games = sorted(each.removesuffix(".bin") for each in known)
        hint = did_you_mean(game, games) or "; pong and space_invaders are two of them."
        raise UserError(f"atari-py has no game {game}{hint}")
    return rom
