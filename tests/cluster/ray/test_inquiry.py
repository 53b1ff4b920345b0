"""Questions to Ray's control process, which may never be answered."""

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from xagents_ray.cluster.ray.calls import RayCalls
from xagents_ray.cluster.ray.inquiry import inquire
from xagents_ray.cluster.run.elastic import ActorClaim
from xagents_ray.cluster.run.placement import RunParts
from xagents_ray.cluster.run.shard_claims import ShardClaims
from xagents_ray.core.errors import Broken, Stopped
from xagents_ray.core.signals import Signals


@pytest.fixture
def silence() -> Iterator[Callable[..., Any]]:
    """Return a function that does not return before the test ends."""
    ended = threading.Event()
    yield lambda *_: ended.wait(60)
    ended.set()


def _calls(ray: Any = None, is_lost: bool = False) -> RayCalls:
    signals = Signals()
    signals.on_first = None
    return RayCalls(ray, signals, lambda: is_lost)


def test_an_answer_is_passed_on() -> None:
    assert inquire(_calls(), lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        inquire(_calls(), lambda: 1 // 0)


def test_a_lost_ray_ends_the_wait(silence: Callable[..., Any]) -> None:
    with pytest.raises(Broken, match="--resume last"):
        inquire(_calls(is_lost=True), silence)


def test_a_signal_ends_the_wait(
    silence: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xagents_ray.core.signals.GRACE_SECONDS", 0.0)
    calls = _calls()
    calls._signals.press(15)
    with pytest.raises(Stopped):
        inquire(calls, silence)


def test_claims_are_looked_up_so(silence: Callable[..., Any]) -> None:
    """Those of an env actor and of a shard, which are to be replaced."""
    util = SimpleNamespace(placement_group_table=silence)
    calls = _calls(SimpleNamespace(util=util, nodes=silence), is_lost=True)
    parts: Any = RunParts.__new__(RunParts)
    parts._calls, parts._ray = calls, calls.ray
    parts._claims = [ActorClaim("group", 1, 1.0, 1.0)]
    with pytest.raises(Broken):
        parts.lost_claims()
    claims: Any = ShardClaims.__new__(ShardClaims)
    claims._calls, claims._group, claims._claims = calls, "group", {0: 1}
    with pytest.raises(Broken):
        claims.options(0)
