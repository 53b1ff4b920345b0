"""What a run writes as it proceeds; a failure costs a warning, not the run."""

import contextlib
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.run.progress import EndedEpisode
from xagents_ray.run.trackers import TensorBoard, Tracker, Wandb
from xagents_ray.storage.history import History
from xagents_ray.storage.run_directory import RunDirectory

_TRACK_SECONDS = 1.0


class BestEffort:
    """Runs what may fail for lack of disk space or network, and warns once of each.

    Attributes:
        warn: shows a warning.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self.warn = warn
        self._warned: set[str] = set()

    def __call__(self, what: str, work: Callable[[], object]) -> bool:
        """Do the work; return whether that succeeded."""
        try:
            work()
        except Exception as error:
            if what not in self._warned:
                self._warned.add(what)
                reason = " ".join(str(error).split()) or type(error).__name__
                self.warn(f"{what} can't be written; training continues: {reason}")
            return False
        return True


class Recorder:
    """Histories and trackers of one session of a run.

    Args:
        run: whose.
        directory: of the run.
        histories: files that get every episode.
        best_effort: warns where writing fails.
        step: env steps of the run at the start of the session.
    Attributes:
        best_effort: likewise.
    """

    def __init__(
        self,
        run: RunSpec,
        directory: RunDirectory,
        histories: Sequence[History],
        best_effort: BestEffort,
        step: int,
    ) -> None:
        self._histories, self.best_effort = histories, best_effort
        self._trackers: list[Tracker] = []
        # Made once there is something to log: their imports would delay the start.
        self._planned: list[tuple[str, Callable[[], Tracker]]] = []
        self._tracked = 0.0
        config = run.config.run
        if config.tensorboard:
            folder = directory.path / "tensorboard"
            events = functools.partial(TensorBoard, folder, step)
            self._planned.append(("What TensorBoard reads", events))
        name = config.monitor_session
        if name is not None:
            make = functools.partial(Wandb, name, run.config.values(), directory.path)
            self._planned.append(("--monitor-session", make))

    def episodes(self, ended: Sequence[EndedEpisode], seconds: float) -> None:
        """Record the episodes that ended in one round.

        Args:
            ended: in order.
            seconds: of the run so far.
        """
        for history in self._histories:
            for episode in ended:
                history.add(
                    episode.step,
                    seconds,
                    episode.episode_return,
                    episode.mean_reward,
                    episode.best_reward,
                )
            self.best_effort("The history", history.flush_if_due)

    def evaluated(self, step: int, reward: float) -> None:
        """Record an evaluation's mean return."""
        for history in self._histories:
            history.evaluated(reward)
        self._log(step, {"reward/evaluation": reward})

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Track the metrics of a learning phase, at most once per second."""
        now = time.monotonic()
        if now - self._tracked >= _TRACK_SECONDS:
            self._tracked = now
            self._log(step, values)

    def flush(self) -> None:
        """Write the histories."""
        for history in self._histories:
            self.best_effort("The history", history.flush)

    def close(self, step: int, values: Mapping[str, float], video: Path | None) -> None:
        """Write the rest and the last metrics."""
        self.flush()
        self._log(step, values)
        for tracker in self._trackers:
            if video is not None:
                show = functools.partial(tracker.video, step, video)
                self.best_effort("The video", show)
            self.best_effort(type(tracker).__name__, tracker.close)

    def _track(self, make: Callable[[], Tracker]) -> None:
        self._trackers.append(make())

    def _log(self, step: int, values: Mapping[str, float]) -> None:
        while self._planned:
            what, make = self._planned.pop(0)
            self.best_effort(what, functools.partial(self._track, make))
        for tracker in list(self._trackers):
            name = type(tracker).__name__
            if not self.best_effort(name, functools.partial(tracker.log, step, values)):
                self._trackers.remove(tracker)
                with contextlib.suppress(Exception):
                    tracker.close()
