"""When a run's checkpoints are taken and written."""

import functools
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from xagents_ray.run.driver import Driver, Run, Snapshot
from xagents_ray.run.progress import Progress
from xagents_ray.run.recorder import Attempts
from xagents_ray.storage.checkpoint_writer import CheckpointWriter
from xagents_ray.storage.checkpoints import best, best_evaluation
from xagents_ray.storage.run_directory import RunDirectory
from xagents_ray.storage.weights import write_file

_BEST_SECONDS = 10.0
"""A new best is held in memory up to that long before it is written."""


class Saver:
    """Takes and writes the checkpoints of one session of a run.

    Args:
        run: whose checkpoints.
        driver: that has the parts' state.
        directory: of the run.
        facts: returns what else a checkpoint holds, but for the env actors' states.
        attempt: warns where writing fails.
        flush: writes the histories, which must not end before a checkpoint.
        settle: waits for what is still learnt, and counts it.
        progress: of the run, at the start of the session.
    """

    def __init__(
        self,
        run: Run,
        driver: Driver,
        directory: RunDirectory,
        facts: Callable[[], dict[str, Any]],
        attempt: Attempts,
        flush: Callable[[], None],
        settle: Callable[[], None],
        progress: Progress,
    ) -> None:
        self._config, self._backend = run.config.run, driver
        self._by_evaluation = self._config.eval_every is not None
        self._window = run.config.training.reward_buffer_size
        self._facts, self._attempt, self._progress = facts, attempt, progress
        self._flush, self._settle = flush, settle
        keep = self._config.keep_checkpoints
        self._checkpoints = CheckpointWriter(directory.checkpoints, keep)
        self._best_reward = progress.best_reward
        # That of the run so far, not of what came after where it is resumed.
        path = best(directory.checkpoints, progress.env_steps)
        progress.best_evaluation = None if path is None else best_evaluation(path)
        self._best: tuple[Snapshot, dict[str, Any]] | None = None
        self._best_at = time.monotonic()
        self._evaluated: dict[int, tuple[Snapshot, dict[str, Any]]] = {}
        self._written = progress.env_steps

    def between_phases(self) -> None:
        """Take and write what is due; the run can go on exactly from here."""
        every, steps = self._config.checkpoint_every, self._progress.env_steps
        is_due = steps // every > self._written // every
        if self._progress.best_reward != self._best_reward:
            self._best_reward = self._progress.best_reward
            if not self._by_evaluation:
                self._best = self._take()
        if is_due or time.monotonic() - self._best_at > _BEST_SECONDS:
            self.write_best()
        if is_due:
            self._write_newest(with_replay=True)

    def begin_evaluation(self) -> None:
        """Keep the state whose weights are evaluated from now on."""
        self._evaluated[self._progress.env_steps] = self._take()

    def end_evaluation(self, step: int, mean: float) -> None:
        """Make the state that was evaluated at a step the best if it is."""
        state = self._evaluated.pop(step, None)
        # Earlier ones have failed: they end in order.
        self._evaluated = {s: x for s, x in self._evaluated.items() if s > step}
        best = self._progress.best_evaluation
        if state is not None and mean > (-math.inf if best is None else best):
            self._best, self._progress.best_evaluation = state, mean

    def at_the_end(self, with_replay: bool) -> None:
        """Write the best and the newest state, if it is not written already."""
        self.write_best()
        if self._progress.env_steps != self._written:
            self._write_newest(with_replay)

    def finish(self) -> str | None:
        """Write what the last evaluations made the best.

        Where nothing was ever the best, --checkpoints gets the final weights.

        Returns:
            What the user should know.
        """
        self.write_best()
        progress, paths = self._progress, self._config.checkpoints
        rank = progress.best_evaluation if self._by_evaluation else progress.best_reward
        if paths is None or rank is not None:
            return None
        snapshot = self._backend.fetch(self._backend.snapshot())
        write = functools.partial(self._write_models, snapshot, paths)
        if not self._attempt("--checkpoints", write):
            return None
        few = f"fewer than {self._window} episodes (--reward-buffer-size) ended"
        reason = "no evaluation ended" if self._by_evaluation else few
        return f"--checkpoints has the final weights, as there is no best: {reason}"

    def write_best(self) -> None:
        """Write the best state, if there is one that is not written already."""
        if self._best is None:
            return
        (snapshot, facts), self._best = self._best, None
        self._best_at = time.monotonic()
        snapshot = self._backend.fetch(snapshot)
        self._attempt(
            "A checkpoint", lambda: self._write(snapshot, facts, is_best=True)
        )
        paths = self._config.checkpoints
        if paths is not None:
            self._attempt("--checkpoints", lambda: self._write_models(snapshot, paths))

    def _take(self) -> tuple[Snapshot, dict[str, Any]]:
        """Take the state of the run once what is still learnt is counted."""
        self._settle()
        return self._backend.snapshot(), self._facts()

    def _write_models(self, snapshot: Snapshot, paths: Sequence[str]) -> None:
        for file in self._backend.encode(snapshot, paths):
            write_file(file)

    def _write_newest(self, with_replay: bool) -> None:
        self._written = self._progress.env_steps
        snapshot, facts = self._take()
        snapshot = self._backend.fetch(snapshot)
        write_replay = self._backend.save_replay
        use = with_replay and self._config.checkpoint_replay
        self._attempt(
            "A checkpoint",
            lambda: self._write(
                snapshot, facts, write_replay=write_replay if use else None
            ),
        )

    def _write(
        self,
        snapshot: Snapshot,
        facts: dict[str, Any],
        is_best: bool = False,
        write_replay: Callable[[Path], None] | None = None,
    ) -> None:
        self._flush()
        is_ranked = is_best and self._by_evaluation
        self._checkpoints.write(
            facts["progress"]["env_steps"],
            snapshot.learner,
            {**facts, "actors": snapshot.actors},
            is_best=is_best,
            evaluation=self._progress.best_evaluation if is_ranked else None,
            write_replay=write_replay,
            replay_nbytes=self._backend.replay_nbytes if write_replay else 0,
        )
