"""What errors of Ray mean, and pauses while there is no room for objects."""

import itertools

import pytest
from fake_ray import NEVER, FakeActor, FakeRay, Ref, Takes
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    GetTimeoutError,
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

from xagents_ray.cluster.ray.calls import LateError, RayCalls
from xagents_ray.cluster.ray.store_backoff import StoreBackoff
from xagents_ray.core.errors import Broken, Stopped
from xagents_ray.core.signals import Signals


@pytest.fixture
def calls(ray: FakeRay) -> RayCalls:
    return RayCalls(ray, Signals())


def _raised(cause: BaseException) -> RayTaskError:
    """Return what Ray raises, which is an instance of the cause's class too."""
    raised = RayTaskError("update", "Traceback", cause).as_instanceof_cause()
    assert isinstance(raised, RayTaskError)
    return raised


LOST = (
    *(ObjectLostError("1", None, ""), OwnerDiedError("1", None, ""), ActorDiedError()),
    ActorUnavailableError("gone", None),
    *(NodeDiedError("gone"), OutOfMemoryError("killed"), GetTimeoutError("120 s")),
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


def test_what_does_not_arrive_here_is_late(calls: RayCalls, ray: FakeRay) -> None:
    """Ray knows where it is, and its node doesn't send it."""
    began = ray.now
    with pytest.raises(LateError, match="600 s"):
        calls.get(Ref(1, transit=NEVER), 1.0)
    assert ray.now - began == pytest.approx(600, abs=1)


def test_a_time_limit_within_a_call_is_the_error_of_the_call(calls: RayCalls) -> None:
    """Else the learner would be waited for again, when it waited for a shard."""
    failed = Ref(error=_raised(GetTimeoutError("120 s")))
    with pytest.raises(RayTaskError):
        calls.get(failed, 600)


def test_what_arrives_late_is_returned(calls: RayCalls, ray: FakeRay) -> None:
    waits = list[float]()
    calls.meanwhile = lambda: waits.append(ray.now)
    assert calls.get(Ref("state", transit=590.0), 1.0) == "state"
    assert len(waits) > 2_000  # others are tended meanwhile


@pytest.mark.parametrize(("patience", "seconds"), [(0.0, 0), (3.0, 9), (9.0, 9)])
@pytest.mark.parametrize("fetch", ["get", "value"])
def test_a_signal_is_heard_whatever_is_on_its_way(
    ray: FakeRay,
    monkeypatch: pytest.MonkeyPatch,
    fetch: str,
    patience: float,
    seconds: float,
) -> None:
    monkeypatch.setattr("xagents_ray.core.signals.GRACE_SECONDS", 0.0)
    signals, object_ = Signals(), Ref("weights", transit=590.0)
    signals.on_first = None
    calls, began = RayCalls(ray, signals), ray.now
    signals.press(15)
    with pytest.raises(Stopped):
        if fetch == "get":
            calls.get(object_, 600, patience)
        else:
            calls.value(object_)
    assert ray.now - began == pytest.approx(seconds * (fetch == "get"), abs=0.5)


def test_what_is_lost_is_known_without_fetching_anything(
    calls: RayCalls, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched, get = [], ray.get
    monkeypatch.setattr(ray, "get", lambda r, timeout: fetched.append(r) or get(r))
    errors = LOST[0], _raised(OTHERS[0]), _raised(GetTimeoutError("120 s"))
    lost = [Ref(error=error) for error in errors]
    others = [Ref("here"), Ref("on its way", transit=0.3), Ref.pending()]
    began = ray.now
    found = calls.lost([others[0], lost[0], others[1], *lost[1:], others[2]])
    assert {each: str(error) for each, error in found.items()} == {
        each: str(each.error) for each in lost
    }
    assert fetched == lost
    assert ray.now == began
    assert calls.lost([]) == {}


class _Closes:
    """An actor with an environment.

    Args:
        seconds: seconds that the environment takes to close.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds, self.is_closed = seconds, False

    def close(self) -> Takes:
        self.is_closed = True
        if self._seconds < 0:
            raise RuntimeError("the environment is broken")
        return Takes(self._seconds)


@pytest.mark.parametrize(("seconds", "expected"), [(0, 0), (3, 3), (60, 5), (-1, 0)])
def test_a_retired_actor_closes_before_it_is_killed(
    calls: RayCalls, ray: FakeRay, seconds: float, expected: float
) -> None:
    """Nothing waits for it."""
    actor, began = FakeActor(ray, _Closes(seconds)), ray.now
    calls.retire(actor)
    assert ray.now == began and not actor.is_dead
    while not actor.is_dead:
        calls.ready([Ref.pending()], 0.1)
    assert actor.instance.is_closed
    assert ray.now - began == pytest.approx(expected, abs=0.2)


def test_a_dead_actor_is_not_waited_for(calls: RayCalls, ray: FakeRay) -> None:
    actor = FakeActor(ray, _Closes(1))
    actor.die()
    calls.retire(actor)
    calls.closing.finish()
    calls.retire(None)
    assert not actor.instance.is_closed


def test_the_end_waits_5_seconds_for_all_together(
    calls: RayCalls, ray: FakeRay
) -> None:
    actors = [FakeActor(ray, _Closes(seconds)) for seconds in (0, 2, 60, NEVER)]
    actors[0].hanging.add("close")
    began = ray.now
    calls.retire(actors[1])
    for each in actors:
        calls.closing.begin(each)
    calls.closing.finish()
    assert ray.now - began == pytest.approx(5)
    assert all(each.is_dead for each in actors)
    assert [each.instance.is_closed for each in actors] == [False, True, True, True]
    asked = [call for each in actors for call in each.asked]
    assert asked == [("close", ())] * 4


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
