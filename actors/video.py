"""Pictures of a game: in a video file, and in a window."""

import os
import sys
import time
from pathlib import Path

import cv2
import numpy as np

from xagents_ray.errors import UserError
from xagents_ray.quiet import stderr_parked
from xagents_ray.trajectory import Array


class Video:
    """An mp4 being written beside its path; it gets its name when it is whole."""

    def __init__(self, path: Path, fps: float, picture: Array) -> None:
        self._path, self._shape, self._count = path, picture.shape, 0
        self._aside = path.with_name(f".{path.stem}.partial.mp4")
        # The codec drops the last row and column of odd sizes.
        self._pad = [(0, side % 2) for side in picture.shape[:2]] + [(0, 0)]
        height, width = (side + side % 2 for side in picture.shape[:2])
        codec = cv2.VideoWriter_fourcc(*"mp4v")
        self._writer = cv2.VideoWriter(str(self._aside), codec, fps, (width, height))
        if not self._writer.isOpened():
            raise UserError(
                f"{path} can't be written as {width}x{height} at {fps:g} frames/s: "
                "give --video-dir a folder that can be written to."
            )

    def write(self, picture: Array) -> None:
        """Add uint8 [H, W, 3], RGB, of the first one's size."""
        if picture.shape != self._shape:
            raise UserError(
                f"A video can't hold pictures of {self._shape} and {picture.shape}: "
                "leave out --video-dir and use --frame-dir."
            )
        picture = np.pad(picture, self._pad, mode="edge")
        self._writer.write(cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
        self._count += 1

    def finish(self) -> None:
        """Give the video its name.

        Raises:
            UserError: the file does not hold every picture.
        """
        self._writer.release()
        reader = cv2.VideoCapture(str(self._aside))
        found = int(reader.get(cv2.CAP_PROP_FRAME_COUNT))
        reader.release()
        if found != self._count:
            raise UserError(
                f"{self._path} could not be written whole: look for space on the disk."
            )
        self._aside.replace(self._path)

    def close(self) -> None:
        """Remove what is not finished."""
        self._writer.release()
        self._aside.unlink(missing_ok=True)


def write_jpg(path: Path, picture: Array) -> None:
    """Write uint8 [H, W, 3], RGB, as a jpg; UserError when it can't be."""
    if not cv2.imwrite(str(path), cv2.cvtColor(picture, cv2.COLOR_RGB2BGR)):
        raise UserError(
            f"{path} can't be written: give --frame-dir a folder that can be written "
            "to, with space on its disk."
        )


class Window:
    """A window that shows pictures at their speed.

    Made by ourselves, since an environment that draws its own window gives no
    pictures for a video.
    """

    def __init__(self, title: str) -> None:
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        import pygame  # 30 MB that training does without

        self._pygame, self._title = pygame, title
        if sys.platform == "linux" and not (
            os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        ):
            raise _no_display("there is no DISPLAY")
        try:
            with stderr_parked():
                pygame.display.init()
        except pygame.error as error:
            raise _no_display(str(error)) from None
        if pygame.display.get_driver() in ("offscreen", "dummy"):
            raise _no_display("the display can't be opened")
        self._clock = pygame.time.Clock()
        self._screen: pygame.Surface | None = None

    def show(self, picture: Array, fps: float, delay: float) -> bool:
        """Show a picture for as long as it takes.

        Args:
            picture: uint8 [H, W, 3], RGB.
            fps: largest number of pictures a second.
            delay: seconds to wait beyond that.
        Returns:
            False when the user closed the window.
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
        """Close it."""
        self._pygame.display.quit()


def _no_display(reason: str) -> UserError:
    return UserError(
        f"--render can't open a window ({reason}): use --video-dir or --frame-dir, or "
        "start under a display, for example with xvfb-run."
    )
