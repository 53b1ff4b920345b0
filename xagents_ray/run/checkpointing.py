"""Decides when a run's checkpoints are taken and written."""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.errors import Broken, Stopped, UserError
from xagents_ray.core.reports import Evaluated, FailedEvaluation
from xagents_ray.run.driver import Driver, Snapshot
from xagents_ray.run.policy_card import policy_card, training_facts
from xagents_ray.run.run_state import RunState
from xagents_ray.storage.checkpoint_writer import CheckpointWriter
from xagents_ray.storage.checkpoints import (
    all_checkpoints,
    best_checkpoint,
    evaluation_by,
    load_checkpoint,
    step_of,
)
from xagents_ray.storage.run_directory import RunDirectory
from xagents_ray.storage.weights import with_card, write_file
from xagents_ray.watch.callbacks import Callback, Callbacks
from xagents_ray.watch.recorder import Recorder

_BEST_SECONDS = 10.0
"""Shortest time between two writes of a new best state, unless a checkpoint is due."""
_Taken = tuple[Snapshot, dict[str, Any]]


class CheckpointPolicy:
    """Takes and writes the checkpoints of one session of a run.

    `between_phases` (if `is_due`), `begin_evaluation` and `write_newest` take the
    state; no learning phase may be in progress then. The recorder's histories are
    flushed before each checkpoint, so that they never end earlier.
    """

    def __init__(
        self,
        run: RunSpec,
        driver: Driver,
        directory: RunDirectory,
        state: RunState,
        recorder: Recorder,
        callbacks: Callbacks,
    ) -> None:
        self._run, self._config, self._driver = run, run.config.run, driver
        self._runs_ahead = run.config.pipeline.policy_lag > 0
        self._by_evaluation = self._config.eval_every is not None
        self._state, self._progress = state, state.progress
        self._flush, self._best_effort = recorder.flush, recorder.best_effort
        self._callbacks = callbacks
        keep, step = self._config.keep_checkpoints, self._progress.env_steps
        self._checkpoints = CheckpointWriter(directory.checkpoints, keep, step)
        self._directory = directory.checkpoints
        self._resume = f"{run.algorithm.name} --resume {directory.quoted}"
        self._best_reward = self._progress.best_reward
        self._progress.best_evaluation = evaluation_by(self._directory, step)
        self._best: _Taken | None = None
        self._best_at = time.monotonic()
        self._no_best = self._why_no_best(run.config.training.reward_buffer_size)
        self._evaluated: dict[int, _Taken] = {}
        self._has_written_models = False
        self._written = self._tried = step
        self._complete = set[int]()  # steps of checkpoints with env actors' states

    @property
    def is_due(self) -> bool:
        """Whether `between_phases` takes the state of the run."""
        return self._is_checkpoint_due or self._is_new_best

    @property
    def is_behind(self) -> bool:
        """Whether the newest state has not been written."""
        return self._progress.env_steps != self._written

    @property
    def unsaved(self) -> list[str]:
        """Descriptions of states that could not be written."""
        found, steps = list[str](), self._progress.env_steps
        if self.is_behind:
            found.append(f"the newest state ({steps:,} env steps)")
        if self._best is not None:
            steps = self._best[1]["progress"]["env_steps"]
            found.append(f"the best state ({steps:,} env steps)")
        return found

    def how_to_resume(self) -> str:
        """Return how to resume, and from where if the newest state was not written."""
        found = all_checkpoints(self._directory)  # --resume takes the first one
        if not found:
            return "There is no checkpoint to continue from."
        step = step_of(found[0])
        is_newest = step == self._progress.env_steps
        where = "" if is_newest else f"The newest checkpoint is of {step:,} env steps. "
        return f"{where}To continue: xagents-ray train {self._resume}"

    def hint_at_resume(self, note: Callable[[str], None]) -> None:
        """Note how to resume, if the newest checkpoint has the newest state."""
        if (text := self.how_to_resume()).startswith("To continue"):
            note(text)

    def between_phases(self) -> None:
        """Take and write what is due; the run can be resumed exactly from here."""
        is_checkpoint_due = self._is_checkpoint_due
        is_due = is_checkpoint_due or time.monotonic() - self._best_at > _BEST_SECONDS
        if self._is_new_best:
            # One that is written now is the newest checkpoint, too.
            self._best = self._take(with_actors=is_due)
        self._best_reward = self._progress.best_reward
        lacks_actors = self._best is not None and not self._best[0].actors
        if is_due:
            self.write_best()
        if is_checkpoint_due:
            self.write_newest(with_replay=True)
        elif is_due and lacks_actors and not self._runs_ahead:
            # So that the newest checkpoint continues exactly, also after SIGKILL.
            # Without rollouts ahead, no phase is in progress.
            self._write(*self._take_now())

    def begin_evaluation(self) -> None:
        """Take the state whose weights are being evaluated."""
        self._evaluated[self._progress.env_steps] = self._take(with_actors=False)

    def end_evaluation(self, evaluation: Evaluated | FailedEvaluation) -> None:
        """Make the evaluated state the best if its mean return is; else drop it."""
        state = self._evaluated.pop(evaluation.step, None)
        if state is None or isinstance(evaluation, FailedEvaluation):
            return
        mean, best = evaluation.mean_reward, self._progress.best_evaluation
        if mean > (-math.inf if best is None else best):
            self._best, self._progress.best_evaluation = state, mean

    def finish(self) -> str | None:
        """Write the best state and --checkpoints; return a note for the user, or None.

        Without a best state, --checkpoints gets the final weights. If an earlier
        session wrote the best state, it gets the weights of that checkpoint.
        """
        self.write_best()
        why, paths = self._no_best, self._config.checkpoints
        if paths is None or self._has_written_models:
            return None
        if why:
            said = f"--checkpoints has the final weights, as there is no best: {why}"
            work = partial(self._write_models, self._take_now(), paths)
        elif (path := best_checkpoint(self._directory)) is not None:
            said = "--checkpoints has the best weights, which an earlier session found"
            work = partial(self._write_models_of, path, paths)
        else:
            return None
        is_written = self._best_effort("--checkpoints", work)
        return said if is_written else None

    def write_best(self) -> None:
        """Write the best state, if there is one that has not been written."""
        if self._best is None:
            return
        taken, facts = self._best
        self._best_at = time.monotonic()
        try:
            snapshot = self._driver.fetch(taken)
        except (Broken, Stopped):
            return  # it stays unsaved; the newest state is still to be written
        self._best = None
        if snapshot is None:
            self._lose_best(facts["progress"]["env_steps"])
            return
        self._no_best = ""
        if not self._write(snapshot, facts, is_best=True):
            self._best = taken, facts  # retried, unless a better one comes
        if (paths := self._config.checkpoints) is not None:
            self._best_effort(
                "--checkpoints", self._write_models, (snapshot, facts), paths
            )

    def write_newest(self, with_replay: bool) -> None:
        """Take and write the newest state, and the replay with --checkpoint-replay."""
        self._tried = self._progress.env_steps
        with_replay = with_replay and self._config.checkpoint_replay
        state, facts = self._take_now()
        is_written = self._write(state, facts, with_replay=with_replay)
        if is_written or (with_replay and self._write(state, facts)):
            self._written = self._tried

    def _why_no_best(self, window: int) -> str:
        """Return why the session starts without a best state; "" if it has one."""
        if self._by_evaluation:
            has_best = self._progress.best_evaluation is not None
            return "" if has_best else "no evaluation ended"
        if self._progress.best_reward is not None:
            return ""
        return f"fewer than {window} episodes (--reward-buffer-size) ended"

    def _lose_best(self, step: int) -> None:
        """Warn that the best state was lost before it was written."""
        if self._no_best:
            self._no_best = "it was lost with the learner"
        if self._by_evaluation:
            now = self._progress.env_steps
            self._progress.best_evaluation = evaluation_by(self._directory, now)
        self._best_effort.warn(
            f"The best weights so far, of {step} steps, were lost with the learner "
            "before they were written; the best ones before them are kept"
        )

    @property
    def _is_checkpoint_due(self) -> bool:
        every = self._config.checkpoint_every
        return self._progress.env_steps // every > self._tried // every

    @property
    def _is_new_best(self) -> bool:
        changed = self._progress.best_reward != self._best_reward
        return changed and not self._by_evaluation

    def _take(self, with_actors: bool) -> _Taken:
        return self._driver.snapshot(with_actors), self._state.facts()

    def _actors_of(self, step: int) -> list[Any]:
        """Return the env actors' states in the checkpoint of a step; [] without."""
        if step in self._complete:
            with suppress(UserError):  # it was removed since
                found = load_checkpoint(self._checkpoints.path(step))
                actors: list[Any] = found.facts["actors"]
                return actors
        return []

    def _take_now(self) -> _Taken:
        return self._driver.state(), self._state.facts()

    def _write_models(self, taken: _Taken, paths: Sequence[str]) -> None:
        snapshot, facts = taken
        first, *others = self._driver.encode(snapshot, paths)
        card = policy_card(self._run, training_facts(facts))
        for file in (with_card(first, card), *others):
            write_file(file)
        self._has_written_models = True

    def _write_models_of(self, path: Path, paths: Sequence[str]) -> None:
        checkpoint = load_checkpoint(path)
        taken = Snapshot(checkpoint.arrays, []), checkpoint.facts
        self._write_models(taken, paths)

    def _write(
        self,
        snapshot: Snapshot,
        facts: dict[str, Any],
        is_best: bool = False,
        with_replay: bool = False,
    ) -> bool:
        """Write a checkpoint; return whether that succeeded."""
        self._flush()
        is_ranked = is_best and self._by_evaluation
        step = facts["progress"]["env_steps"]
        actors = snapshot.actors or self._actors_of(step)
        is_written = self._best_effort(
            "A checkpoint with its replay" if with_replay else "A checkpoint",
            self._checkpoints.write,
            step,
            snapshot.learner,
            {**facts, "actors": actors},
            is_best=is_best,
            evaluation=self._progress.best_evaluation if is_ranked else None,
            write_replay=self._driver.save_replay if with_replay else None,
            replay_nbytes=self._driver.replay_nbytes if with_replay else 0,
        )
        if is_written:
            if actors:
                self._complete.add(step)
            self._callbacks(Callback.on_checkpoint, self._checkpoints.path(step))
        return is_written
