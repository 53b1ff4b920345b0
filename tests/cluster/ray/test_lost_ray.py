"""What a run does when Ray itself is gone, with a Ray that never answers."""

import signal
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from xagents_ray.cluster.ray import calls as calls_module
from xagents_ray.cluster.ray.calls import Calls
from xagents_ray.cluster.run.driver import RayDriver
from xagents_ray.core.errors import Broken, Stopped
from xagents_ray.core.signals import Signals
from xagents_ray.run.driver import Snapshot


class _RayError(Exception):
    pass


class _Ray:
    """A Ray of which nothing ever comes; it notes what is killed."""

    exceptions = SimpleNamespace(
        RayError=_RayError, RayTaskError=_RayError, GetTimeoutError=_RayError
    )

    def __init__(self) -> None:
        self.killed: list[Any] = []

    def wait(
        self, references: list[Any], num_returns: int, timeout: float, **_: Any
    ) -> tuple[list[Any], list[Any]]:
        time.sleep(timeout)
        return [], references

    def kill(self, actor: Any) -> None:
        self.killed.append(actor)


@pytest.fixture
def signals() -> Signals:
    made = Signals()
    made.on_first = None
    return made


def test_every_wait_ends_with_a_sentence(signals: Signals) -> None:
    lost = False
    calls = Calls(_Ray(), signals, lambda: lost)
    assert calls.ready(["one"], 0) == []
    lost = True
    for _ in range(2):
        with pytest.raises(Broken, match=r"control process .* --resume last"):
            calls.ready(["one"], 0)


def test_what_is_still_there_has_some_seconds(
    signals: Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls_module, "_SAVING_SECONDS", 0.5)
    calls = Calls(_Ray(), signals, lambda: True)
    calls.begin_saving()
    assert calls.ready(["one"], 0) == []
    with pytest.raises(Broken):
        calls.get("one", 60)


def test_nothing_is_replaced_without_ray(signals: Signals) -> None:
    ray, lost = _Ray(), False
    calls = Calls(ray, signals, lambda: lost)
    calls.kill("actor 1")
    lost = True
    with pytest.raises(Broken):
        calls.kill("actor 2")
    signals.press(signal.SIGTERM)
    for wait in (lambda: calls.kill("actor 2"), lambda: calls.ready(["one"], 0)):
        with pytest.raises(Stopped):
            wait()
    assert ray.killed == ["actor 1"]


def test_the_driver_saves_what_it_holds_itself(
    signals: Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls_module, "_SAVING_SECONDS", 0.5)
    held = {"policy/kernel": np.ones(3)}
    driver: Any = object.__new__(RayDriver)
    driver._ray, driver._run = (
        _Ray(),
        SimpleNamespace(spec=SimpleNamespace(is_image=False)),
    )
    driver._calls = Calls(driver._ray, signals, lambda: True)
    driver._learner = SimpleNamespace(held=held)
    snapshot = Snapshot("learner", ["actor 1", "actor 2"])
    assert driver.fetch(snapshot) is None
    driver.snapshot = lambda: snapshot
    assert driver.state() == Snapshot(held, [])
    assert driver.drain() == []
