"""What a driver reports to the training loop and to the run's observers."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from xagents_ray.core.trajectory import Episode, Fill, RolloutReport, success_rate


class Collected(NamedTuple):
    """One round of rollouts, as the training loop sees it."""

    reports: Sequence[RolloutReport]
    replay: Fill | None  # fill level; None without a replay
    # Per rollout, the newest weights version minus the behavior weights version.
    lags: Sequence[int]
    replay_seconds: float = 0.0  # duration of the insertions
    # Reports of rollouts that were too old to learn from.
    dropped: Sequence[RolloutReport] = ()


class Evaluated(NamedTuple):
    """The result of a greedy evaluation of weights."""

    step: int  # env steps of the run at its start
    mean_reward: float  # mean return
    success_rate: float | None = None  # None if the environment doesn't report it
    mean_length: float | None = None  # env steps of an episode; None if unknown

    @classmethod
    def of(cls, step: int, episodes: Sequence[Episode]) -> "Evaluated":
        """Return the result of an evaluation's episodes."""
        mean = sum(each.episode_return for each in episodes) / len(episodes)
        length = sum(each.length for each in episodes) / len(episodes)
        return cls(step, mean, success_rate(episodes), length)

    def __str__(self) -> str:
        text = f"Evaluation at {self.step} steps: mean reward {self.mean_reward:.2f}"
        rate = self.success_rate
        return text if rate is None else f"{text}, success rate {rate:.2f}"


class FailedEvaluation(NamedTuple):
    """An evaluation without a result; the driver warns about it."""

    step: int  # env steps of the run at its start


class Supervision(Protocol):
    """Supervises components that may fail without ending the run."""

    @property
    def failures(self) -> Counter[str]:
        """Numbers of failed components and lost or dropped items so far, by name."""

    def take_warnings(self) -> list[str]:
        """Return warnings about failures since the last call, one sentence each."""

    def take_printed(self) -> list[str]:
        """Return lines that environments have printed since the last call."""

    def when_waiting(self, show: Callable[[], None]) -> None:
        """Set a function that shows warnings during a long wait for a component."""

    def summary(self) -> Mapping[str, float]:
        """Return values for the run's summary by name."""

    def publish(self, metrics: Mapping[str, float]) -> None:
        """Publish metrics by name to monitoring outside the run."""


class WatchedDriver(Protocol):
    """The part of a driver that the run's observers need.

    Attributes:
        n_actors: number of env actors.
        learns_on_gpu: whether the learner has a GPU.
    """

    n_actors: int
    learns_on_gpu: bool

    @property
    def replay_size(self) -> int | None:
        """Number of transitions in the replay; None without one."""

    @property
    def supervision(self) -> Supervision | None:
        """The supervision of the components; None if every failure ends the run."""
