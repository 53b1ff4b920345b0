"""What a driver is to the training loop, and what it is made from."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.moments import Statistics
from xagents_ray.core.signals import Signals
from xagents_ray.core.trajectory import (
    Episode,
    RolloutReport,
    WeightsFile,
    success_rate,
)
from xagents_ray.replay.base import Fill
from xagents_ray.storage.checkpoints import Checkpoint


class Collected(NamedTuple):
    """One round of rollouts, as the loop sees it."""

    reports: Sequence[RolloutReport]
    replay: Fill | None  # how full it is; None without one
    # Of each rollout, the newest weights' version less the one that acted.
    lags: Sequence[int]
    replay_seconds: float = 0.0  # that the replay took to copy them in
    # Reports of rollouts that were too old to learn from.
    dropped: Sequence[RolloutReport] = ()


class Evaluated(NamedTuple):
    """What a greedy evaluation said of weights."""

    step: int  # env steps of the run by then
    mean_reward: float  # mean return
    success_rate: float | None = None  # None where the environment doesn't say

    @classmethod
    def of(cls, step: int, episodes: Sequence[Episode]) -> "Evaluated":
        """Return that of its episodes."""
        mean = sum(each.episode_return for each in episodes) / len(episodes)
        return cls(step, mean, success_rate(episodes))

    def __str__(self) -> str:
        text = f"Evaluation at {self.step} steps: mean reward {self.mean_reward:.2f}"
        rate = self.success_rate
        return text if rate is None else f"{text}, success rate {rate:.2f}"


class FailedEvaluation(NamedTuple):
    """An evaluation without a result; the driver warns of it."""

    step: int  # env steps of the run by then


class Snapshot(NamedTuple):
    """The state of a run's parts at one moment, or references to it."""

    learner: Any  # arrays by name
    actors: Any  # states of the env actors; none where rollouts are ahead of them


class Supervision(Protocol):
    """Watches over parts that may fail without ending the run."""

    @property
    def failures(self) -> Counter[str]:
        """What failures and the bound on lag have cost so far, by name."""

    def take_warnings(self) -> list[str]:
        """Return what has failed since the last call, one sentence each."""

    def publish(self, metrics: Mapping[str, float]) -> None:
        """Show metrics by name to those who watch the run from outside."""


class Driver(Protocol):
    """Where the parts of a run live: this process, or Ray."""

    n_actors: int
    notes: list[str]  # what the user should know of the start, one sentence each
    replay_nbytes: int  # of the whole replay; 0 without one

    @property
    def supervision(self) -> Supervision | None:
        """Of the parts; None where every failure ends the run."""

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
            batches: to learn from; on-policy, the newest round is the first one. All
                others are drawn from the replay.
            env_steps: of the whole run, after the newest round.
            statistics: what the env actors measured since the last phase.
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
        """Write the replay's files there."""

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
