"""The result of a run."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from html import escape
from signal import Signals as Signal
from typing import Any

from xagents_ray.settings.config import Config
from xagents_ray.watch.progress import Progress


@dataclass(frozen=True)
class Result:
    """How a run ended.

    Attributes:
        reason: why the run ended, in one sentence.
        env_steps: number of env steps, all environments together.
        games: number of episodes that ended.
        updates: number of gradient steps.
        seconds: seconds of training, without start-up.
        steps_per_second: env steps per second, learning phases included, between the
            ends of the first and the last learning phase.
        mean_reward: mean return of the newest episodes; None if none ended.
        best_reward: largest mean reward of a full reward buffer so far; None before
            there is one.
        best_evaluation: largest mean return of a greedy evaluation; None without one.
        success_rate: share of the newest episodes that reached their goals; None if the
            environment's info has neither `is_success` nor `success`.
        episodes: (env step, return) of every episode of this session, in order.
        dropped: number of unfinished episodes that were lost on resuming.
        failures: costs of failures in this session by name, such as `env actors` and
            `rollouts`.
        policy_lag: smallest, mean and largest lag of this session's rollouts.
        profile: shares of time by part, what limits the run, and what to change;
            `actors_by_envs` has the number of env actors by their number of
            environments, `busy_share` the share of the cores that these can keep busy,
            and on Ray `snapshot_age` the seconds since the state of the learner from
            which it would have been restored.
        n_actors: number of env actors; 0 if there was nothing to do.
        learner_threads: number of cores that the learner used; 0 if there was nothing
            to do.
        precision: numeric precision of the learner's networks, `float32` or `bfloat16`.
        seed: the seed of the run, whether specified or drawn.
        directory: directory of the run; "" if none was created.
        signal: number of the signal that ended the run; None if it ended by itself.
        completed: whether the run's settings or a callback ended it, not an error or
            signal.
        unsaved: names of files and states that could not be saved, such as
            `the history`, on a full disk for example.

    >>> result = xagents_ray.train(
    ...     "a2c", env="CartPole-v1", max_steps=200, run_dir="others", local=True,
    ...     quiet=True)
    >>> result.reason, result.env_steps >= 200
    ('Reached --max-steps', True)
    """

    reason: str
    env_steps: int
    games: int
    updates: int
    seconds: float
    steps_per_second: float
    mean_reward: float | None
    best_reward: float | None
    episodes: tuple[tuple[int, float], ...] = field(repr=False)
    dropped: int
    seed: int
    directory: str
    n_actors: int = 0
    best_evaluation: float | None = None
    success_rate: float | None = None
    learner_threads: int = 0
    precision: str = "float32"
    signal: int | None = None
    completed: bool = False
    unsaved: tuple[str, ...] = ()
    failures: dict[str, int] = field(default_factory=dict)
    policy_lag: dict[str, float] = field(default_factory=dict)
    profile: dict[str, Any] = field(default_factory=dict, repr=False)

    def _repr_html_(self) -> str:
        """Return a table of the repr's values, for a notebook."""
        shown = (each.name for each in fields(self) if each.repr)
        rows = (
            f"<tr><th>{name.replace('_', ' ')}</th><td>{escape(_text(value))}</td></tr>"
            for name in shown
            if (value := getattr(self, name)) not in (None, {}, "", ())
        )
        return f"<table>{''.join(rows)}</table>"

    @classmethod
    def of(
        cls,
        reason: str,
        config: Config,
        seed: int,
        progress: Progress,
        signal: int | None,
        directory: str = "",
        **measured: Any,
    ) -> "Result":
        """Return the result of a run; `measured` has fields of a run that began."""
        return cls(
            reason=reason,
            env_steps=progress.env_steps,
            games=progress.episode_count,
            updates=progress.updates,
            seconds=progress.seconds,
            steps_per_second=progress.steps_per_second,
            mean_reward=progress.mean_reward,
            best_reward=progress.best_reward,
            best_evaluation=progress.best_evaluation,
            success_rate=progress.success_rate,
            episodes=progress.episodes,
            dropped=progress.dropped,
            policy_lag=progress.policy_lag,
            precision=config.algorithm.precision,
            seed=seed,
            directory=directory,
            signal=signal,
            **measured,
        )


def _text(value: Any) -> str:
    """Return a value as a table shows it."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {each:g}" for name, each in value.items())
    return f"{value:,.2f}" if isinstance(value, float) else str(value)


def stopped_by(number: int | None) -> str:
    """Return the reason of a run that a signal ended."""
    assert number is not None
    return f"Stopped by {Signal(number).name}"


def from_summary(kept: Mapping[str, Any]) -> Result | None:
    """Return the result in a `summary.json`; None if it lacks a value."""
    try:
        unsaved = tuple(kept.get("unsaved", ()))  # older summaries have none
        values = {**kept, "mean_reward": kept["last_reward"], "episodes": ()}
        values["unsaved"] = unsaved
        return Result(**{each.name: values[each.name] for each in fields(Result)})
    except KeyError:
        return None


def result_summary(result: Result) -> dict[str, Any]:
    """Return the contents of `summary.json`."""
    kept = {name: value for name, value in vars(result).items() if name != "episodes"}
    kept["last_reward"] = kept.pop("mean_reward")
    return kept
