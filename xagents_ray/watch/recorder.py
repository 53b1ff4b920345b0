"""What a run records as it proceeds; a failure causes a warning, not its end."""

import contextlib
import importlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec

from xagents_ray.core.errors import Stopped
from xagents_ray.core.files import replace_bytes
from xagents_ray.core.parsing import read_bounded
from xagents_ray.core.process import without_packages
from xagents_ray.core.reports import Evaluated
from xagents_ray.settings.config import Config
from xagents_ray.storage.history import History
from xagents_ray.storage.run_directory import RunDirectory
from xagents_ray.watch.progress import EndedEpisode
from xagents_ray.watch.scalar_names import sb3_scalars

_TRACK_SECONDS = 1.0
_BESIDE_THE_RUN = "The video", "Wandb", "--monitor-session"
"""What may fail for other reasons than those of the run's own files."""
_WANDB_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_P = ParamSpec("_P")


class TensorBoard:
    """An event file for `tensorboard --logdir`.

    It doesn't use tensorboardX's SummaryWriter: when the disk is full, its thread dies,
    and the run would wait for it forever.

    Args:
        directory: directory of the file.
        step: env steps of the run at the start of the session.
        rename: function that returns scalars under the names that are shown.
    """

    def __init__(
        self,
        directory: Path,
        step: int,
        rename: Callable[[Mapping[str, float]], Mapping[str, float]],
    ) -> None:
        self._rename = rename
        with without_packages("torch"):  # an unused import of tensorboardX
            records = importlib.import_module("tensorboardX.record_writer")
            self._events = importlib.import_module("tensorboardX.proto.event_pb2")
            self._scalar = importlib.import_module("tensorboardX.summary").scalar
        directory.mkdir(exist_ok=True)
        name = f"events.out.tfevents.{time.time_ns()}"
        self._file = records.RecordWriter(str(directory / name))
        self._write(file_version="brain.Event:2")
        if step:  # invalidates later events of an earlier session
            start = self._events.SessionLog(status=self._events.SessionLog.START)
            self._write(step=step, session_log=start)
        self._file.flush()

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in self._rename(values).items():
            self._write(step=step, summary=self._scalar(name, value))
        self._file.flush()

    def video(self, step: int, path: Path) -> None:
        """Do nothing; the file itself can be watched."""

    def close(self) -> None:
        self._file.close()

    def _write(self, **content: Any) -> None:
        event = self._events.Event(wall_time=time.time(), **content)
        self._file.write(event.SerializeToString())


class Wandb:
    """A run of Weights & Biases, offline with WANDB_MODE=offline.

    It is created beside a run of the user's own. Its ID is stored in the run's
    directory, so that a resumed run continues it.
    """

    def __init__(self, name: str, config: Mapping[str, Any], directory: Path) -> None:
        self._wandb = importlib.import_module("wandb")
        settings = self._wandb.Settings(silent=True, init_timeout=30, console="off")
        known = directory / "wandb" / "run-id"
        self._run = self._wandb.init(
            project="xagents-ray",
            name=name,
            config=dict(config),
            dir=str(directory),
            settings=settings,
            reinit="create_new",
            id=_stored_id(known),
            resume="allow",
        )
        known.parent.mkdir(exist_ok=True)
        replace_bytes(known, self._run.id.encode())
        self._run.define_metric("*", step_metric="env_steps")
        self._newest = int(self._run.step or 0)  # that of a run that is continued

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log numbers, even for an earlier step, as evaluations may end late."""
        self._newest = max(step, self._newest)  # W&B ignores steps that decrease
        self._run.log({**values, "env_steps": step}, step=self._newest)

    def video(self, step: int, path: Path) -> None:
        video = self._wandb.Video(str(path), format="mp4")
        self._newest = max(step, self._newest)
        self._run.log({"video": video}, step=self._newest)

    def close(self) -> None:
        self._run.finish()


def _stored_id(path: Path) -> str | None:
    """Return the ID of the W&B run that a run logs to; None before its first one."""
    try:
        found = read_bounded(path, 64).decode()
    except (OSError, ValueError):
        return None
    return found if _WANDB_ID.fullmatch(found) else None


Tracker = TensorBoard | Wandb
"""Records numbers by name. If a method raises, the run continues without it."""


class BestEffort:
    """Runs work that may fail for lack of disk space or network; warns once each.

    Attributes:
        warn: function that shows a warning.
        unsaved: reasons by what the newest attempt could not write, except the video
            and what goes to Weights & Biases.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self.warn = warn
        self.unsaved: dict[str, str] = {}
        self._warned: set[str] = set()

    def __call__(
        self, what: str, work: Callable[_P, object], *args: _P.args, **kwargs: _P.kwargs
    ) -> bool:
        """Do the work; return whether it succeeded."""
        try:
            work(*args, **kwargs)
        except Stopped:  # a signal ends the run, which is no failure
            return False
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            if what not in _BESIDE_THE_RUN:
                # Without the path, which the end of a run has no room for.
                self.unsaved[what] = getattr(error, "strerror", None) or reason
            if what not in self._warned:
                self._warned.add(what)
                self.warn(f"{what} can't be written; training continues: {reason}")
            return False
        self.unsaved.pop(what, None)
        return True


class Recorder:
    """Histories and trackers of a session, which starts at env step `step`."""

    def __init__(
        self,
        agent: str,
        config: Config,
        directory: RunDirectory,
        histories: Sequence[History],
        best_effort: BestEffort,
        step: int,
    ) -> None:
        self._histories, self.best_effort = histories, best_effort
        self._trackers: list[Tracker] = []
        # Created with the first value to log: their imports would delay the start.
        self._planned: list[tuple[str, Callable[[], Tracker]]] = []
        self._tracked = 0.0
        # User-defined metrics that are not tracked yet: step and value by name.
        self._own: dict[str, tuple[int, float]] = {}
        self._own_tracked = 0.0
        if config.run.tensorboard:
            is_sb3 = config.run.tensorboard_names == "sb3"
            rename = partial(sb3_scalars, agent) if is_sb3 else dict
            folder = directory.path / "tensorboard"
            events = partial(TensorBoard, folder, step, rename)
            self._planned.append(("What TensorBoard reads", events))
        if (name := config.run.monitor_session) is not None:
            make = partial(Wandb, name, config.values(), directory.path)
            self._planned.append(("--monitor-session", make))

    def episodes(self, ended: Sequence[EndedEpisode], seconds: float) -> None:
        """Record the episodes that ended in one round, `seconds` into the run."""
        for history in self._histories:
            for episode in ended:
                history.add(
                    episode.step,
                    seconds,
                    episode.episode_return,
                    episode.mean_reward,
                    episode.best_reward,
                )
                for name in ("mean_length", "success_rate"):
                    if (value := getattr(episode, name)) is not None:
                        history.log(name, value)
            self.best_effort("The history", history.flush_if_due)

    def evaluated(self, evaluation: Evaluated) -> None:
        for history in self._histories:
            history.evaluated(evaluation.mean_reward)
        measured = {
            "reward/evaluation": evaluation.mean_reward,
            "length/evaluation": evaluation.mean_length,
            "success/evaluation": evaluation.success_rate,
        }
        known = {name: x for name, x in measured.items() if x is not None}
        self._log(evaluation.step, known)

    def own(self, step: int, name: str, value: float) -> None:
        """Record a user-defined metric; trackers get its newest value once a second.

        Raises:
            UserError: the name is a built-in column of the history.
        """
        for history in self._histories:
            history.log(name, value)
        self._own[name] = step, value
        if time.monotonic() - self._own_tracked >= _TRACK_SECONDS:
            self._track_own()

    def metrics(self, step: int, read: Callable[[], Mapping[str, float]]) -> None:
        """Read and track the metrics of a learning phase, at most once per second."""
        now = time.monotonic()
        if now - self._tracked >= _TRACK_SECONDS:
            self._tracked = now
            self._log(step, read())

    def flush(self) -> None:
        for history in self._histories:
            self.best_effort("The history", history.flush)

    def close(self, step: int, values: Mapping[str, float], video: Path | None) -> None:
        """Write the remaining rows and the last metrics."""
        for history in self._histories:
            if not history.is_held:  # else no checkpoint needs the new rows
                self.best_effort("The history", history.flush)
        self._track_own()
        self._log(step, values)
        for tracker in self._trackers:
            if video is not None:
                self.best_effort("The video", tracker.video, step, video)
            self.best_effort(type(tracker).__name__, tracker.close)

    def _track_own(self) -> None:
        self._own_tracked = time.monotonic()
        by_step: dict[int, dict[str, float]] = {}
        for name, (step, value) in self._own.items():
            by_step.setdefault(step, {})[name] = value
        self._own = {}
        for step in sorted(by_step):
            self._log(step, by_step[step])

    def _track(self, make: Callable[[], Tracker]) -> None:
        self._trackers.append(make())

    def _log(self, step: int, values: Mapping[str, float]) -> None:
        while self._planned:
            what, make = self._planned.pop(0)
            self.best_effort(what, self._track, make)
        for tracker in list(self._trackers):
            if not self.best_effort(type(tracker).__name__, tracker.log, step, values):
                self._trackers.remove(tracker)
                with contextlib.suppress(Exception):
                    tracker.close()
