"""Where a run's numbers can be watched: TensorBoard and Weights & Biases."""

import importlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from xagents_ray.core.quiet import without_packages


class Tracker(Protocol):
    """Takes numbers by name. Any method may raise; the run continues without it."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Take numbers of one env step."""

    def video(self, step: int, path: Path) -> None:
        """Take a video of an episode."""

    def close(self) -> None:
        """Write what is left."""


class TensorBoard:
    """An event file; `tensorboard --logdir` shows it.

    Not tensorboardX's SummaryWriter: when the disk is full its thread dies, and the
    run would wait for it for ever.
    """

    def __init__(self, directory: Path, step: int) -> None:
        with without_packages("torch"):  # tensorboardX imports it for nothing
            records = importlib.import_module("tensorboardX.record_writer")
            self._events = importlib.import_module("tensorboardX.proto.event_pb2")
            self._scalar = importlib.import_module("tensorboardX.summary").scalar
        directory.mkdir(exist_ok=True)
        name = f"events.out.tfevents.{time.time_ns()}"
        self._file = records.RecordWriter(str(directory / name))
        self._write(file_version="brain.Event:2")
        if step:  # what an earlier session wrote after it is void
            start = self._events.SessionLog(status=self._events.SessionLog.START)
            self._write(step=step, session_log=start)
        self._file.flush()

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Write scalars."""
        for name, value in values.items():
            self._write(step=step, summary=self._scalar(name, value))
        self._file.flush()

    def video(self, step: int, path: Path) -> None:
        """Do nothing: the file itself can be watched."""

    def close(self) -> None:
        """Write what is left."""
        self._file.close()

    def _write(self, **content: Any) -> None:
        event = self._events.Event(wall_time=time.time(), **content)
        self._file.write(event.SerializeToString())


class Wandb:
    """A run of Weights & Biases, offline with WANDB_MODE=offline."""

    def __init__(self, name: str, config: Mapping[str, Any], directory: Path) -> None:
        self._wandb = importlib.import_module("wandb")
        settings = self._wandb.Settings(silent=True, init_timeout=30, console="off")
        self._run = self._wandb.init(
            project="xagents-ray",
            name=name,
            config=dict(config),
            dir=str(directory),
            settings=settings,
        )

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log numbers."""
        self._run.log(dict(values), step=step)

    def video(self, step: int, path: Path) -> None:
        """Log a video."""
        video = self._wandb.Video(str(path), format="mp4")
        self._run.log({"video": video}, step=step)

    def close(self) -> None:
        """Write what is left."""
        self._run.finish()
