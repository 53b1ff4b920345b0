"""What a driver is to the training loop, and what it is made from."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.moments import Statistics
from xagents_ray.core.reports import (
    Collected,
    Evaluated,
    FailedEvaluation,
    WatchedDriver,
)
from xagents_ray.core.signals import Signals
from xagents_ray.core.trajectory import (
    WeightsFile,
)
from xagents_ray.storage.checkpoints import Checkpoint

LOCAL_DRIVER = "xagents_ray.run.local"
"""Module of the driver of one process, imported once a run needs it."""


class Snapshot(NamedTuple):
    """The state of a run's parts at one moment, or references to it."""

    learner: Any  # arrays by name
    actors: Any  # states of the env actors; none where rollouts are ahead of them


class Driver(WatchedDriver, Protocol):
    """Where the parts of a run live: this process, or Ray."""

    notes: list[str]  # what the user should know of the start, one sentence each
    replay_nbytes: int  # of the whole replay; 0 without one

    @property
    def learner_threads(self) -> int:
        """Cores that the learner uses on its machine."""

    def collect(self, env_steps: int) -> Collected:
        """Take rollouts, within --policy-lag unless a replay holds them; fill it.

        Raises:
            Stopped: a signal asked the run to end.
            Broken: no env actor is left.
        """

    def learn(
        self, batches: int, env_steps: int, statistics: Statistics
    ) -> list[dict[str, float]]:
        """Begin a learning phase; return the metrics of those that ended.

        Args:
            batches: number of batches; on-policy, the newest round is the first. All
                others are drawn from the replay.
            env_steps: env steps of the whole run, after the newest round.
            statistics: measurements of the env actors since the last phase.
        Raises:
            Stopped: as in `collect`, when the phase does not end soon.
            Broken: the learner dies again and again.
        """

    def drain(self) -> list[dict[str, float]]:
        """Wait for the phases in progress; return their metrics. Raises as `learn`."""

    def scale_lr(self, factor: float) -> float:
        """Multiply the learning rates; return the new one."""

    def snapshot(self) -> Snapshot:
        """Copy the state of the learner and the env actors, to be fetched later.

        Raises:
            Stopped: a part is busy and the run is to end.
        """

    def fetch(self, snapshot: Snapshot) -> Snapshot | None:
        """Return a snapshot's arrays in place of references; None if they are lost."""

    def state(self) -> Snapshot:
        """Return the newest state of the learner and the env actors that can be had."""

    def save_replay(self, directory: Path) -> None:
        """Write the replay's files to a folder."""

    def restore(self, checkpoint: Checkpoint, session: int) -> int:
        """Continue from a checkpoint; return how many unfinished episodes it dropped.

        The run has been resumed `session` times, this one included.
        """

    def encode(self, snapshot: Snapshot, paths: Sequence[str]) -> list[WeightsFile]:
        """Return a snapshot's models as weights files with these paths."""

    def evaluate(self, env_steps: int) -> bool:
        """Begin a greedy evaluation of the newest weights; False when it is skipped."""

    def evaluations(self, is_last: bool) -> Sequence[Evaluated | FailedEvaluation]:
        """Return those that ended or failed; wait for the last."""

    def close(self) -> None:
        """End every part."""


StartDriver = Callable[[RunSpec, Signals, Callable[[str], None]], Driver]
"""Starts the parts of a run, and tells the user what takes long by calling the last
argument; raises Stopped when a signal ends that early."""
