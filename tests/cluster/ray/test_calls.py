"""What errors of Ray mean, and pauses while there is no room for objects."""

import itertools

import pytest
from fake_ray import FakeRay, Ref
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    NodeDiedError,
    ObjectLostError,
    ObjectStoreFullError,
    OutOfDiskError,
    OutOfMemoryError,
    OwnerDiedError,
    RayError,
    RayTaskError,
    TaskUnschedulableError,
)

from xagents_ray.cluster.ray import calls as calls_module
from xagents_ray.cluster.ray.calls import LateError, RayCalls, StoreBackoff
from xagents_ray.core.errors import Broken, Stopped
from xagents_ray.core.signals import Signals


@pytest.fixture
def calls(ray: FakeRay) -> RayCalls:
    return RayCalls(ray, Signals())


def _raised(cause: BaseException) -> RayTaskError:
    return RayTaskError("update", "Traceback", cause)


LOST = (
    *(ObjectLostError("1", None, ""), OwnerDiedError("1", None, ""), ActorDiedError()),
    ActorUnavailableError("gone", None),
    *(NodeDiedError("gone"), OutOfMemoryError("killed")),
)
FULL = OutOfDiskError(""), ObjectStoreFullError("")
OTHERS = ValueError("a bug"), TaskUnschedulableError("no node"), RayError("?")


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        *((_raised(cause), "argument") for cause in LOST),
        *((error, "full") for cause in FULL for error in (cause, _raised(cause))),
        *((_raised(cause), "the call's own") for cause in OTHERS),
        (ActorDiedError(), "death"),
    ],
)
def test_what_an_error_means(calls: RayCalls, error: Exception, meaning: str) -> None:
    assert calls.is_argument(error) == (meaning == "argument")
    assert calls.is_full(error) == (meaning == "full")
    assert calls.is_death(error) == (meaning == "death")


@pytest.mark.parametrize("error", LOST)
def test_what_is_lost_is_no_argument_by_itself(
    calls: RayCalls, error: RayError
) -> None:
    assert not calls.is_argument(error)


def test_every_wait_has_a_limit(calls: RayCalls, ray: FakeRay) -> None:
    before = ray.now
    with pytest.raises(LateError):
        calls.get(Ref.pending(), 30)
    assert 30 < ray.now - before < 31


def test_what_does_not_arrive_here_is_late(
    calls: RayCalls, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray knows where it is, and its node doesn't send it."""
    limits = []

    def get(reference: Ref, timeout: float | None = None) -> None:
        limits.append(timeout)
        raise ray.exceptions.GetTimeoutError

    monkeypatch.setattr(ray, "get", get)
    with pytest.raises(LateError):
        calls.get(Ref(1), 1.0)
    assert limits == [calls_module._FETCH_SECONDS]


def test_pauses_grow_and_end_with_a_sentence(calls: RayCalls, ray: FakeRay) -> None:
    backoff, began, clocks = StoreBackoff(calls), ray.now, [ray.now]
    with pytest.raises(Broken, match="are full for 120 s: free some room") as end:
        while True:
            backoff.wait()
            clocks.append(ray.now)
    assert "/tmp/ray" in str(end.value)
    pauses = [round(b - a) for a, b in itertools.pairwise(clocks)]
    assert pauses[:6] == [1, 2, 4, 8, 16, 16]
    assert 120 < ray.now - began < 140
    (warning,) = calls.log.warnings
    assert "trying again" in warning


def test_an_attempt_that_succeeds_starts_with_short_pauses_again(
    calls: RayCalls, ray: FakeRay
) -> None:
    backoff, began = StoreBackoff(calls), ray.now
    for _ in range(12):
        backoff.wait()
        backoff.reset()
    assert ray.now - began < 12 * 1.5
    assert len(calls.log.warnings) == 12


def test_a_signal_ends_a_pause(ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    signals = Signals()
    signals.on_first = None
    signals.press(15)
    monkeypatch.setattr("xagents_ray.core.signals.GRACE_SECONDS", 0.0)
    with pytest.raises(Stopped):
        StoreBackoff(RayCalls(ray, signals)).wait()
