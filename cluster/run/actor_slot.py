"""The share of a run's environments that one env actor steps, and its rollouts."""

import math
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from xagents_ray.core.trajectory import RolloutReport


class FinishedRollout(NamedTuple):
    """A finished rollout: its trajectory as a reference, and its report."""

    trajectory: Any
    report: RolloutReport
    envs: range  # of the run


@dataclass(eq=False)
class RolloutCall:
    """A rollout requested from an env actor, with its data as Ray references."""

    weights: Any  # behavior weights
    env_steps: int  # env steps of the run when requested
    trajectory: Any
    report: Any
    ended: Any = None  # future of the report, which is ready; None before
    ended_at: float = math.inf  # time when the report was ready
    began: float | None = None  # time when the weights were ready; None before


@dataclass(eq=False)
class ActorSlot:
    """A share of the run's environments, and the actor that currently steps them."""

    number: int  # from 0
    actor: Any  # handle; None after it was given up
    started: Any  # reference that is ready once the environments are created
    n_envs: int
    alive_at: float  # time when it was created, became ready, or finished a rollout
    is_ready: bool = False  # its environments are created
    is_overdue: bool = False  # it did not start in time
    is_away: bool = False  # it runs on other cores, as its claim's node is lost
    returning: Any = None  # handle of the actor that starts on its claim again
    returned: Any = None  # reference that is ready once that one has started
    has_finished: bool = False  # this actor has finished a rollout
    calls: deque[RolloutCall] = field(default_factory=deque)  # oldest first
    finished: deque[FinishedRollout] = field(default_factory=deque)  # not taken yet
    failures: int = 0  # consecutive, without a finished rollout
    # Number of times each error, by line and type, occurred since an episode ended.
    errors: Counter[str] = field(default_factory=Counter)
    replaced: int = 0  # number of replacements
    version: int = 0  # weights version of the newest rollout
    is_stale: bool = False  # the user was warned that the version doesn't advance
