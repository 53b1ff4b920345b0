"""What is written of a run while it goes on; a failure costs a warning, not the run."""

import contextlib
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from xagents_ray.run.driver import Run
from xagents_ray.run.progress import Game
from xagents_ray.run.trackers import TensorBoard, Tracker, Wandb
from xagents_ray.storage.history import History
from xagents_ray.storage.run_directory import RunDirectory

_TRACK_SECONDS = 1.0


class Attempts:
    """Runs what may fail for want of disk or network, and warns once of each."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._warned: set[str] = set()

    def __call__(self, what: str, work: Callable[[], object]) -> bool:
        """Return whether the work was done."""
        try:
            work()
        except Exception as error:
            if what not in self._warned:
                self._warned.add(what)
                reason = " ".join(str(error).split()) or type(error).__name__
                self._warn(f"{what} can't be written and training goes on: {reason}")
            return False
        return True


class Recorder:
    """Histories and trackers of one session of a run."""

    def __init__(
        self,
        run: Run,
        directory: RunDirectory,
        histories: Sequence[History],
        attempt: Attempts,
        step: int,
    ) -> None:
        self._histories, self._attempt = histories, attempt
        self._trackers: list[Tracker] = []
        # Made when there is something to log: their imports would delay the start.
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

    def games(self, games: Sequence[Game], seconds: float) -> None:
        """Take the games of one round."""
        for history in self._histories:
            for game in games:
                history.add(
                    game.step,
                    seconds,
                    game.episode_return,
                    game.mean_reward,
                    game.best_reward,
                )
            self._attempt("The history", history.flush_if_due)

    def evaluated(self, step: int, reward: float) -> None:
        """Take an evaluation's mean return."""
        for history in self._histories:
            history.evaluated(reward)
        self._log(step, {"reward/evaluation": reward})

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Take the numbers of a learning phase; one in a second is tracked."""
        now = time.monotonic()
        if now - self._tracked >= _TRACK_SECONDS:
            self._tracked = now
            self._log(step, values)

    def flush(self) -> None:
        """Write the histories."""
        for history in self._histories:
            self._attempt("The history", history.flush)

    def close(self, step: int, values: Mapping[str, float], video: Path | None) -> None:
        """Write what is left, and the last numbers."""
        self.flush()
        self._log(step, values)
        for tracker in self._trackers:
            if video is not None:
                show = functools.partial(tracker.video, step, video)
                self._attempt("The video", show)
            self._attempt(type(tracker).__name__, tracker.close)

    def _track(self, make: Callable[[], Tracker]) -> None:
        self._trackers.append(make())

    def _log(self, step: int, values: Mapping[str, float]) -> None:
        while self._planned:
            what, make = self._planned.pop(0)
            self._attempt(what, functools.partial(self._track, make))
        for tracker in list(self._trackers):
            name = type(tracker).__name__
            if not self._attempt(name, functools.partial(tracker.log, step, values)):
                self._trackers.remove(tracker)
                with contextlib.suppress(Exception):
                    tracker.close()
