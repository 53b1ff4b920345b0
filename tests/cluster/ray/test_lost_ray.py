"""What a run does when Ray itself is gone, with a fake Ray that never answers."""

import signal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_ray import FakeActor, FakeRay, Ref

from xagents_ray.cluster.ray.calls import RayCalls
from xagents_ray.cluster.run.driver import RayDriver
from xagents_ray.core.errors import Broken, Stopped
from xagents_ray.core.signals import Signals
from xagents_ray.run.driver import Snapshot


def test_every_wait_ends_with_a_sentence(ray: FakeRay, signals: Signals) -> None:
    lost, pending = False, Ref.pending()
    calls = RayCalls(ray, signals, lambda: lost)
    assert calls.ready([pending], 0) == []
    lost = True
    for _ in range(2):
        with pytest.raises(Broken, match=r"control process .* --resume last"):
            calls.ready([pending], 0)


def test_what_is_still_there_has_some_seconds(ray: FakeRay, signals: Signals) -> None:
    calls, pending, before = (
        RayCalls(ray, signals, lambda: True),
        Ref.pending(),
        ray.now,
    )
    calls.begin_saving()
    assert calls.ready([pending], 0) == []
    with pytest.raises(Broken):
        calls.get(pending, 60)
    assert 10 <= ray.now - before < 11


def test_nothing_is_replaced_without_ray(ray: FakeRay, signals: Signals) -> None:
    lost, actors = False, [FakeActor(ray, None) for _ in range(2)]
    calls = RayCalls(ray, signals, lambda: lost)
    calls.kill(actors[0])
    lost = True
    with pytest.raises(Broken):
        calls.kill(actors[1])
    signals.press(signal.SIGTERM)
    for wait in (
        lambda: calls.kill(actors[1]),
        lambda: calls.ready([Ref.pending()], 0),
    ):
        with pytest.raises(Stopped):
            wait()
    assert [actor.is_dead for actor in actors] == [True, False]


def test_the_driver_saves_what_it_holds_itself(ray: FakeRay, signals: Signals) -> None:
    held = {"policy/kernel": np.ones(3)}
    driver: Any = object.__new__(RayDriver)
    driver._ray = ray
    driver._patience = 3.0
    driver._calls = RayCalls(driver._ray, signals, lambda: True)
    last = SimpleNamespace(arrays=held)
    driver._learner = SimpleNamespace(is_missing=False, snapshot=last)
    snapshot = Snapshot(Ref.pending(), [Ref.pending(), Ref.pending()])
    assert driver.fetch(snapshot) is None
    driver.snapshot = lambda with_actors: snapshot
    assert driver.state() == Snapshot(held, [])
    assert driver.drain() == []
