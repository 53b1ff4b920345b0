"""Times the driver's own work for many env actors; these are fakes, and so is Ray."""

import importlib
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import click
import numpy as np

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.cluster.ray.calls import RayCalls
from xagents_ray.cluster.run.actor_pool import ActorPool
from xagents_ray.cluster.run.replay_shards import ReplayShards
from xagents_ray.cluster.run.rollout_scheduler import RolloutScheduler
from xagents_ray.core.signals import Signals
from xagents_ray.core.trajectory import Fill, RolloutReport
from xagents_ray.settings.config import Config

_SECONDS = 2.0
"""Duration of a measurement."""
_LEAST = 20
_SHARDS = 4


class _Ray:
    """The module `ray`, and the CPU seconds that each call of an actor costs."""

    call_seconds = 0.0

    def __init__(self) -> None:
        self.exceptions = importlib.import_module("ray.exceptions")

    @classmethod
    def spend(cls) -> None:
        """Take as long as a call of an actor does."""
        until = time.process_time() + cls.call_seconds
        while cls.call_seconds and time.process_time() < until:
            pass

    @staticmethod
    def wait(
        references: Sequence["_Result"], num_returns: int, **_limits: Any
    ) -> tuple[list["_Result"], list["_Result"]]:
        ready = [each for each in references if each.is_ready]
        return ready[:num_returns], []

    @staticmethod
    def get(reference: "_Result", timeout: float) -> Any:
        return reference.result()


class _Result:
    """A reference to a result, which is also its future."""

    def __init__(self, value: Any = None, is_ready: bool = True) -> None:
        self._value, self.is_ready = value, is_ready
        self._told: Callable[[Any], None] | None = None

    def future(self) -> "_Result":
        return self

    def add_done_callback(self, tell: Callable[[Any], None]) -> None:
        self._told = tell

    def result(self) -> Any:
        return self._value

    def end(self) -> None:
        self.is_ready = True
        if self._told is not None:
            self._told(self)


class _Method:
    """A method of an actor, whose result is ready at once."""

    def __init__(self, value: Any = None) -> None:
        self._value = value

    def remote(self, *_arguments: Any) -> Any:
        _Ray.spend()
        return _Result(self._value)


class _Rollouts:
    """The method of an env actor that returns a trajectory and its report."""

    def __init__(self, requested: deque[_Result]) -> None:
        self._requested = requested
        self._report = RolloutReport(np.ones(1, np.int64), (), 0.01, weights_version=1)

    def options(self, num_returns: int) -> "_Rollouts":
        return self

    def remote(self, *_arguments: Any) -> tuple[_Result, _Result]:
        _Ray.spend()
        report = _Result(self._report, is_ready=False)
        self._requested.append(report)
        return _Result(), report


class _Actor:
    """An env actor, or a shard of the replay."""

    def __init__(self, requested: deque[_Result]) -> None:
        self.rollout = _Rollouts(requested)
        self.ready, self.start = _Method(), _Method(1)
        self.insert = _Method((Fill(1_000, False), 0.0))


def wake_seconds(actors: int, burst: int) -> float:
    """Return the median CPU seconds of a wake in which `burst` rollouts have ended.

    Args:
        actors: number of env actors, which run asynchronously.
        burst: number of rollouts that end between two wakes.
    """
    given = {"env": "CartPole-v1", "max_steps": 10, "n_envs": actors}
    given |= {"asynchronous": True, "policy_lag": 1}
    config = Config.of(find_algorithm("dqn").config, given)
    calls, requested = RayCalls(_Ray(), Signals()), deque[_Result]()
    pool = ActorPool(calls, [1] * actors, lambda _: _Actor(requested), 3)
    weights = _Result()
    fleet = RolloutScheduler(
        calls, config, pool, lambda *_: weights, lambda: weights, lambda: None
    )
    shards = ReplayShards(
        calls,
        _SHARDS,
        lambda _: _Actor(requested),
        False,
        round_bytes=0,
        total_envs=actors,
        batch_bytes=0,
    )
    pool.wait_until_ready()
    fleet.tend(0)
    seconds: list[float] = []
    while len(seconds) < _LEAST or sum(seconds) < _SECONDS:
        began = time.process_time()
        for _ in range(burst):
            requested.popleft().end()
        rollouts = fleet.newest(burst, 0)
        shards.insert(
            [rollout.trajectory for rollout in rollouts],
            [rollout.envs for rollout in rollouts],
        )
        seconds.append(time.process_time() - began)
        assert len(rollouts) == burst
    return statistics.median(seconds)


@click.command()
@click.option(
    "--actors",
    multiple=True,
    type=click.IntRange(1),
    default=(64, 256, 1_000, 4_000),
    show_default=True,
    help="Number of env actors; repeatable.",
)
@click.option(
    "--burst",
    multiple=True,
    type=click.IntRange(1),
    default=(1, 50),
    show_default=True,
    help="Number of rollouts that end at once; repeatable.",
)
@click.option(
    "--call-ms",
    type=click.FloatRange(0),
    default=0.0,
    show_default=True,
    help="CPU time of a call of an actor, ms, which the fakes spend.",
)
def driver(actors: Sequence[int], burst: Sequence[int], call_ms: float) -> None:
    """Time a wake of the driver with fake env actors."""
    _Ray.call_seconds = call_ms / 1_000
    click.echo("| env actors | rollouts a wake | ms a wake | ms a rollout |")
    click.echo("|---|---|---|---|")
    for count in actors:
        for ended in burst:
            spent = 1_000 * wake_seconds(count, ended)
            click.echo(f"| {count} | {ended} | {spent:.3f} | {spent / ended:.4f} |")
