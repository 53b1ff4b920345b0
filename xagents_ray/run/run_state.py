"""The counters of a run, which checkpoints store with the learner's state."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.trajectory import Fill
from xagents_ray.run.checkpoint_facts import unresumable
from xagents_ray.run.prepare import Resumed
from xagents_ray.settings.config import Config
from xagents_ray.settings.training import TrainingConfig
from xagents_ray.storage.checkpoints import evaluation_by
from xagents_ray.storage.history import History
from xagents_ray.watch.progress import Progress


@dataclass
class Plateau:
    """Learning rate reduction and early stopping when the mean reward plateaus."""

    # Number of checks since the last improvement or reduction.
    misses: int = 0
    reduces: int = 0  # number of reductions since the last improvement
    best: float | None = None  # largest mean reward at a check
    episodes: int = 0  # number of episodes that had ended at the last check

    def respond(
        self,
        config: Config,
        progress: Progress,
        scale_lr: Callable[[float], float],
        note: Callable[[str], None],
    ) -> str | None:
        """Reduce the learning rate on a plateau; return why the run ends, or None.

        Args:
            config: settings of the run.
            progress: progress of the run.
            scale_lr: function that multiplies the learning rates by a factor and
                returns the new one.
            note: function that shows a sentence to the user.
        """
        if (due := self.due(config, progress)) is None:
            return None
        lr = scale_lr(config.training.plateau_reduce_factor)
        note(f"Learning rate reduced to {lr:.3g}")
        steps = progress.env_steps
        return f"Stopped early at {steps} steps" if due == "stop" else None

    def due(self, config: Config, progress: Progress) -> str | None:
        """Return the result of `check` every --n-envs episodes of a full window."""
        mean, since = progress.mean_reward, progress.episode_count - self.episodes
        if mean is None or not progress.is_full or since < config.env.n_envs:
            return None
        self.episodes = progress.episode_count
        return self.check(config.training, progress.env_steps, mean)

    def check(
        self, config: TrainingConfig, env_steps: int, mean_reward: float
    ) -> str | None:
        """Return `reduce` for the learning rate, `stop` to end the run, or None."""
        if self.best is None or mean_reward > self.best:
            self.best, self.misses, self.reduces = mean_reward, 0, 0
            return None
        begins = config.divergence_monitoring_steps
        if begins is None or env_steps < begins:
            return None
        self.misses += 1
        if self.misses < config.plateau_reduce_patience:
            return None
        self.misses = 0
        self.reduces += 1
        return "stop" if self.reduces >= config.early_stop_patience else "reduce"

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint, as JSON."""
        counts = {"misses": self.misses, "reduces": self.reduces, "best": self.best}
        return {**counts, "games": self.episodes}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `state`."""
        self.misses, self.reduces = int(state["misses"]), int(state["reduces"])
        self.episodes = int(state["games"])
        self.best = None if state["best"] is None else float(state["best"])


class UpdateSchedule:
    """Determines the number of batches of each learning phase."""

    def __init__(self, run: RunSpec) -> None:
        self._run, self._replay = run, run.config.algorithm.replay
        self.pending_steps = 0  # env steps not yet counted towards a batch
        self._has_begun = False

    def batches(self, before: int, now: int, replay: Fill | None) -> int:
        """Return the number of batches due; on-policy, the newest round is one.

        `before` and `now` are the env steps of the run before and after that round.
        """
        c, fresh = self._replay, int(self._run.learns_online)
        if c is None or replay is None or replay.size == 0:
            return fresh
        # If a replay shard dies, learning continues with the remaining data.
        needed = c.initial_size
        if self._has_begun:
            needed = min(needed, c.buffer_batch_size)
        if not (replay.is_full or replay.size >= needed):
            return fresh
        self._has_begun = True
        # Seeded by env steps, so that a resumed run draws the same numbers.
        generator = np.random.default_rng([self._run.seed, now])
        pending = self.pending_steps + now - before
        sampled, self.pending_steps = c.due(pending, generator)
        return fresh + sampled


class RunState:
    """The counters of a run, which continue those of a checkpoint or a history.

    The histories of a resumed run are truncated at its checkpoint; the counters of a
    new run continue those of the first history. `session` is how often the run has
    been resumed, including this time.
    """

    def __init__(
        self,
        run: RunSpec,
        resumed: Resumed | None = None,
        histories: Sequence[History] = (),
    ) -> None:
        self._seed, self.session = run.seed, resumed.session if resumed else 0
        self.goes_back = False  # whether there are later checkpoints
        rows = run.config.algorithm.batch_steps * run.config.env.n_envs
        size = run.config.training.reward_buffer_size
        self.progress = progress = Progress(deque(maxlen=size), rows)
        self.plateau, self.schedule = Plateau(), UpdateSchedule(run)
        if resumed is not None:
            facts = resumed.checkpoint.facts
            try:
                progress.restore(facts["progress"])
                self.plateau.restore(facts["plateau"])
            except (AttributeError, KeyError, TypeError, ValueError):
                raise unresumable(resumed.checkpoint) from None
            written = resumed.directory.checkpoints
            progress.best_evaluation = evaluation_by(written, progress.env_steps)
            self.schedule.pending_steps = int(facts["pending_steps"])
            self.goes_back = resumed.goes_back
            for history in histories:
                history.cut(progress.env_steps, is_held=self.goes_back)
        elif histories and (last := histories[0].last) is not None:
            progress.env_steps, progress.earlier_seconds = last.step, last.time
            progress.best_reward = histories[0].best_mean(size)
            progress.episode_count = histories[0].rows
            progress.rewards.extend(histories[0].newest_rewards(size))

    def facts(self) -> dict[str, Any]:
        """Return the counters for a checkpoint, as JSON."""
        return {
            "seed": self._seed,
            "session": self.session,
            "progress": self.progress.state(),
            "plateau": self.plateau.state(),
            "pending_steps": self.schedule.pending_steps,
        }
