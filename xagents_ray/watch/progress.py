"""Counters of a run, and the conditions that end it."""

import math
import time
from array import array
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from xagents_ray.core.moments import Statistics, from_json, merge_all, to_json
from xagents_ray.core.trajectory import Episode, RolloutReport
from xagents_ray.settings.training import TrainingConfig


class EndedEpisode(NamedTuple):
    """An episode that ended, with the means right after it; see `Progress`."""

    step: int  # env steps of the whole run
    episode_return: float  # sum of raw rewards
    length: int  # env steps
    mean_reward: float
    best_reward: float | None
    success: bool | None = None  # None if the environment doesn't report it
    success_rate: float | None = None  # of the newest episodes; None if unknown
    mean_length: float | None = None  # env steps of the newest episodes


@dataclass
class Progress:
    """The progress of a run so far."""

    # Returns of the newest episodes, at most `reward_buffer_size`.
    rewards: deque[float]
    round_rows: int = 0  # rows of one round, of all environments together
    env_steps: int = 0  # of all environments together
    resets: int = 0  # rows that only reset an environment
    episode_count: int = 0  # episodes that ended
    longest_episode: int = 0  # env steps of the longest one of them
    updates: int = 0  # gradient steps
    # Whether the newest episodes reached their goals, as far as that is known.
    successes: deque[bool] = field(default_factory=deque)
    # Env steps of the newest episodes, as far as they are known.
    lengths: deque[int] = field(default_factory=deque)
    replay_size: int | None = None  # transitions in the replay; None without one
    # Largest mean reward of a full window; None before there is one.
    best_reward: float | None = None
    # Largest mean return of an evaluation; None before one.
    best_evaluation: float | None = None
    # Env steps and seconds when the first learning phase ended.
    steady: tuple[int, float] | None = None
    # Env steps and seconds when the newest learning phase ended.
    learned_until: tuple[int, float] = (0, 0.0)
    # Env step at which every episode ended, in order.
    episode_steps: "array[int]" = field(default_factory=lambda: array("q"))
    # Return of every episode, in order.
    episode_returns: "array[float]" = field(default_factory=lambda: array("d"))
    earlier_seconds: float = 0.0  # of earlier sessions of a resumed run
    dropped: int = 0  # unfinished episodes that were lost on resuming
    # Moments measured by env actors since the newest learning phase.
    statistics: Statistics = field(default_factory=dict)
    # Time at which all components were ready.
    started_at: float = field(default_factory=time.perf_counter)
    # Number of rollouts in this session by policy lag.
    lags: Counter[int] = field(default_factory=Counter)

    @property
    def policy_lag(self) -> dict[str, float]:
        """Smallest, mean and largest lag of this session's rollouts."""
        if not self.lags:
            return {}
        mean = sum(lag * n for lag, n in self.lags.items()) / self.lags.total()
        return {"min": min(self.lags), "mean": mean, "max": max(self.lags)}

    @property
    def seconds(self) -> float:
        """Seconds since the start, of all sessions."""
        return self.earlier_seconds + time.perf_counter() - self.started_at

    @property
    def episodes(self) -> tuple[tuple[int, float], ...]:
        """(env step, return) of every episode of this session, in order."""
        return tuple(zip(self.episode_steps, self.episode_returns, strict=True))

    @property
    def mean_reward(self) -> float | None:
        """Mean return of the newest episodes; None before the first one."""
        return math.fsum(self.rewards) / len(self.rewards) if self.rewards else None

    @property
    def mean_length(self) -> float | None:
        """Mean env steps of the newest episodes; None before the first one."""
        return sum(self.lengths) / len(self.lengths) if self.lengths else None

    @property
    def success_rate(self) -> float | None:
        """Share of the newest episodes that reached their goals; None if unknown."""
        return sum(self.successes) / len(self.successes) if self.successes else None

    @property
    def steps_per_second(self) -> float:
        """Env steps per second between the ends of the first and the last phase."""
        (first, began), (last, ended) = self.steady or (0, 0.0), self.learned_until
        return (last - first) / max(ended - began, 1e-9)

    def learned(self, updates: int) -> None:
        self.updates += updates
        self.learned_until = self.env_steps, self.seconds
        if self.steady is None:
            self.steady = self.learned_until

    def collected(
        self, reports: Sequence[RolloutReport], config: TrainingConfig
    ) -> tuple[list[EndedEpisode], str | None]:
        """Count a round of rollouts; return its episodes, and why the run ends."""
        steps = reduce(np.add, (report.steps for report in reports)).cumsum()
        before, reason = self.env_steps, None
        ended = []
        episodes = [episode for report in reports for episode in report.episodes]
        for episode in sorted(episodes, key=lambda each: (each.row, each.env)):
            step = before + int(steps[episode.row])
            ended.append(self._ended(step, episode))
            if reason is None and self._achieved(config, ended[-1].mean_reward):
                reason = f"Reward achieved in {step} steps"
        self.env_steps = before + int(steps[-1])
        self.resets += sum(report.resets for report in reports)
        measured = (report.statistics for report in reports)
        self.statistics = merge_all(self.statistics, *measured)
        return ended, reason

    def out_of_steps(self, config: TrainingConfig) -> str | None:
        """Return why the run ends if it has taken all of its steps, else None."""
        if config.max_steps is None:
            return None
        if self.env_steps >= config.max_steps:
            return "Reached --max-steps"
        if self._lacks_only_resets(config.max_steps):
            return f"Reached --max-steps, {self.resets} resets included"
        return None

    def _lacks_only_resets(self, max_steps: int) -> bool:
        """Return whether the steps missing to `max_steps` were spent on resets.

        Rows that only reset don't count as env steps, so a run may finish its last
        round a few steps short of `max_steps`. If a round is a quarter of the run or
        more, another one would overshoot by far: a run ends instead if it lacks 1 % or
        less.
        """
        missing = max_steps - self.env_steps
        is_large = 4 * self.round_rows >= max_steps
        return missing <= self.resets and 100 * missing <= max_steps and is_large

    def over(self, config: TrainingConfig) -> str | None:
        """Return why a resumed run has nothing left to do, else None."""
        mean = self.mean_reward
        if mean is not None and self._achieved(config, mean):
            return f"Reward achieved in {self.env_steps} steps"
        return self.out_of_steps(config)

    def state(self) -> dict[str, Any]:
        """Return the progress as JSON, for a checkpoint."""
        kept = ("env_steps", "resets", "updates", "dropped", "best_reward", "seconds")
        return {name: getattr(self, name) for name in kept} | {
            "games": self.episode_count,
            "longest_episode": self.longest_episode,
            "best_window": self.rewards.maxlen,
            "rewards": list(self.rewards),
            "successes": list(self.successes),
            "lengths": list(self.lengths),
            "statistics": to_json(self.statistics),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the progress from a checkpoint's `state`."""
        for name in ("env_steps", "updates", "dropped"):
            setattr(self, name, int(state[name]))
        self.episode_count = int(state["games"])
        # Older checkpoints have neither.
        self.resets = int(state.get("resets", 0))
        self.longest_episode = int(state.get("longest_episode", 0))
        # Earlier versions used means of fewer episodes too.
        best = state["best_reward"] if "best_window" in state else None
        self.best_reward = None if best is None else float(best)
        self.earlier_seconds = float(state["seconds"])
        self.rewards.extend(map(float, state["rewards"]))
        self.successes.extend(map(bool, state.get("successes", ())))
        self.lengths.extend(map(int, state.get("lengths", ())))
        self.statistics = from_json(state["statistics"])

    def _ended(self, step: int, episode: Episode) -> EndedEpisode:
        _, _, episode_return, length, success = episode
        self.episode_count += 1
        self.longest_episode = max(self.longest_episode, length)
        self.rewards.append(episode_return)
        self._add_newest(self.lengths, length)
        if success is not None:
            self._add_newest(self.successes, success)
        self.episode_steps.append(step)
        self.episode_returns.append(episode_return)
        mean = self.mean_reward
        assert mean is not None
        if self.is_full and (self.best_reward is None or mean > self.best_reward):
            self.best_reward = mean
        return EndedEpisode(
            step,
            episode_return,
            length,
            mean,
            self.best_reward,
            success,
            self.success_rate,
            self.mean_length,
        )

    def _add_newest(self, values: deque[Any], value: Any) -> None:
        """Append a value of an episode, in place of the oldest of a full window."""
        while len(values) >= (self.rewards.maxlen or math.inf):
            values.popleft()
        values.append(value)

    def _achieved(self, config: TrainingConfig, mean: float) -> bool:
        target = config.target_reward
        return self.is_full and target is not None and mean >= target

    @property
    def is_full(self) -> bool:
        """Whether the mean reward is over a full reward buffer."""
        return len(self.rewards) == self.rewards.maxlen


ProgressListener = Callable[[Progress], None]
"""Called with the progress whenever it is shown."""
