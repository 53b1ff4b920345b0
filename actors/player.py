"""The player: one environment's games as a person sees them."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from xagents_ray.actors.env_actor import ActorSetup, count_games
from xagents_ray.actors.envs.make import make_one
from xagents_ray.actors.evaluator import make_policy, noise_generators, play_on
from xagents_ray.actors.video import Video, Window, write_jpg
from xagents_ray.core.errors import Stopped, UserError
from xagents_ray.core.quiet import stderr_parked
from xagents_ray.core.trajectory import Array, Episode, Weights
from xagents_ray.settings.episodes import PlayConfig


class Player:
    """Plays games one after the other and shows, films or photographs them."""

    def __init__(self, setup: ActorSetup, config: PlayConfig) -> None:
        threadpool_limits(1, user_api="blas")
        self._config, self._stopping = config, False
        self._video: Video | None = None
        self._window: Window | None = None
        for flag in ("video_dir", "frame_dir"):
            _make_folder(flag, getattr(config, flag))
        self._has_pictures = bool(config.render or config.video_dir or config.frame_dir)
        mode = "rgb_array" if self._has_pictures else None
        if config.render:
            self._window = Window(f"{setup.agent} {setup.config.env.env}")
        self._envs = make_one(setup.config.env, mode)
        self._policy = make_policy(setup, self._envs)

    def play(self, weights: Weights, seed: int) -> Iterator[Episode]:
        """Play games, the first one's environment and action noise with `seed`.

        A game's first picture is that after the reset, then comes one per env step.

        Args:
            weights: of the policy.
            seed: of the environment and of the noise.
        Yields:
            Each game when it has ended and its video is whole.
        Raises:
            Stopped: `stop` was called, or the user closed the window.
            UserError: a picture or a video can't be made or written.
        """
        self._policy.load(weights)
        first, generators = self._envs.reset(seed), noise_generators(seed, 0, 1)
        greedy = not self._config.sample
        steps = play_on(self._envs, self._policy, first, generators, greedy)
        returns, lengths = np.zeros(1), np.zeros(1, np.int64)
        game = 1
        self._see(game, 0)
        for row, (step, resets) in enumerate(steps):
            if self._stopping:
                raise Stopped
            ended = count_games(step, resets, returns, lengths)
            for _, total, length in ended:
                self._see(game, length)
                self._end_video()
                yield Episode(0, row, total, length)
                game += 1
            if game > self._config.episodes:
                return
            if not ended:
                self._see(game, int(lengths[0]))

    def stop(self) -> None:
        """Make a game in progress raise Stopped; callable from a signal handler."""
        self._stopping = True

    def close(self) -> None:
        """End the environment, close the window and drop an unfinished video."""
        if self._video:
            self._video.close()
        if self._window:
            self._window.close()
        self._envs.close()

    def _see(self, game: int, number: int) -> None:
        """Take picture `number` of a game and put it where it was asked for."""
        if not self._has_pictures:
            return
        c = self._config
        picture = self._picture(game == 1 and number == 0)
        name = f"game-{game:0{len(str(c.episodes))}}"
        if c.video_dir is not None:
            if self._video is None:
                path = Path(c.video_dir, f"{name}.mp4")
                self._video = Video(path, self._envs.fps, picture)
            self._video.write(picture)
        if c.frame_dir is not None and number % c.frame_frequency == 0:
            write_jpg(Path(c.frame_dir, f"{name}-{number:06}.jpg"), picture)
        if self._window:
            if not self._window.show(picture, self._envs.fps, c.frame_delay):
                raise Stopped

    def _picture(self, is_first: bool) -> Array:
        if is_first:
            with stderr_parked():  # SDL, which draws many environments
                return self._envs.picture()
        return self._envs.picture()

    def _end_video(self) -> None:
        if self._video:
            self._video.finish()
            self._video = None


def _make_folder(flag: str, folder: str | None) -> None:
    if folder is None:
        return
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"--{flag.replace('_', '-')} {folder} can't be made ({error.strerror}): "
            "name a folder that can be written to."
        ) from None
