"""A run without Ray ends at once while its first learning phase is being compiled."""

import threading
import time
from contextlib import closing
from typing import Any

import pytest
from acting import run_of

from xagents_ray.core.errors import Stopped
from xagents_ray.run.local import LocalDriver


def test_the_first_phase_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What else needs the learner is refused, in place of waiting for it."""
    busy = threading.Event()
    driver = LocalDriver(run_of("a2c", 2, env="CartPole-v1", jit="off", local=True))
    phase = driver._learner.learn

    def compiling(*arguments: Any) -> Any:
        assert busy.wait(60)
        return phase(*arguments)

    monkeypatch.setattr(driver._learner, "learn", compiling)
    try:
        with closing(driver):
            driver.collect(0)
            threading.Timer(0.3, driver.stop).start()
            began = time.monotonic()
            with pytest.raises(Stopped):
                driver.learn(1, 10, {})
            assert time.monotonic() - began < 1
            with pytest.raises(Stopped):
                driver.state()
        assert time.monotonic() - began < 2
    finally:
        busy.set()
