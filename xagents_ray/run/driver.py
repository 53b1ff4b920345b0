"""The interface of drivers, which the training loop uses."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.env_shares import EnvShares
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
"""Module of the in-process driver, which is imported when a run needs it."""


class Snapshot(NamedTuple):
    """The state of a run's learner and env actors, or references to it."""

    learner: Any  # arrays by name
    actors: Any  # states of the env actors; empty without them


class Driver(WatchedDriver, Protocol):
    """Runs the env actors, replay and learner, in this process or on Ray."""

    shares: EnvShares  # the environments of each env actor
    notes: list[str]  # notes on the start for the user, one sentence each
    replay_nbytes: int  # size of the replay in bytes; 0 without one

    @property
    def learner_threads(self) -> int:
        """Number of cores that the learner uses on its machine."""

    def collect(self, env_steps: int) -> Collected:
        """Collect rollouts; insert them into a replay, or enforce --policy-lag.

        Raises:
            Stopped: a signal requested the end of the run.
            Broken: no env actor is left.
        """

    def learn(
        self, batches: int, env_steps: int, statistics: Statistics
    ) -> list[dict[str, float]]:
        """Begin a learning phase; return the metrics of phases that ended.

        Args:
            batches: number of batches; on-policy, the newest round is the first. All
                others are drawn from the replay.
            env_steps: env steps of the whole run, after the newest round.
            statistics: moments measured by the env actors since the last phase.
        Raises:
            Stopped: as in `collect`, if the phase does not end soon.
            Broken: the learner fails repeatedly.
        """

    def drain(self) -> list[dict[str, float]]:
        """Wait for the phases in progress; return their metrics. Raises as `learn`."""

    def scale_lr(self, factor: float) -> float:
        """Multiply the learning rates by a factor; return the new one."""

    def snapshot(self, with_actors: bool) -> Snapshot:
        """Copy the state of the learner, to be fetched later.

        Args:
            with_actors: whether to copy the env actors' states, too.
        Raises:
            Stopped: the learner is busy, and the run is ending.
        """

    def fetch(self, snapshot: Snapshot) -> Snapshot | None:
        """Return a snapshot with its references resolved; None if data is lost."""

    def state(self) -> Snapshot:
        """Return the newest available state of the learner and the env actors."""

    def save_replay(self, directory: Path) -> None:
        """Write the replay's files to a folder."""

    def restore(self, checkpoint: Checkpoint, session: int) -> int:
        """Resume from a checkpoint; return the number of dropped episodes.

        `session` is how often the run has been resumed, including this time.
        """

    def encode(self, snapshot: Snapshot, paths: Sequence[str]) -> list[WeightsFile]:
        """Return a snapshot's models as weights files with these paths."""

    def evaluate(self, env_steps: int, longest: int) -> bool:
        """Begin a greedy evaluation of the newest weights; False if it is skipped.

        `longest` is the env steps of the longest episode so far.
        """

    def evaluations(self, is_last: bool) -> Sequence[Evaluated | FailedEvaluation]:
        """Return evaluations that ended or failed; wait for the last if `is_last`."""

    def close(self) -> None:
        """End the env actors, replay and learner."""


StartDriver = Callable[[RunSpec, Signals, Callable[[str], None]], Driver]
"""Starts a run's driver. It calls the last argument with notes for the user on slow
steps, and raises Stopped if a signal ends the start early."""
