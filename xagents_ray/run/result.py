"""How a run ended."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Result:
    """How a run ended.

    Attributes:
        reason: in one sentence.
        env_steps: of all environments together.
        games: that ended.
        updates: gradient steps.
        seconds: of training, without start-up.
        steps_per_second: env steps a second, learning phases included, from the
            first one's end to the last one's.
        mean_reward: of the newest games; None when none ended.
        best_reward: largest mean reward of a full reward buffer so far; None before
            there is one.
        best_evaluation: largest mean return of a greedy evaluation; None without one.
        episodes: (env step, return) of every game of this session, in order.
        dropped: unfinished episodes that resuming has cost.
        losses: what failed parts have cost this session, by name.
        policy_lag: smallest, mean and largest lag of this session's rollouts.
        profile: shares of time by part, what limits the run, and what to change.
        n_actors: env actors; 0 when nothing was to be done.
        learner_threads: cores that the learner used, likewise.
        seed: given, or drawn.
        directory: of the run; "" when none was begun.
        signal: that ended it; None when it ended by itself.
    """

    reason: str
    env_steps: int
    games: int
    updates: int
    seconds: float
    steps_per_second: float
    mean_reward: float | None
    best_reward: float | None
    episodes: tuple[tuple[int, float], ...]
    dropped: int
    n_actors: int
    seed: int
    directory: str
    best_evaluation: float | None = None
    learner_threads: int = 0
    signal: int | None = None
    losses: dict[str, int] = field(default_factory=dict)
    policy_lag: dict[str, float] = field(default_factory=dict)
    profile: dict[str, Any] = field(default_factory=dict)


def summary(result: Result) -> dict[str, Any]:
    """Return what `summary.json` says."""
    kept = {name: value for name, value in vars(result).items() if name != "episodes"}
    kept["last_reward"] = kept.pop("mean_reward")
    return kept
