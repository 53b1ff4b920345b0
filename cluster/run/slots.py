"""The places of env actors in a run, and the rollouts requested of them."""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from xagents_ray.core.trajectory import RolloutReport


class Rollout(NamedTuple):
    """A finished rollout: a reference to its trajectory, and its report."""

    trajectory: Any
    report: RolloutReport


@dataclass
class RolloutCall:
    """A rollout that was requested of an env actor.

    Attributes:
        weights: reference to the weights that act.
        env_steps: of the run at the time of the request.
        trajectory: reference to the rollout's trajectory.
        report: reference to the rollout's report.
        began: clock when the actor could begin; None before.
    """

    weights: Any
    env_steps: int
    trajectory: Any
    report: Any
    began: float | None = None


@dataclass
class Slot:
    """Some environments of the run, and the actor that currently steps them.

    Attributes:
        number: from 0.
        actor: handle; None after it was given up.
        started: reference that is ready once the actor has made its environments.
        n_envs: number of environments.
        alive_at: clock when the actor was made, became ready, or finished a rollout.
        is_ready: whether its environments are made.
        is_overdue: whether it did not start in time.
        calls: requested rollouts, oldest first.
        finished: rollouts that nobody has taken yet.
        failures: in a row, without a finished rollout.
        errors: number of each error, by kind and line, since an episode ended.
        replaced: how many times the actor was replaced.
        version: of the weights of the newest rollout.
        is_stale: whether the user was warned that the version stands still.
    """

    number: int
    actor: Any
    started: Any
    n_envs: int
    alive_at: float
    is_ready: bool = False
    is_overdue: bool = False
    calls: deque[RolloutCall] = field(default_factory=deque)
    finished: deque[Rollout] = field(default_factory=deque)
    failures: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    replaced: int = 0
    version: int = 0
    is_stale: bool = False
