"""Ray's crash handlers leave SIGTERM to the run."""

import ctypes
import importlib
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from xagents_ray.cluster.ray import own_ray

_INSTALLED = "_ZN3ray6RayLog36is_failure_signal_handler_installed_E"


@pytest.fixture
def received() -> Iterator[list[int]]:
    """Return what SIGTERM adds its number to."""
    numbers: list[int] = []
    before: Any = signal.signal(signal.SIGTERM, lambda n, frame: numbers.append(n))
    yield numbers
    signal.signal(signal.SIGTERM, before)


def test_ray_prints_nothing_at_sigterm(
    received: list[int], capfd: pytest.CaptureFixture[str]
) -> None:
    """Ray installs its handlers once in a process, so `ray.init` takes nothing back."""
    extension = ctypes.CDLL(str(importlib.import_module("ray._raylet").__file__))
    own_ray.keep_sigterm()
    assert ctypes.c_bool.in_dll(extension, _INSTALLED).value
    os.kill(os.getpid(), signal.SIGTERM)
    assert received == [signal.SIGTERM]
    assert capfd.readouterr() == ("", "")
