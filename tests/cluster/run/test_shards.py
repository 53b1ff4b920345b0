"""Shards whose data comes late, or that hang; Ray is a fake with its own clock."""

from collections.abc import Callable
from typing import Any

import pytest
from fake_ray import NEVER, FakeRay, FakeShard

from xagents_ray.cluster.ray import calls as calls_module
from xagents_ray.cluster.ray.calls import Calls
from xagents_ray.cluster.ray.failures import FailureLog
from xagents_ray.cluster.run import replay as shards_module
from xagents_ray.cluster.run.replay import Shards
from xagents_ray.core.signals import Signals


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    fake = FakeRay()
    for module in (calls_module, shards_module):
        monkeypatch.setattr(module, "time", fake)
    return fake


@pytest.fixture
def log() -> FailureLog:
    return FailureLog()


def _insert(
    ray: FakeRay, log: FailureLog, make: Callable[[], FakeShard], megabytes: int
) -> Shards:
    """Return a shard that has been given a round."""
    made: list[Any] = []

    def first(_: int) -> FakeShard:
        made.append(FakeShard(ray) if made else make())
        return made[-1]

    shards = Shards(Calls(ray, Signals()), log, 1, first, False, megabytes * 2**20)
    shards.wait_until_ready()
    shards.insert([ray.put("trajectory")])
    return shards


@pytest.mark.parametrize(("seconds", "megabytes"), [(500.0, 1), (1_500.0, 1_000)])
def test_a_shard_whose_data_is_on_its_way_is_not_dead(
    ray: FakeRay, log: FailureLog, seconds: float, megabytes: int
) -> None:
    shards = _insert(ray, log, lambda: FakeShard(ray, data=seconds), megabytes)
    assert not log.counts
    assert shards.fill.size == 1


@pytest.mark.parametrize(
    ("kind", "limit"),
    [({"work": NEVER}, 125), ({"answers": False, "data": NEVER}, 155)],
    ids=["hangs", "is silent"],
)
def test_one_that_hangs_is_replaced(
    ray: FakeRay, log: FailureLog, kind: dict[str, Any], limit: float
) -> None:
    before = ray.now
    shards = _insert(ray, log, lambda: FakeShard(ray, **kind), 1)
    assert ray.now - before < limit
    assert log.counts["replay shards"] == 1
    assert shards.fill.size == 1


def test_one_whose_data_never_comes_is_replaced_too(
    ray: FakeRay, log: FailureLog
) -> None:
    before = ray.now
    _insert(ray, log, lambda: FakeShard(ray, data=NEVER), 100)
    assert 700 < ray.now - before < 830
    assert log.counts["replay shards"] == 1
