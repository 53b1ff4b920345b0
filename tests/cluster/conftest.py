"""What the tests of a run on Ray share: a Ray in one process, and a log of failures."""

import importlib

import pytest
from fake_ray import FakeRay

from xagents_ray.cluster.ray.calls import FailureLog

_WITH_A_CLOCK = (
    "ray.calls",
    "run.actor_pool",
    "run.evaluator",
    "run.rollout_scheduler",
    "run.last_snapshot",
    "run.supervised_learner",
    "run.replay_shards",
)


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    """A Ray in this process, whose clock is that of all parts of a run."""
    fake = FakeRay()
    for name in _WITH_A_CLOCK:
        module = importlib.import_module(f"xagents_ray.cluster.{name}")
        monkeypatch.setattr(module, "time", fake)
    return fake


@pytest.fixture
def log() -> FailureLog:
    return FailureLog()
