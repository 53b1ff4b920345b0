"""What the tests of a run on Ray share: a Ray in one process, and a log of failures."""

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import pytest
from fake_ray import FakeRay

import xagents_ray.cluster.ray
import xagents_ray.cluster.run
from xagents_ray.cluster.ray.bell import Bell
from xagents_ray.cluster.ray.calls import FailureLog


def _modules_with_a_clock() -> Iterator[ModuleType]:
    """Yield the modules of a run on Ray that import `time`."""
    for package in (xagents_ray.cluster.ray, xagents_ray.cluster.run):
        for each in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(each.name)
            if hasattr(module, "time"):
                yield module


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    """A Ray in this process, whose clock is that of all parts of a run."""
    fake, modules = FakeRay(), [*_modules_with_a_clock()]
    assert len(modules) > 5
    for module in modules:
        monkeypatch.setattr(module, "time", fake)

    def wait(bell: Bell, seconds: float) -> None:
        fake.wait_for_bell(bell, seconds)

    monkeypatch.setattr(Bell, "wait", wait)
    return fake


@pytest.fixture
def log() -> FailureLog:
    return FailureLog()
