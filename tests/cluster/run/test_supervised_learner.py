"""A learner that dies, hangs or waits for data that is late, lost or too large."""

import gc
import weakref
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_ray import NEVER, FakeActor, FakeRay, Ref, Takes, full
from ray.exceptions import (
    ActorDiedError,
    ObjectLostError,
    OutOfDiskError,
    RayTaskError,
)

from xagents_ray.cluster.ray.calls import RayCalls
from xagents_ray.cluster.run.driver import RayDriver
from xagents_ray.cluster.run.last_snapshot import LastSnapshot
from xagents_ray.cluster.run.learner_start import LearnerStart
from xagents_ray.cluster.run.phases import PhaseData, RequestedPhase
from xagents_ray.cluster.run.replay_shards import ReplayShards
from xagents_ray.cluster.run.supervised_learner import SupervisedLearner
from xagents_ray.core.errors import Broken, Stopped
from xagents_ray.core.signals import Signals
from xagents_ray.core.trajectory import VERSION, Fill
from xagents_ray.settings.training import PipelineConfig

_LOST = ObjectLostError("1", None, "")


class _Service:
    """A learner that notes what it has learned.

    Args:
        seconds: of each phase.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        self.learned: list[Any] = []
        self.versions: list[int] = []
        self.seconds, self.is_stopped = seconds, False

    def start(self) -> tuple[int, list[str]]:
        return 1, []

    def ping(self) -> None: ...

    def stop(self) -> None:
        self.is_stopped = True

    def weights(self, version: int) -> int:
        assert version > max(self.versions, default=0)
        self.versions.append(version)
        return version

    def update(
        self, version: int, env_steps: int, statistics: Any, *batch: Any
    ) -> Takes:
        self.learned.append(batch)
        metrics = {"updates": len(batch), "seconds": self.seconds}
        return Takes(self.seconds, (metrics, self.weights(version), None))

    def state(self) -> dict[str, Any]:
        return {"learned": np.array(len(self.learned))}

    def restore(self, arrays: dict[str, Any]) -> None:
        self.learned = [None] * int(arrays["learned"])

    def scale_lr(self, factor: float) -> float:
        return factor


class _Data:
    """The data of a phase: a batch, and the next one each time it is asked again."""

    def __init__(
        self, *batches: Sequence[Any], end_late: Callable[[Any], None] | None = None
    ) -> None:
        self._rest, self._end_late = list(batches), end_late
        self.asked = 0

    def references(self) -> Sequence[Any]:
        self.asked += 1
        return self._rest.pop(0) if len(self._rest) > 1 else self._rest[0]

    def end_late(self, missing: Sequence[Any]) -> None:
        if self._end_late is not None:
            self._end_late(missing)


class _Setup:
    """A supervised learner, and the actors that were made for it.

    Args:
        ray: the fake.
        seconds: of each phase.
        hanging: methods of each learner that never end; of others, none.
    """

    def __init__(
        self, ray: FakeRay, *hanging: Sequence[str], seconds: float = 0.0
    ) -> None:
        self.ray, self.signals = ray, Signals()
        self.signals.on_first = None
        self.actors: list[FakeActor] = []
        self._seconds, self._hanging = seconds, list(hanging)
        self.calls = RayCalls(ray, self.signals)
        self.log = self.calls.log
        self.learner = SupervisedLearner(self.calls, self._make, 1.0, timeout=1_800)
        if "start" not in [method for each in hanging[:1] for method in each]:
            self.learner.wait_until_ready()

    def _make(self) -> FakeActor:
        hanging = self._hanging.pop(0) if self._hanging else ()
        service = _Service(self._seconds)
        self.actors.append(FakeActor(self.ray, service, hanging=hanging))
        return self.actors[-1]

    @property
    def services(self) -> list[_Service]:
        return [actor.instance for actor in self.actors]

    def learn(self, *batches: Sequence[Any], **settings: Any) -> None:
        """Request a phase, of the first batch; of the next one when it is repeated."""
        data: Any = _Data(*batches, **settings)
        self.learner.learn(RequestedPhase(data, 0, {}))

    def learned(self, *batches: Sequence[Any], **settings: Any) -> list[float]:
        """Request a phase, and return the updates of each that was in progress."""
        self.learn(*batches, **settings)
        return self.updates()

    def updates(self) -> list[float]:
        return [metrics["updates"] for metrics in self.learner.finish()]


def test_a_batch_that_does_not_come_is_drawn_again_and_learned_once(
    ray: FakeRay,
) -> None:
    """The learner answers pings all the time."""
    setup, hung, missing = _Setup(ray), Ref.pending(), []

    def end_late(references: Sequence[Any]) -> None:
        missing.extend(references)
        for reference in references:
            reference.put(error=ActorDiedError())

    again = [Ref("fresh"), Ref("drawn")]
    assert setup.learned([Ref("fresh"), hung], again, end_late=end_late) == [2]
    assert missing == [hung]
    assert setup.services[0].learned == [("fresh", "drawn")]
    assert setup.log.counts == {"batches with lost parts": 1}
    assert setup.learner.version == setup.services[0].versions[-1]


def test_a_batch_that_comes_late_is_learned_once(ray: FakeRay) -> None:
    """Nothing of it is requested again."""
    setup, slow, began = _Setup(ray), Ref.pending(), ray.now
    assert setup.learned([slow], end_late=lambda missing: slow.put("drawn")) == [1]
    assert ray.now - began == pytest.approx(120)
    assert setup.services[0].learned == [("drawn",)]
    assert not setup.log.counts


def test_a_lost_batch_is_drawn_again_without_a_new_learner(ray: FakeRay) -> None:
    setup = _Setup(ray)
    setup.learn([Ref(error=_LOST)], [Ref("drawn")])
    assert setup.learned([Ref("next")]) == [1, 1]
    assert sorted(setup.services[0].learned) == [("drawn",), ("next",)]
    assert setup.log.counts == {"batches with lost parts": 1}
    assert setup.learner.weights.value == setup.learner.version


def test_nothing_is_learned_where_the_whole_round_is_lost(ray: FakeRay) -> None:
    setup = _Setup(ray)
    before = setup.learner.available_weights()
    assert setup.learned([Ref(error=_LOST)], []) == [0]
    assert setup.learner.available_weights() is before is setup.learner.weights
    assert setup.services[0].learned == []


def test_phases_are_numbered_in_the_order_of_their_requests(ray: FakeRay) -> None:
    """A repeated one is the newest."""
    setup, numbers = _Setup(ray), list[int]()
    for batches in ([Ref(0)],), ([Ref(error=_LOST)], [Ref(1)]), ([Ref(2)],):
        phase = RequestedPhase(_Data(*batches), 0, {})  # type: ignore[arg-type]
        setup.learner.learn(phase)
        setup.learner.finish()
        numbers.append(phase.number)
    assert numbers == [1, 3, 4]


def test_losses_between_phases_that_are_learned_do_not_end_the_run(
    ray: FakeRay,
) -> None:
    setup = _Setup(ray)
    for number in range(10):
        assert setup.learned([Ref(error=_LOST)], [Ref(number)]) == [1]
    assert len(setup.actors) == 1


def test_a_resumed_learner_publishes_above_its_earlier_versions(ray: FakeRay) -> None:
    setup = _Setup(ray)
    setup.learner.restore({"learned": np.array(7), VERSION: np.array(40)})
    assert ray.get(setup.learner.available_weights()) == setup.learner.version == 41
    assert setup.services[0].learned == [None] * 7
    setup.learned([Ref("first")])
    assert setup.learner.snapshot.newer_updates == 1


def test_a_learner_that_dies_as_a_run_is_resumed_is_replaced(ray: FakeRay) -> None:
    setup = _Setup(ray)
    setup.actors[0].die()
    setup.learner.restore({"learned": np.array(7), VERSION: np.array(40)})
    assert ray.get(setup.learner.available_weights()) > 40
    assert setup.services[1].learned == [None] * 7
    assert setup.log.counts == {"learners": 1}


def test_a_phase_that_a_snapshot_includes_is_not_newer() -> None:
    snapshot = LastSnapshot(RayCalls(None, Signals()))
    snapshot.add(1, 1)
    snapshot.add(2, 10)
    assert snapshot.newer_updates == 11
    snapshot.add(3, 100)
    snapshot.keep({}, 3)
    snapshot.add(3, 100)
    snapshot.add(4, 1_000)
    assert snapshot.newer_updates == 1_000
    snapshot.restart()
    assert snapshot.newer_updates == 0


class _Copied:
    """A learner whose state is on its way to the driver for some seconds."""

    def __init__(self, ray: FakeRay, transit: float, *states: Ref) -> None:
        self._ray, self._transit, self._states = ray, transit, [*states]
        self.requested: list[float] = []
        self.state = SimpleNamespace(remote=self._state)

    def _state(self) -> Ref:
        self.requested.append(self._ray.now)
        arrays = {"number": np.array(len(self.requested))}
        return (
            self._states.pop(0)
            if self._states
            else Ref(arrays, None, True, self._transit)
        )


@pytest.mark.parametrize(("megabytes", "seconds"), [(1, 0.5), (10, 1.0), (100, 2.0)])
def test_large_snapshots_are_requested_less_often(
    ray: FakeRay, megabytes: int, seconds: float
) -> None:
    """None of them can be had."""
    learner = _Copied(ray, 0.0, *[Ref(error=_LOST)] * 20)
    snapshot = LastSnapshot(RayCalls(ray, Signals()))
    snapshot.keep({"large": np.zeros(megabytes * 10**6, np.uint8)}, 1)
    step = 1 / 64  # so that sums of it are exact
    for _ in range(1_000):
        ray.now += step
        snapshot.refresh(learner, 1)
    gaps = np.diff(learner.requested)
    assert len(gaps) > 3
    assert (gaps == seconds + step).all()


@pytest.mark.parametrize(("transit", "interval"), [(0.001, 0.5), (0.02, 2), (0.5, 50)])
def test_transfers_take_a_hundredth_of_the_time(
    ray: FakeRay, transit: float, interval: float
) -> None:
    learner, snapshot = _Copied(ray, transit), LastSnapshot(RayCalls(ray, Signals()))
    kept = [snapshot.arrays]
    times = list[float]()
    for _ in range(20_000):
        ray.sleep(0.01)
        snapshot.refresh(learner, 1)
        if snapshot.arrays is not kept[-1]:
            kept.append(snapshot.arrays)
            times.append(ray.now)
    assert len(times) >= 4
    assert np.diff(times[:-1]) == pytest.approx(interval, rel=0.03, abs=0.51)
    assert np.mean(np.diff(times)) >= 0.99 * interval


def test_a_snapshot_is_freed_before_the_garbage_collector_runs(ray: FakeRay) -> None:
    """It doesn't see how much memory the arrays of a future's result take."""
    learner, snapshot = _Copied(ray, 0.02), LastSnapshot(RayCalls(ray, Signals()))
    seen = list[weakref.ref[Any]]()
    gc.disable()
    try:
        while len(learner.requested) < 30:
            ray.sleep(0.1)
            snapshot.refresh(learner, 1)
            if (arrays := snapshot.arrays.get("number")) is not None:
                if not seen or seen[-1]() is not arrays:
                    seen.append(weakref.ref(arrays))
                del arrays
        assert len(seen) > 3
        assert [each() for each in seen[:-1]] == [None] * (len(seen) - 1)
    finally:
        gc.enable()


def test_nothing_waits_for_a_snapshot_that_arrives_slowly(ray: FakeRay) -> None:
    """It is taken when it arrives, and the user knows how old the previous one is."""
    calls = RayCalls(ray, Signals())
    learner, snapshot, waited = _Copied(ray, 15.0), LastSnapshot(calls), 0.0
    snapshot.keep({"number": np.array(0)}, 0)
    for number in range(1, 21):
        began = ray.now
        snapshot.refresh(learner, number)
        waited += ray.now - began
        snapshot.add(number, 10)
        ray.sleep(1)
    assert waited == 0
    assert snapshot.arrays == {"number": 1}
    assert snapshot.newer_updates == 190  # it was taken after the first phase
    assert snapshot.age == pytest.approx(19, abs=1.1)
    (warning,) = calls.log.warnings
    assert "more than 10 s to arrive" in warning
    assert "from the one 12 s ago, without 120 updates so far" in warning


def test_nothing_waits_for_a_learner_that_is_busy(ray: FakeRay) -> None:
    learner, began = _Copied(ray, 0.0, Ref.pending()), ray.now
    snapshot = LastSnapshot(RayCalls(ray, Signals()))
    for _ in range(3):
        snapshot.refresh(learner, 1)
    assert ray.now == began and learner.requested == [began]


def test_a_snapshot_on_its_way_is_waited_for_when_the_learner_dies(
    ray: FakeRay,
) -> None:
    """Sixty updates were lost where it took more than 10 s; its node is alive."""
    setup, state = _Setup(ray, seconds=1.0), _Service.state
    slow = lambda self: Takes(0.0, state(self), transit=15.0)  # noqa: E731
    _Service.state, restored = slow, state  # type: ignore[method-assign]
    try:
        for number in range(60):
            assert setup.learned([Ref(number)]) == [1]
        ray.sleep(0.5)
        setup.actors[0].die()
        assert setup.learned([Ref("last")]) == [1]
    finally:
        _Service.state = restored  # type: ignore[method-assign]
    assert 0 < setup.log.counts["updates"] <= 2


def test_a_snapshot_that_does_not_arrive_is_said(ray: FakeRay) -> None:
    calls = RayCalls(ray, Signals())
    learner, snapshot = _Copied(ray, NEVER), LastSnapshot(calls)
    for _ in range(1_300):
        snapshot.refresh(learner, 1)
        ray.sleep(1)
    assert calls.log.counts == {"snapshots": 2}
    slow, lost = calls.log.warnings
    assert "take more than 10 s to arrive" in slow
    assert "has not arrived within 600 s; the one 602 s" in lost


def test_a_snapshot_without_room_in_the_store_is_said_once(ray: FakeRay) -> None:
    calls = RayCalls(ray, Signals())
    learner = _Copied(ray, 0.0, full("state"), full("state"), Ref(error=_LOST))
    snapshot = LastSnapshot(calls)
    for _ in range(4):
        snapshot.refresh(learner, 1)
        ray.sleep(1)
        snapshot.refresh(learner, 1)
    assert calls.log.counts == {"snapshots": 2}
    assert snapshot.arrays == {"number": 4}
    (warning,) = calls.log.warnings
    assert "A snapshot of the learner failed" in warning


def test_batches_that_are_lost_again_and_again_end_the_run(ray: FakeRay) -> None:
    setup = _Setup(ray)
    setup.learn([Ref("drawn")])
    setup.learn([Ref(error=_LOST)])
    with pytest.raises(Broken, match="failed 4 times in a row"):
        setup.updates()
    assert setup.updates() == [1]  # what was learned before it can be saved
    assert setup.learner.state() == {"learned": 1}


def test_three_failures_are_survived_after_each_phase(ray: FakeRay) -> None:
    setup, lost = _Setup(ray), [Ref(error=_LOST)]
    for number in range(2):
        assert setup.learned(lost, lost, lost, [Ref(number)]) == [1]
    assert setup.log.counts == {"batches with lost parts": 6}


def test_a_phase_that_never_ends_ends_the_learner(ray: FakeRay) -> None:
    setup, before = _Setup(ray, ["update"]), ray.now
    assert setup.learned([Ref("drawn")]) == [1]
    assert 3_600 < ray.now - before < 3_650
    assert setup.actors[0].is_dead
    assert setup.services[1].learned == [("drawn",)]
    assert setup.log.counts == {"learners": 1}
    assert "The learner was busy with one call" in setup.log.warnings[0]


def test_a_slow_phase_may_take_ten_times_the_longest(ray: FakeRay) -> None:
    setup = _Setup(ray, seconds=1_000.0)
    assert setup.learned([Ref("one")]) == [1]
    setup.services[0].seconds = 9_000.0
    assert setup.learned([Ref("two")]) == [1]
    assert not setup.log.counts


def test_a_phase_that_takes_longer_is_ended(ray: FakeRay) -> None:
    setup = _Setup(ray, seconds=1_000.0)
    assert setup.learned([Ref("one")]) == [1]
    setup.services[0].seconds, before = 19_000.0, ray.now
    assert setup.learned([Ref("two")]) == [1]
    assert 11_000 < ray.now - before < 11_100  # with its repetition
    assert setup.log.counts["learners"] == 1


def test_a_learner_that_is_silent_is_ended(ray: FakeRay) -> None:
    setup, before = _Setup(ray), ray.now
    setup.actors[0].is_suspended = True
    assert setup.learned([Ref("drawn")]) == [1]
    assert ray.now - before == pytest.approx(100)  # it is asked every 20 s
    assert setup.log.counts == {"learners": 1}


@pytest.mark.parametrize("method", ["scale_lr", "state"])
def test_a_call_that_never_ends_ends_the_learner(ray: FakeRay, method: str) -> None:
    setup = _Setup(ray)
    setup.actors[0].hanging.add(method)
    arguments = [0.5] if method == "scale_lr" else []
    assert setup.learner.call(method, *arguments) is not None
    assert setup.actors[0].is_dead


def test_a_start_that_never_ends_is_refused(ray: FakeRay) -> None:
    setup = _Setup(ray, ["start"])
    with pytest.raises(Broken, match="Ray could not start the learner"):
        setup.learner.wait_until_ready()


def test_a_batch_without_room_is_requested_again_after_a_pause(ray: FakeRay) -> None:
    setup = _Setup(ray)
    assert setup.learned([full()], [full()], [Ref("drawn")]) == [1]
    assert setup.services[0].learned == [("drawn",)]
    assert setup.log.counts == {"calls without room in the object store": 2}
    (warning,) = setup.log.warnings
    assert "object store" in warning


def test_a_store_that_stays_full_ends_the_run_with_a_sentence(ray: FakeRay) -> None:
    setup, data = _Setup(ray), _Data([full()])
    setup.learner.learn(RequestedPhase(data, 0, {}))  # type: ignore[arg-type]
    with pytest.raises(Broken, match="object store and the disk"):
        setup.learner.finish()
    assert data.asked < 20
    assert not setup.services[0].learned


def test_a_failure_of_the_replay_is_not_a_lost_batch(ray: FakeRay) -> None:
    setup = _Setup(ray)
    bug = RayTaskError("sample", "ValueError: The replay is empty", ValueError())
    setup.learn([Ref(error=bug)])
    with pytest.raises(Broken, match="The learner failed"):
        setup.updates()


def test_a_learner_without_memory_ends_the_run_with_a_line(ray: FakeRay) -> None:
    """Its state is saved all the same."""
    setup = _Setup(ray)
    full = MemoryError("Unable to allocate 3 GiB")
    setup.learn([Ref(error=RayTaskError("update", "Traceback", full))])
    with pytest.raises(MemoryError, match=r"^in the learner, MemoryError: Unable to"):
        setup.updates()
    assert not isinstance(setup.learner.state(), Exception)


def test_a_snapshot_between_phases_leads_to_none_of_them_again(ray: FakeRay) -> None:
    """One is in progress when the learning rate is changed; then the learner dies."""
    setup = _Setup(ray)
    setup.learn([Ref("first")])
    setup.learner.call("scale_lr", 0.5)
    setup.learner.state()
    setup.actors[0].die()
    setup.learner.call("scale_lr", 2.0)
    assert setup.learned([Ref("second")]) == [1, 1]
    assert setup.services[1].learned == [None, ("second",)]


def test_phases_in_progress_are_repeated_above_all_versions(ray: FakeRay) -> None:
    setup = _Setup(ray, seconds=10.0)
    setup.learn([Ref("first")])
    setup.learn([Ref("second")])
    newest = setup.learner.version
    ray.sleep(15)
    setup.actors[0].die()
    assert setup.updates() == [1, 1]
    assert setup.services[1].learned == [("second",)]
    assert min(setup.services[1].versions) > newest
    assert setup.learner.version == setup.services[1].versions[-1]
    assert setup.log.counts["learners"] == 1
    assert setup.log.counts["updates"] == 1


def test_few_updates_are_lost_while_snapshots_are_taken(ray: FakeRay) -> None:
    setup = _Setup(ray, seconds=1.0)
    for number in range(50):
        assert setup.learned([Ref(number)]) == [1]
    setup.actors[0].die()
    assert setup.learned([Ref("last")]) == [1]
    lost = setup.log.counts["updates"]
    assert 0 < lost <= 2
    assert setup.services[1].learned == [None] * (50 - lost) + [("last",)]
    assert f"{lost} updates are lost" in setup.log.warnings[0]


def test_a_snapshot_that_is_ready_when_the_learner_dies_is_kept(ray: FakeRay) -> None:
    setup = _Setup(ray, seconds=1.0)
    for number in range(2):  # a snapshot is requested before the second phase
        assert setup.learned([Ref(number)]) == [1]
    setup.actors[0].die()
    setup.learner.call("ping")
    assert setup.services[1].learned == [None]
    assert setup.log.counts == {"learners": 1, "updates": 1}


def test_an_answer_that_arrives_before_the_learner_is_ended_is_taken_once(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray takes its time to end the process."""
    setup = _Setup(ray, seconds=3_650.0)
    monkeypatch.setattr(ray, "kill", lambda actor: None)
    assert setup.learned([Ref("first")]) == [1]
    setup.actors[0].die()
    assert setup.learned([Ref("second")]) == [1]
    assert setup.services[0].learned == [("first",)]
    assert setup.services[1].learned == [("second",)]
    assert setup.log.counts == {"learners": 1, "updates": 1}


def test_a_learner_that_dies_again_and_again_ends_the_run(ray: FakeRay) -> None:
    setup = _Setup(ray)
    make = setup._make

    def dying() -> FakeActor:
        actor = make()
        actor.die()
        return actor

    setup.learner._make = dying
    setup.actors[0].die()
    setup.learn([Ref("drawn")])
    with pytest.raises(Broken, match="failed 4 times in a row"):
        setup.updates()
    assert len(setup.actors) == 4


def test_a_store_without_room_for_the_snapshot_is_tried_again(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup, failures = _Setup(ray), [OutOfDiskError("")]
    restore = _Service.restore

    def restoring(self: _Service, arrays: dict[str, Any]) -> None:
        if failures:
            raise RayTaskError("restore", "", failures.pop())
        restore(self, arrays)

    monkeypatch.setattr(_Service, "restore", restoring)
    assert setup.learned([Ref("lost")]) == [1]
    setup.actors[0].die()
    assert setup.learned([Ref("drawn")]) == [1]
    assert len(setup.actors) == 3
    assert setup.log.counts["calls without room in the object store"] == 1
    assert setup.log.counts["updates"] == 1


@pytest.mark.parametrize("is_dead", [True, False])
def test_weights_that_are_lost_are_published_again(ray: FakeRay, is_dead: bool) -> None:
    setup = _Setup(ray)
    lost = setup.learner.available_weights()
    if is_dead:
        setup.actors[0].die()
    before = setup.learner.version
    again = setup.learner.available_weights(lost)
    assert ray.get(again) == setup.learner.version > before
    assert setup.learner.available_weights(lost) is again  # other actors lacked them
    assert setup.log.counts["learners"] == is_dead


def test_a_wait_within_a_wait_recovers_the_learner_once(ray: FakeRay) -> None:
    """Free env actors ask for weights while a phase is waited for."""
    setup = _Setup(ray, seconds=10.0)
    killed: list[float] = []

    def meanwhile() -> None:
        if not killed and ray.now > 1_005:
            killed.append(ray.now)
            setup.actors[0].die()
            setup.learner.available_weights(setup.learner.available_weights())

    setup.calls.meanwhile = meanwhile
    assert setup.learned([Ref("drawn")]) == [1]
    assert killed
    assert len(setup.actors) == 2
    assert setup.services[1].learned == [("drawn",)]
    assert setup.log.counts["learners"] == 1


def test_a_learner_that_dies_once_it_is_restored_repeats_phases_once(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call during the wait for its restoration finds it dead."""
    setup, restore = _Setup(ray, seconds=10.0), _Service.restore

    def slow(self: _Service, arrays: dict[str, Any]) -> Takes:
        restore(self, arrays)
        return Takes(3.0)

    def meanwhile() -> None:
        if len(setup.actors) == 2:
            ray.sleep(5)
            setup.actors[1].die()
            setup.learner.available_weights(setup.learner.available_weights())

    monkeypatch.setattr(_Service, "restore", slow)
    setup.learn([Ref("drawn")])
    setup.actors[0].die()
    setup.calls.meanwhile = meanwhile
    assert setup.updates() == [1]
    assert setup.services[2].learned == [("drawn",)]
    assert setup.log.counts["learners"] == 2


def test_a_signal_ends_a_phase_after_its_pass(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xagents_ray.core.signals.GRACE_SECONDS", 0.0)
    setup = _Setup(ray, seconds=0.5)
    setup.learn([Ref("drawn")])
    setup.signals.press(15)
    assert setup.updates() == [1]
    assert setup.services[0].is_stopped


def test_a_first_phase_that_is_compiled_is_not_waited_for(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends with the state before it, without asking the busy learner."""
    monkeypatch.setattr("xagents_ray.core.signals.GRACE_SECONDS", 0.0)
    setup = _Setup(ray, seconds=30.0)
    before = setup.learner.snapshot.arrays
    setup.learn([Ref("drawn")])
    began = ray.now
    setup.signals.press(2)
    assert setup.updates() == []
    assert ray.now - began == pytest.approx(1, abs=0.5)
    assert setup.learner.is_missing and setup.learner.snapshot.arrays is before


@pytest.mark.parametrize("dies_before_it", [True, False])
def test_a_learner_that_dies_as_the_run_ends_leaves_its_snapshot(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch, dies_before_it: bool
) -> None:
    """A new one would take longer than the user waits, and its weights are random."""
    monkeypatch.setattr("xagents_ray.core.signals.GRACE_SECONDS", 0.0)
    setup = _Setup(ray, (), ("start",))
    assert setup.learned([Ref("first")]) == [1]
    setup.learner.state()
    setup.learn([Ref("second")])
    setup.actors[0].die()

    def press() -> None:
        if len(setup.actors) > dies_before_it and setup.signals.received is None:
            setup.signals.press(15)

    if dies_before_it:
        setup.calls.meanwhile = press
    else:
        press()
    assert setup.updates() == []
    assert setup.learner.snapshot.arrays == {"learned": 1}
    assert all(actor.is_dead for actor in setup.actors)
    with pytest.raises(Stopped):
        setup.learner.call("state")
    assert len(setup.actors) == 1 + dies_before_it
    assert setup.log.counts == {"learners": 1}
    (warning,) = setup.log.warnings
    assert ("is not replaced" in warning) == (not dies_before_it)


def test_nothing_asks_a_learner_before_it_is_restored(ray: FakeRay) -> None:
    """Free env actors ask for weights while it starts."""
    setup = _Setup(ray)
    assert setup.learned([Ref("first")]) == [1]
    setup.learner.state()
    setup.actors[0].die()
    lost = setup.learner._available = Ref(error=_LOST)
    setup.calls.meanwhile = lambda: setup.learner.available_weights(lost)
    setup.learner.call("scale_lr", 0.5)
    asked = [method for method, _ in setup.actors[1].asked]
    assert asked[:2] == ["start", "restore"]


class _Shard:
    """A shard that is never empty."""

    def start(self) -> int:
        return 100

    def insert(self, *trajectories: Any) -> tuple[Fill, float]:
        return Fill(50, False), 0.0

    def is_idle(self) -> bool:
        return True

    def sample(self, batches: int, count: int) -> str:
        return "drawn"


@pytest.mark.parametrize("fresh", [[], ["fresh"]], ids=["off-policy", "with a round"])
@pytest.mark.parametrize("phases", [1, 2])
def test_a_shard_that_hangs_while_it_draws_is_replaced(
    ray: FakeRay, fresh: list[str], phases: int
) -> None:
    """It answers pings, and so does the learner; no phase is learned twice."""
    setup, before = _Setup(ray), ray.now
    made: list[FakeActor] = []

    def make(number: int) -> FakeActor:
        made.append(FakeActor(ray, _Shard()))
        return made[-1]

    shards = ReplayShards(
        setup.calls, 2, make, True, round_bytes=0, total_envs=0, batch_bytes=0
    )
    shards.insert([])
    made[1].hanging.add("sample")
    generator = np.random.default_rng(1)
    for _ in range(phases):
        rollouts = [Ref(each) for each in fresh]
        data = PhaseData(
            setup.calls, shards, rollouts, lambda: shards.sample(1, 4, generator)
        )
        setup.learner.learn(RequestedPhase(data, 0, {}))
    whole = (*fresh, "drawn", "drawn")
    assert setup.updates() == [len(whole)] * phases
    assert setup.services[0].learned == [whole] * phases
    assert len(setup.actors) == 1
    assert len(made) == 3
    assert made[1].is_dead
    assert 120 < ray.now - before < 145
    assert setup.log.counts["replay shards"] == 1
    assert setup.log.counts["batches with lost parts"] == phases
    assert "learners" not in setup.log.counts
    assert "Replay shard 1 hangs with 50 trajectories held" in setup.log.warnings[0]


def _placed_after(
    setup: _Setup, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let Ray place the next learners after some seconds."""

    def make() -> FakeActor:
        setup.actors.append(FakeActor(setup.ray, _Service(), starts=seconds))
        return setup.actors[-1]

    monkeypatch.setattr(setup.learner, "_make", make)


@pytest.mark.parametrize("seconds", [100, 1_500])
def test_a_learner_is_waited_for_while_ray_places_it(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """Its node is gone, and an autoscaler brings another one."""
    setup, shown, began = _Setup(ray), list[str](), ray.now
    setup.log.show = lambda: shown.extend(setup.log.take_warnings())
    _placed_after(setup, seconds, monkeypatch)
    setup.actors[0].die()
    assert setup.learned([Ref("drawn")]) == [1]
    assert ray.now - began == pytest.approx(seconds, abs=10)
    assert setup.log.counts == {"learners": 1}
    assert len(setup.actors) == 2
    waits = [each for each in shown if each.startswith("Waiting for Ray to place")]
    assert seconds // 40 <= len(waits) <= seconds // 30
    assert "of at most 1800 s (--learner-timeout)" in waits[0]


def test_free_env_actors_do_not_end_a_learner_that_is_being_placed(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They ask for weights that were lost with the node."""
    setup = _Setup(ray)
    _placed_after(setup, 500, monkeypatch)
    setup.actors[0].die()
    lost = setup.learner.available_weights()
    asked: list[float] = []

    def meanwhile() -> None:
        if not asked:
            asked.append(ray.now)
            setup.learner.available_weights(lost)

    setup.calls.meanwhile = meanwhile
    assert setup.learned([Ref("drawn")]) == [1]
    assert asked
    assert setup.log.counts == {"learners": 1}


def test_a_learner_that_ray_does_not_place_in_time_ends_the_run(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup, began = _Setup(ray), ray.now
    setup.learner.state()
    _placed_after(setup, NEVER, monkeypatch)
    setup.actors[0].die()
    setup.learn([Ref("drawn")])
    with pytest.raises(Broken, match=r"placed no new learner .* 1800 s.*--learner-tim"):
        setup.updates()
    assert ray.now - began == pytest.approx(1_800, abs=20)
    assert setup.learner.state() == {"learned": 0}  # what can be saved


def test_a_missing_learner_is_not_waited_for_again_when_the_run_is_saved(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = _Setup(ray)
    _placed_after(setup, NEVER, monkeypatch)
    setup.actors[0].die()
    lost = setup.learner.available_weights()
    setup.learn([Ref("drawn")])
    with pytest.raises(Broken):
        setup.learner.available_weights(lost)
    began, saving = ray.now, RayDriver.__new__(RayDriver)
    saving._calls, saving._ray, saving._learner = setup.calls, ray, setup.learner
    saving._patience = 1.0
    saving._pipeline = PipelineConfig(policy_lag=1)  # no states of env actors
    assert saving.drain() == []
    assert saving.state().learner == {"learned": 0}
    assert ray.now == began
    assert not [each for each in setup.log.warnings if "no new learner" in each]
    assert setup.log.counts["learners"] == 1


def test_a_start_has_ten_minutes_on_its_node(ray: FakeRay) -> None:
    start = LearnerStart(RayCalls(ray, Signals()), 1_800)
    actor = FakeActor(ray, _Service())
    start.begin(actor)
    for pause, is_dead in [(0, False), (600, False), (0.001, True)]:
        ray.now += pause
        start.check()
        assert actor.is_dead == is_dead


def test_a_start_has_the_learner_timeout_to_be_placed(ray: FakeRay) -> None:
    start = LearnerStart(RayCalls(ray, Signals()), 1_800)
    start.begin(FakeActor(ray, _Service(), NEVER))
    ray.now = limit = ray.now + 1_800
    start.check()
    assert ray.now == limit
    ray.now += 0.001
    with pytest.raises(Broken, match="Ray has placed no new learner within 1800 s"):
        start.check()


def test_a_placed_learner_that_hangs_in_its_start_is_replaced(ray: FakeRay) -> None:
    setup, began = _Setup(ray, (), ("start",)), ray.now
    setup.actors[0].die()
    assert setup.learned([Ref("drawn")]) == [1]
    assert ray.now - began == pytest.approx(610, abs=15)
    assert setup.log.counts["learners"] == 2
