"""Counters of a run, and when it ends."""

import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from xagents_ray.config import TrainingConfig
from xagents_ray.trajectory import Episode, RolloutReport


@dataclass
class Progress:
    """What a run has done so far.

    Attributes:
        rewards: returns of the newest games, at most `reward_buffer_size`.
        env_steps: of all environments together.
        games: that ended.
        updates: gradient steps.
        replay_size: transitions in the replay; None without one.
        best_reward: largest mean reward.
        steady: env steps and seconds when the first learning phase ended.
        learnt_until: env steps and seconds when the newest one ended.
        episodes: (env step, return) of every game, in order.
        began: clock when every part was ready.
    """

    rewards: deque[float]
    env_steps: int = 0
    games: int = 0
    updates: int = 0
    replay_size: int | None = None
    best_reward: float | None = None
    steady: tuple[int, float] | None = None
    learnt_until: tuple[int, float] = (0, 0.0)
    episodes: list[tuple[int, float]] = field(default_factory=list)
    began: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.perf_counter() - self.began

    @property
    def mean_reward(self) -> float | None:
        """Mean return of the newest games; None before the first one."""
        return float(np.mean(self.rewards)) if self.rewards else None

    @property
    def steps_per_second(self) -> float:
        """Env steps a second from the first learning phase's end to the newest's."""
        (first, began), (last, ended) = self.steady or (0, 0.0), self.learnt_until
        return (last - first) / max(ended - began, 1e-9)

    def learnt(self, updates: int) -> None:
        """Count a learning phase."""
        self.updates += updates
        self.learnt_until = self.env_steps, self.seconds
        if self.steady is None:
            self.steady = self.learnt_until

    def collected(
        self, reports: Sequence[RolloutReport], config: TrainingConfig
    ) -> str | None:
        """Count one round of rollouts; return why the run ends, None if it goes on."""
        steps = np.sum([report.steps for report in reports], axis=0).cumsum()
        before, reason = self.env_steps, None
        for episode in _in_order(reports):
            step = before + int(steps[episode.row])
            self._ended(step, episode.episode_return)
            if reason is None and self._achieved(config):
                reason = f"Reward achieved in {step} steps"
        self.env_steps = before + int(steps[-1])
        if reason is None and self.env_steps >= (config.max_steps or np.inf):
            reason = "Maximum steps exceeded"
        return reason

    def _ended(self, step: int, episode_return: float) -> None:
        self.games += 1
        self.rewards.append(episode_return)
        self.episodes.append((step, episode_return))
        mean = self.mean_reward
        if mean is not None and (self.best_reward is None or mean > self.best_reward):
            self.best_reward = mean

    def _achieved(self, config: TrainingConfig) -> bool:
        mean, full = self.mean_reward, len(self.rewards) == self.rewards.maxlen
        target = config.target_reward
        return full and target is not None and mean is not None and mean >= target


def _in_order(reports: Iterable[RolloutReport]) -> list[Episode]:
    """Return all games by the row in which they ended, then by environment."""
    episodes = [episode for report in reports for episode in report.episodes]
    return sorted(episodes, key=lambda episode: (episode.row, episode.env))
