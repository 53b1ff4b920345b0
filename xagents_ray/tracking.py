"""Where a run's numbers can be watched: TensorBoard and Weights & Biases."""

import contextlib
import importlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol


class Tracker(Protocol):
    """Takes numbers by name. Any method may raise; the run goes on without it."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Take numbers of one env step."""

    def video(self, step: int, path: Path) -> None:
        """Take a video of a game."""

    def close(self) -> None:
        """Write what is left."""


@contextlib.contextmanager
def _without_torch() -> Iterator[None]:
    """Keep tensorboardX from importing PyTorch, seconds for what isn't used here."""
    if "torch" in sys.modules:
        yield
        return
    sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["torch"]


class TensorBoard:
    """Event files; `tensorboard --logdir` shows them."""

    def __init__(self, directory: Path, step: int) -> None:
        with _without_torch():
            module = importlib.import_module("tensorboardX")
        self._writer = module.SummaryWriter(str(directory), purge_step=step or None)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Write scalars."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def video(self, step: int, path: Path) -> None:
        """Do nothing: the file itself can be watched."""

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()


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
