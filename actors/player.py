"""The player: episodes of one environment as a person sees them."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from threadpoolctl import threadpool_limits

from xagents_ray.actors.env_actor import ActorSetup
from xagents_ray.actors.envs.make import make_one
from xagents_ray.actors.evaluator import play_forever
from xagents_ray.actors.pictures import Video, Window, write_jpg
from xagents_ray.actors.policies.base import noise_generators
from xagents_ray.actors.rollout import EpisodeCounter
from xagents_ray.core.errors import Stopped, UserError
from xagents_ray.core.quiet import quiet_stderr
from xagents_ray.core.trajectory import Episode, Weights
from xagents_ray.settings.episodes import PlayConfig


class Player:
    """Plays one episode after the other; shows them or writes videos or pictures."""

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
        self._policy = setup.make_policy(self._envs.spec)

    def play(self, weights: Weights, seed: int) -> Iterator[Episode]:
        """Play episodes, the environment and action noise of the first with `seed`.

        An episode's first picture follows the reset, then comes one per env step.

        Yields:
            Each episode when it has ended and its video is complete.
        Raises:
            Stopped: `stop` was called, or the user closed the window.
            UserError: a picture or a video can't be made or written.
        """
        self._policy.load(weights)
        first, generators = self._envs.reset(seed), noise_generators(seed, 0, 1)
        greedy = not self._config.sample
        steps = play_forever(self._envs, self._policy, first, generators, greedy)
        counter, number = EpisodeCounter(1), 1
        self._see(number, 0)
        for row, step in enumerate(steps):
            if self._stopping:
                raise Stopped
            ended = counter.add(row, step)
            for episode in ended:
                self._see(number, episode.length)
                self._end_video()
                yield episode
                number += 1
            if number > self._config.episodes:
                return
            if not ended:
                self._see(number, int(counter.lengths[0]))

    def stop(self) -> None:
        """Make an episode in progress raise Stopped; callable from a signal handler."""
        self._stopping = True

    def close(self) -> None:
        """End the environment, close the window and drop an unfinished video."""
        if self._video:
            self._video.close()
        if self._window:
            self._window.close()
        self._envs.close()

    def _see(self, number: int, row: int) -> None:
        """Draw an episode's picture after `row` env steps, for all who asked for it."""
        if not self._has_pictures:
            return
        c = self._config
        # SDL, which draws many environments, writes to stderr at its start.
        with quiet_stderr() if (number, row) == (1, 0) else contextlib.nullcontext():
            picture = self._envs.picture()
        name = f"game-{number:0{len(str(c.episodes))}}"
        if c.video_dir is not None:
            if self._video is None:
                path = Path(c.video_dir, f"{name}.mp4")
                self._video = Video(path, self._envs.fps, picture)
            self._video.write(picture)
        if c.frame_dir is not None and row % c.frame_frequency == 0:
            write_jpg(Path(c.frame_dir, f"{name}-{row:06}.jpg"), picture)
        fps, delay = self._envs.fps, c.frame_delay
        if self._window and not self._window.show(picture, fps, delay):
            raise Stopped

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
