"""The counters of a run, which its checkpoints hold besides its parts' states."""

from collections import deque
from collections.abc import Sequence
from typing import Any

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.run.plateau import Plateau
from xagents_ray.run.progress import Progress
from xagents_ray.run.resume import Resumed
from xagents_ray.run.update_schedule import UpdateSchedule
from xagents_ray.storage.history import History


class RunState:
    """The counters of a run.

    Args:
        run: before it starts.
        session: how many times it has been resumed, this one included.
    Attributes:
        session: likewise.
        progress: what the run has done so far.
        plateau: checks of the mean reward.
        schedule: of the updates.
    """

    def __init__(self, run: RunSpec, session: int = 0) -> None:
        self._run, self.session = run, session
        rows = run.config.algorithm.batch_steps * run.config.env.n_envs
        window: deque[float] = deque(maxlen=run.config.training.reward_buffer_size)
        self.progress = Progress(window, rows)
        self.plateau, self.schedule = Plateau(), UpdateSchedule(run)

    def restore_counters(
        self, resumed: Resumed | None, histories: Sequence[History]
    ) -> None:
        """Take the counters of a checkpoint, or else of the history that continues."""
        progress = self.progress
        if resumed is not None:
            facts = resumed.checkpoint.facts
            progress.restore(facts["progress"])
            self.plateau.restore(facts["plateau"])
            self.schedule.steps = int(facts["owed"])
            for history in histories:
                history.cut(progress.env_steps)
        elif histories and histories[0].last is not None:
            history, size = histories[0], self._run.config.training.reward_buffer_size
            last = histories[0].last
            progress.env_steps, progress.earlier_seconds = last.step, last.time
            progress.best_reward = history.best_mean(size)
            progress.episode_count = history.rows
            progress.rewards.extend(history.newest_rewards(size))

    def facts(self) -> dict[str, Any]:
        """Return what a checkpoint holds in addition to the parts' states, as JSON."""
        return {
            "seed": self._run.seed,
            "session": self.session,
            "progress": self.progress.state(),
            "plateau": self.plateau.state(),
            "owed": self.schedule.steps,
        }
