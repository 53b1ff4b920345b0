"""The places of env actors in a fleet, and what is asked of them."""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from xagents_ray.core.trajectory import RolloutReport


class Rollout(NamedTuple):
    """A finished one: reference to its trajectory, and its report."""

    trajectory: Any
    report: RolloutReport


@dataclass
class Call:
    """A rollout that was asked for.

    Attributes:
        weights: reference to those that act.
        env_steps: of the run, when it was asked for.
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
    """Some environments of the run, and the actor that steps them now.

    Attributes:
        number: from 0.
        actor: handle; None when it is given up.
        ready: reference that is there once its environments are made.
        n_envs: how many it has.
        alive_at: clock when it was made, was ready, or its newest rollout came.
        is_ready: whether they are.
        is_overdue: whether the actor did not start in time.
        calls: asked for, oldest first.
        finished: not yet taken.
        failures: in a row, without a finished rollout.
        errors: by kind and line, since an episode ended.
        replaced: how many times.
        version: of the weights of its newest rollout.
        is_stale: whether a user was told that it stands still.
    """

    number: int
    actor: Any
    ready: Any
    n_envs: int
    alive_at: float
    is_ready: bool = False
    is_overdue: bool = False
    calls: deque[Call] = field(default_factory=deque)
    finished: deque[Rollout] = field(default_factory=deque)
    failures: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    replaced: int = 0
    version: int = 0
    is_stale: bool = False
