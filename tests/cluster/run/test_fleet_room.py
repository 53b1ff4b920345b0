"""Env actors whose weights or rollouts find no room in the object store."""

from collections.abc import Iterator
from typing import Any

import in_process_ray
import numpy as np
import pytest
from in_process_ray import Actor, Ref
from ray.exceptions import OutOfDiskError, RayTaskError

from xagents_ray.algorithms.table import find
from xagents_ray.cluster.ray import calls as calls_module
from xagents_ray.cluster.ray.calls import Calls
from xagents_ray.cluster.ray.failures import FailureLog
from xagents_ray.cluster.run.env_actors import EnvActors
from xagents_ray.cluster.run.fleet import Fleet
from xagents_ray.core.errors import Broken
from xagents_ray.core.signals import Signals
from xagents_ray.core.trajectory import RolloutReport
from xagents_ray.settings.config import Config


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(calls_module, "_PAUSES", (0.01, 0.02))
    yield


class _EnvActor:
    """One that acts with any weights."""

    def ready(self) -> None: ...

    def rollout(
        self, weights: Any, length: int, env_steps: int
    ) -> tuple[str, RolloutReport]:
        return "trajectory", RolloutReport(np.ones(1, np.int64), (), 0.0)


class _Setup:
    """Two env actors.

    Attributes:
        weights: references to give when weights are asked for, the last one for ever.
    """

    def __init__(self, *weights: Ref) -> None:
        self.weights = list(weights)
        settings = {"env": "CartPole-v1", "n_envs": 2, "max_steps": 1}
        config = Config.of(find("ppo").config, settings)
        self.actors = [Actor(_EnvActor()) for _ in range(2)]
        self.log, calls = FailureLog(), Calls(in_process_ray, Signals())
        pool = EnvActors(calls, self.log, [1, 1], lambda number: self.actors[number], 3)
        self.fleet = Fleet(calls, self.log, config, pool, self._next)
        pool.wait_until_ready()

    def _next(self) -> Ref:
        return self.weights.pop(0) if len(self.weights) > 1 else self.weights[0]

    @property
    def asked(self) -> int:
        calls = [call for actor in self.actors for call in actor.asked]
        return sum(name == "rollout" for name, _ in calls)


def _full() -> Ref:
    return Ref(error=RayTaskError("update", "", OutOfDiskError("")))


def test_rollouts_without_room_are_asked_for_again_after_a_pause() -> None:
    """It is no fault of the env actors, which stay as they are."""
    setup = _Setup(_full(), _full(), Ref("weights"))
    setup.fleet.launch(_full(), 0)
    assert len(setup.fleet.round()) == 2
    assert setup.asked == 6
    assert setup.log.counts == {"calls without room in the object store": 4}
    assert len(setup.log.warnings) == 1
    assert "object store" in setup.log.warnings[0]


def test_a_store_that_stays_full_ends_the_run_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calls_module, "_FULL_SECONDS", 0.2)
    setup = _Setup(_full())
    setup.fleet.launch(_full(), 0)
    with pytest.raises(Broken, match="object store and the disk"):
        setup.fleet.round()
    assert setup.asked < 60
