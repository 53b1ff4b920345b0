"""The player: shows episodes of one environment, or writes videos or pictures."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
from threadpoolctl import threadpool_limits

from xagents_ray.actors.actor_setup import ActorSetup
from xagents_ray.actors.envs.make import make_one
from xagents_ray.actors.evaluator import check_end, play_forever
from xagents_ray.actors.policies.base import noise_generators
from xagents_ray.actors.rollout import EpisodeCounter
from xagents_ray.core.errors import Stopped, UserError
from xagents_ray.core.process import quiet_stderr
from xagents_ray.core.trajectory import Array, Episode, Weights
from xagents_ray.settings.episodes import PlayConfig


class Video:
    """An mp4 file, written under a temporary name and renamed when complete.

    H.264 in yuv420p, which every browser plays.
    """

    def __init__(self, path: Path, fps: float, picture: Array) -> None:
        self._path, self._shape, self._count = path, picture.shape, 0
        self._partial = path.with_name(f".{path.stem}.partial.mp4")
        # yuv420p has one color for 2x2 pixels, so both sides must be even.
        self._pad = [(0, side % 2) for side in picture.shape[:2]] + [(0, 0)]
        height, width = (side + side % 2 for side in picture.shape[:2])
        try:
            # With the index in front, a browser plays before it has the whole file.
            options = {"movflags": "faststart"}
            self._file = av.open(str(self._partial), "w", options=options)
            rate = Fraction(fps).limit_denominator(1000)
            self._stream = self._file.add_stream("libx264", rate)
            self._stream.width, self._stream.height = width, height
            self._stream.pix_fmt = "yuv420p"
            self._stream.options = {"crf": "20"}
            self._file.start_encoding()
        except av.FFmpegError as error:
            raise UserError(
                f"{path} can't be written as {width}x{height} at {fps:g} frames/s "
                f"({error.strerror}): give --video-dir a folder that can be written to."
            ) from None

    def write(self, picture: Array) -> None:
        """Add an RGB picture, uint8 [H, W, 3], of the same size as the first."""
        if picture.shape != self._shape:
            raise UserError(
                f"A video can't have frames of {self._shape} and {picture.shape}: "
                "leave out --video-dir and use --frame-dir."
            )
        padded = np.ascontiguousarray(np.pad(picture, self._pad, mode="edge"))
        self._encode(av.VideoFrame.from_ndarray(padded, format="rgb24"))
        self._count += 1

    def finish(self) -> None:
        """Complete the file and rename it to its path.

        Raises:
            UserError: the file does not contain every picture.
        """
        self._encode(None)
        with self._whole():
            self._file.close()
            with av.open(str(self._partial)) as file:
                found = file.streams.video[0].frames
        if found != self._count:
            raise self._cut_off()
        self._partial.replace(self._path)

    def close(self) -> None:
        """Remove an unfinished file."""
        with contextlib.suppress(av.FFmpegError):
            self._file.close()
        self._partial.unlink(missing_ok=True)

    def _encode(self, frame: av.VideoFrame | None) -> None:
        """Write a frame; None flushes the codec."""
        with self._whole():
            self._file.mux(self._stream.encode(frame))

    @contextlib.contextmanager
    def _whole(self) -> Iterator[None]:
        try:
            yield
        except av.FFmpegError:
            raise self._cut_off() from None

    def _cut_off(self) -> UserError:
        return UserError(f"{self._path} is incomplete: look for space on the disk.")


def write_jpg(path: Path, picture: Array) -> None:
    """Write an RGB picture, uint8 [H, W, 3], as JPEG; raise UserError on failure."""
    if not cv2.imwrite(str(path), cv2.cvtColor(picture, cv2.COLOR_RGB2BGR)):
        raise UserError(
            f"{path} can't be written: give --frame-dir a folder that can be written "
            "to, with space on its disk."
        )


class Window:
    """A window that shows pictures at their frame rate.

    The environment's own window is not used, because an environment that opens one
    returns no pictures for a video.
    """

    def __init__(self, title: str) -> None:
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        import pygame  # 30 MB that training doesn't need

        self._pygame, self._title = pygame, title
        if sys.platform == "linux" and not (
            os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        ):
            raise _no_display("there is no DISPLAY")
        try:
            with quiet_stderr():
                pygame.display.init()
        except pygame.error as error:
            raise _no_display(str(error)) from None
        if pygame.display.get_driver() in ("offscreen", "dummy"):
            raise _no_display("the display can't be opened")
        self._clock = pygame.time.Clock()
        self._screen: pygame.Surface | None = None

    def show(self, picture: Array, fps: float, delay: float) -> bool:
        """Show a picture, uint8 [H, W, 3], for at least 1/`fps` + `delay` seconds.

        Return False when the user closed the window.
        """
        pygame = self._pygame
        if self._screen is None:
            flags = pygame.SCALED | pygame.RESIZABLE
            self._screen = pygame.display.set_mode(picture.shape[1::-1], flags)
            pygame.display.set_caption(self._title)
        surface = pygame.surfarray.make_surface(picture.swapaxes(0, 1))
        self._screen.blit(surface, (0, 0))
        pygame.display.flip()
        self._clock.tick(fps)
        time.sleep(delay)
        return not pygame.event.get(pygame.QUIT)

    def close(self) -> None:
        self._pygame.display.quit()


def _no_display(reason: str) -> UserError:
    return UserError(
        f"--render can't open a window ({reason}): use --video-dir or --frame-dir, or "
        "start under a display, for example with xvfb-run."
    )


class Player:
    """Plays episodes one after another; shows them, or writes videos or pictures."""

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
            self._window = Window(f"{setup.algorithm.name} {setup.config.env.env}")
        self._envs = make_one(setup.config.env, mode, setup.first_index or 0)
        if setup.has_action_masks:
            self._envs.read_masks()
        self._policy = setup.make_policy(self._envs.spec)

    def play(self, weights: Weights, seed: int, longest: int = 0) -> Iterator[Episode]:
        """Play episodes; `seed` seeds the environment and noise of the first one.

        An episode has one picture after the reset and one after each env step. The
        longest one in training had `longest` env steps; see `check_end`.

        Yields:
            Each episode when it has ended and its video is complete.
        Raises:
            Stopped: `stop` was called, or the user closed the window.
            EndlessEpisode: an episode doesn't end in time.
            UserError: a picture or a video can't be made or written.
        """
        self._policy.load(weights)
        self._envs.statistics.load(weights.arrays, frozen=True)
        first, generators = self._envs.reset(seed), noise_generators(seed, 0, 1)
        steps = play_forever(
            self._envs,
            self._policy,
            first,
            generators,
            greedy=not self._config.sample,
            random_share=self._config.eval_epsilon,
        )
        counter, number, limit = EpisodeCounter(1), 1, self._config.eval_max_steps
        self._see(number, 0)
        for row, step in enumerate(steps):
            if self._stopping:
                raise Stopped
            ended = counter.add(row, step)
            for episode in ended:
                self._see(number, episode.length, is_last=True)
                self._end_video()
                yield episode
                number += 1
            if number > self._config.episodes:
                return
            check_end(self._envs, counter.lengths, limit, longest)
            if not ended:
                self._see(number, int(counter.lengths[0]))

    def stop(self) -> None:
        """Make an episode in progress raise Stopped; callable from a signal handler."""
        self._stopping = True

    def close(self) -> None:
        """Close the environment and the window, and remove an unfinished video."""
        if self._video:
            self._video.close()
        if self._window:
            self._window.close()
        self._envs.close()

    def _see(self, number: int, row: int, is_last: bool = False) -> None:
        """Render, show and write the picture after `row` env steps, as needed."""
        c = self._config
        is_shown = is_last or not c.render_end
        if not self._has_pictures or not (is_shown or c.video_dir):
            return
        # SDL, which renders many environments, writes to stderr when it starts.
        is_first = number == 1 and (row == 0 or is_last)
        with quiet_stderr() if is_first else contextlib.nullcontext():
            picture = self._envs.picture()
        name = f"game-{number:0{len(str(c.episodes))}}"
        if c.video_dir is not None:
            if self._video is None:
                path = Path(c.video_dir, f"{name}.mp4")
                self._video = Video(path, self._envs.fps, picture)
            self._video.write(picture)
        is_due = c.render_end or row % c.frame_frequency == 0
        if c.frame_dir is not None and is_shown and is_due:
            write_jpg(Path(c.frame_dir, f"{name}-{row:06}.jpg"), picture)
        fps, delay = self._envs.fps, c.frame_delay
        if self._window and is_shown and not self._window.show(picture, fps, delay):
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
