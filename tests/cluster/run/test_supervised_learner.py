"""Waits for a learner that is alive: what it waits for is late, lost or too large."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import in_process_ray
import numpy as np
import pytest
from in_process_ray import Actor, Ref
from ray.exceptions import OutOfDiskError, RayTaskError

from xagents_ray.cluster.ray import calls as calls_module
from xagents_ray.cluster.ray.calls import Calls
from xagents_ray.cluster.ray.failures import FailureLog
from xagents_ray.cluster.run import learner as learning
from xagents_ray.cluster.run.learner import Phase, SupervisedLearner
from xagents_ray.core.errors import Broken
from xagents_ray.core.signals import Signals


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, seconds in (
        ("_PING_SECONDS", 0.01),
        ("_ARGUMENT_SECONDS", 0.05),
        ("_SNAPSHOT_SECONDS", 1e9),
    ):
        monkeypatch.setattr(learning, name, seconds)
    monkeypatch.setattr(calls_module, "_PAUSES", (0.01, 0.02))
    yield


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every wait be short that ends the learner or the run."""
    monkeypatch.setattr(learning, "_CALL_SECONDS", 0.3)
    monkeypatch.setattr(learning, "_START_SECONDS", 0.3)
    monkeypatch.setattr(calls_module, "_FULL_SECONDS", 0.2)


class Service:
    """A learner that counts what it has learnt."""

    def __init__(self) -> None:
        self.learnt: list[Any] = []
        self.version = 0

    def start(self) -> tuple[int, list[str]]:
        return 1, []

    def ping(self) -> None: ...

    def weights(self, version: int) -> int:
        assert version > self.version
        self.version = version
        return version

    def update(
        self, version: int, env_steps: int, statistics: Any, *batch: Any
    ) -> tuple[dict[str, float], int]:
        self.learnt.append(batch)
        return {"updates": len(batch), "seconds": 0.0}, self.weights(version)

    def state(self) -> dict[str, Any]:
        return {"learnt": np.array(len(self.learnt))}

    def restore(self, arrays: dict[str, Any]) -> None:
        self.learnt = [None] * int(arrays["learnt"])

    def scale_lr(self, factor: float) -> float:
        return factor


class Setup:
    """A supervised learner, and the actors that were made for it."""

    def __init__(self, *silent: Sequence[str]) -> None:
        self.services: list[Service] = []
        self.actors: list[Actor] = []
        self._silent, self.log = list(silent), FailureLog()
        self.learner = SupervisedLearner(
            Calls(in_process_ray, Signals()), self.log, self._make, patience=1.0
        )

    def _make(self) -> Actor:
        self.services.append(Service())
        silent = self._silent.pop(0) if self._silent else ()
        self.actors.append(Actor(self.services[-1], silent))
        return self.actors[-1]

    def learn(
        self,
        *batches: Sequence[Any],
        end_late: Callable[[Sequence[Any]], None] | None = None,
    ) -> None:
        """Ask for a phase, of the first batch; of the next one when it is repeated."""
        rest = iter(batches)
        late = end_late or (lambda missing: None)
        self.learner.learn(Phase(lambda: next(rest), 0, {}, late))


def test_a_batch_that_does_not_come_is_drawn_anew_and_learnt_once() -> None:
    """The learner answers pings all the time."""
    setup, hung, missing = Setup(), Ref.pending(), []
    setup.learner.wait_until_ready()

    def end_late(references: Sequence[Any]) -> None:
        missing.extend(references)
        for reference in references:
            reference.put(error=in_process_ray.ActorDiedError())

    setup.learn([Ref("fresh"), hung], [Ref("fresh"), Ref("drawn")], end_late=end_late)
    assert [each["updates"] for each in setup.learner.finish()] == [2]
    assert missing == [hung]
    assert setup.services[0].learnt == [("fresh", "drawn")]
    assert setup.log.counts == {"batches with lost parts": 1}
    assert setup.learner.version == setup.services[0].version


def test_a_batch_that_comes_late_is_learnt_once() -> None:
    """Nothing of it is asked for again."""
    setup, slow = Setup(), Ref.pending()
    setup.learner.wait_until_ready()
    setup.learn([slow], end_late=lambda missing: slow.put("drawn"))
    assert [each["updates"] for each in setup.learner.finish()] == [1]
    assert setup.services[0].learnt == [("drawn",)]
    assert not setup.log.counts


@pytest.mark.usefixtures("short")
def test_a_phase_that_never_ends_ends_the_learner() -> None:
    setup = Setup(["update"])
    setup.learner.wait_until_ready()
    setup.learn([Ref("drawn")])
    assert [each["updates"] for each in setup.learner.finish()] == [1]
    assert setup.actors[0].is_dead
    assert setup.services[1].learnt == [("drawn",)]
    assert setup.log.counts["learners"] == 1
    assert "The learner was busy with one call" in setup.log.warnings[0]


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("method", ["scale_lr", "state"])
def test_a_call_that_never_ends_ends_the_learner(method: str) -> None:
    setup = Setup()
    setup.learner.wait_until_ready()
    setup.actors[0].silent.add(method)
    arguments = [0.5] if method == "scale_lr" else []
    assert setup.learner.call(method, *arguments) is not None
    assert setup.actors[0].is_dead


@pytest.mark.usefixtures("short")
def test_a_start_that_never_ends_is_refused() -> None:
    setup = Setup(["start"])
    with pytest.raises(Broken, match="Ray could start no learner"):
        setup.learner.wait_until_ready()


def _full() -> Ref:
    return Ref(error=RayTaskError("sample", "", OutOfDiskError("")))


def test_a_batch_without_room_is_asked_for_again_after_a_pause() -> None:
    setup = Setup()
    setup.learner.wait_until_ready()
    setup.learn([_full()], [_full()], [Ref("drawn")])
    assert [each["updates"] for each in setup.learner.finish()] == [1]
    assert setup.services[0].learnt == [("drawn",)]
    assert setup.log.counts == {"calls without room in the object store": 2}
    assert len(setup.log.warnings) == 1
    assert "object store" in setup.log.warnings[0]


@pytest.mark.usefixtures("short")
def test_a_store_that_stays_full_ends_the_run_with_a_sentence() -> None:
    setup, asked = Setup(), []

    def batch() -> list[Ref]:
        asked.append(1)
        return [_full()]

    setup.learner.wait_until_ready()
    setup.learner.learn(Phase(batch, 0, {}, lambda missing: None))
    with pytest.raises(Broken, match="object store and the disk"):
        setup.learner.finish()
    assert len(asked) < 20
    assert not setup.services[0].learnt


def test_a_failure_of_the_replay_is_not_a_lost_batch() -> None:
    setup = Setup()
    setup.learner.wait_until_ready()
    bug = RayTaskError("sample", "ValueError: The replay is empty", ValueError())
    setup.learn([Ref(error=bug)])
    with pytest.raises(Broken, match="The learner failed"):
        setup.learner.finish()


def test_a_snapshot_between_phases_leads_to_none_of_them_again() -> None:
    """One is in progress when the learning rate is changed; then the learner dies."""
    setup = Setup()
    setup.learner.wait_until_ready()
    setup.learn([Ref("first")])
    setup.learner.call("scale_lr", 0.5)
    setup.learner.state()
    setup.actors[0].kill()
    setup.learn([Ref("second")])
    assert [each["updates"] for each in setup.learner.finish()] == [1, 1]
    assert setup.services[1].learnt == [None, ("second",)]
