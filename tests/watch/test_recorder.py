"""What a run writes while it trains, and what a failure of that costs."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from processes import python
from sessions import raising

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.errors import Stopped
from xagents_ray.core.reports import Evaluated
from xagents_ray.settings.config import Config
from xagents_ray.storage.history import History, read_history
from xagents_ray.storage.run_directory import RunDirectory
from xagents_ray.watch import recorder as module
from xagents_ray.watch.progress import EndedEpisode
from xagents_ray.watch.recorder import BestEffort, Recorder


class FakeTracker:
    """Notes what it is given; fails where a test says so.

    Attributes:
        fails: names of methods that raise.
    """

    made: "list[FakeTracker]"

    def __init__(self, *arguments: Any) -> None:
        self.made.append(self)
        self.logged: list[tuple[int, Mapping[str, float]]] = []
        self.videos: list[Path] = []
        self.fails: set[str] = set()
        self.is_closed = False

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._check("log")
        self.logged.append((step, values))

    def video(self, step: int, path: Path) -> None:
        self._check("video")
        self.videos.append(path)

    def close(self) -> None:
        self.is_closed = True
        self._check("close")

    def _check(self, method: str) -> None:
        if method in self.fails:
            raise OSError(f"no\nnetwork for {method}")


class Recorded:
    """A recorder with a fake tracker for each of the two kinds."""

    def __init__(self, *histories: History, **settings: Any) -> None:
        settings = {"env": "CartPole-v1", "max_steps": 1, **settings}
        config = Config.of(find_algorithm("ppo").config, settings)
        unused: Any = None
        run = RunSpec(find_algorithm("ppo"), config, unused, unused, seed=1)
        self.warnings: list[str] = []
        best_effort = BestEffort(self.warnings.append)
        directory = RunDirectory(Path("run"))
        self.recorder = Recorder(
            "ppo", run.config, directory, histories, best_effort, 0
        )


_WANDB = module.Wandb


@pytest.fixture(autouse=True)
def trackers(monkeypatch: pytest.MonkeyPatch) -> list[FakeTracker]:
    FakeTracker.made = []
    monkeypatch.setattr(module, "TensorBoard", FakeTracker)
    monkeypatch.setattr(module, "Wandb", FakeTracker)
    return FakeTracker.made


def test_what_may_fail_warns_once_of_each_kind() -> None:
    warnings: list[str] = []
    best_effort = BestEffort(warnings.append)

    def fail() -> None:
        raise OSError("no\nspace")

    assert best_effort("A file", lambda: None)
    for what in ("A file", "A file", "A video"):
        assert not best_effort(what, fail)
    assert warnings == [
        "A file can't be written; training continues: no space",
        "A video can't be written; training continues: no space",
    ]
    assert best_effort.unsaved == {"A file": "no space", "A video": "no space"}
    assert best_effort("A file", lambda: None)
    assert [*best_effort.unsaved] == ["A video"]


@pytest.mark.parametrize("what", ["The video", "Wandb", "--monitor-session"])
def test_what_is_beside_the_run_leaves_nothing_unsaved(what: str) -> None:
    warnings: list[str] = []
    best_effort = BestEffort(warnings.append)
    assert not best_effort(what, raising(OSError(28, "No space left on device")))
    assert len(warnings) == 1 and best_effort.unsaved == {}


def test_the_reason_of_what_is_unsaved_has_no_path() -> None:
    best_effort = BestEffort(lambda warning: None)
    error = OSError(28, "No space left on device", "/somewhere/long")
    assert not best_effort("The history", raising(error))
    assert best_effort.unsaved == {"The history": "No space left on device"}


def test_work_that_a_signal_ends_warns_of_nothing() -> None:
    warnings: list[str] = []
    assert not BestEffort(warnings.append)("A file", raising(Stopped()))
    assert warnings == []


def test_trackers_are_made_when_there_is_something_to_log(
    trackers: list[FakeTracker],
) -> None:
    recorder = Recorded(monitor_session="mine").recorder
    assert trackers == []
    recorder.evaluated(Evaluated(10, 2.5))
    recorder.close(20, {"loss": 0.5}, Path("a.mp4"))
    expected = [(10, {"reward/evaluation": 2.5}), (20, {"loss": 0.5})]
    for tracker in trackers:
        assert tracker.logged == expected
        assert tracker.videos == [Path("a.mp4")] and tracker.is_closed
    assert len(trackers) == 2


def test_metrics_are_tracked_once_per_second(
    trackers: list[FakeTracker], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder, now = Recorded().recorder, 100.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    for step, at in ((1, 100.0), (2, 100.9), (3, 101.1), (4, 102.0), (5, 102.2)):
        now = at
        recorder.metrics(step, dict)
    assert [step for step, _ in trackers[0].logged] == [1, 3, 5]


def test_a_tracker_that_fails_is_left_out(trackers: list[FakeTracker]) -> None:
    recorded = Recorded(monitor_session="mine")
    recorded.recorder.evaluated(Evaluated(1, 1.0))
    failing, other = trackers
    failing.fails = {"log", "close"}
    recorded.recorder.evaluated(Evaluated(2, 1.0))
    recorded.recorder.close(3, {}, None)
    assert failing.is_closed and len(failing.logged) == 1
    assert [step for step, _ in other.logged] == [1, 2, 3]
    assert recorded.warnings == [
        "FakeTracker can't be written; training continues: no network for log"
    ]


def test_a_tracker_that_cannot_be_made(
    trackers: list[FakeTracker], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise ImportError("no module wandb")

    monkeypatch.setattr(module, "Wandb", refuse)
    recorded = Recorded(monitor_session="mine", tensorboard=False)
    for step in (1, 2):
        recorded.recorder.evaluated(Evaluated(step, 1.0))
    assert trackers == []
    (warning,) = recorded.warnings
    assert warning.startswith("--monitor-session can't be written")


def test_every_history_gets_every_episode() -> None:
    histories = History("a.parquet"), History("b.parquet")
    recorder = Recorded(*histories, tensorboard=False).recorder
    recorder.episodes([EndedEpisode(3, 2.0, 1, 2.0, None)], 1.0)
    recorder.evaluated(Evaluated(3, 7.0))
    recorder.episodes([EndedEpisode(5, 4.0, 2, 3.0, 3.0)], 2.0)
    recorder.close(5, {}, None)
    for name in ("a.parquet", "b.parquet"):
        history = History(name)
        assert history.rows == 2 and history.newest_rewards(2) == [2.0, 4.0]
        assert history.last is not None and history.last.step == 5


def test_own_metrics_reach_histories_and_once_a_second_the_trackers(
    trackers: list[FakeTracker], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder, now = Recorded(History("h.parquet")).recorder, 100.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    recorder.episodes([EndedEpisode(3, 2.0, 1, 2.0, None)], 1.0)
    for step, at, value in ((3, 100.0, 1.0), (4, 100.5, 2.0), (5, 100.9, 3.0)):
        now = at
        recorder.own(step, "mine", value)
        recorder.own(step, "other", -value)
    recorder.close(6, {"loss": 0.5}, None)
    assert trackers[0].logged == [
        (3, {"mine": 1.0}),
        (5, {"mine": 3.0, "other": -3.0}),
        (6, {"loss": 0.5}),
    ]
    rows = read_history("h.parquet")
    assert rows["mine"].tolist() == [3.0] and rows["other"].tolist() == [-3.0]


def test_success_rates_and_lengths_reach_histories_and_trackers(
    trackers: list[FakeTracker],
) -> None:
    recorder = Recorded(History("h.parquet")).recorder
    ended = EndedEpisode(3, 2.0, 1, 2.0, None, True, success_rate=0.75, mean_length=8)
    recorder.episodes([ended], 1.0)
    recorder.evaluated(Evaluated(3, 7.0, 0.5, 20.0))
    recorder.close(3, {}, None)
    rows = read_history("h.parquet")
    assert rows["success_rate"].tolist() == [0.75]
    assert rows["mean_length"].tolist() == [8]
    values = {
        "reward/evaluation": 7.0,
        "length/evaluation": 20.0,
        "success/evaluation": 0.5,
    }
    assert trackers[0].logged[0] == (3, values)


def test_a_history_that_cannot_be_written_costs_one_warning() -> None:
    recorded = Recorded(History("a/h.parquet"), tensorboard=False)
    Path("a").rmdir()
    Path("a").write_text("in the way of the directory")
    for step in (1, 2):
        recorded.recorder.episodes([EndedEpisode(step, 1.0, 1, 1.0, None)], 0.0)
        recorded.recorder.flush()
    assert [each.split(" can't")[0] for each in recorded.warnings] == ["The history"]


def test_a_wandb_run_is_a_new_one_and_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    logged: list[int] = []

    def init(**settings: Any) -> Any:
        asked.append(settings)
        own = {"id": settings["id"] or "abc-1", "step": 70 if settings["id"] else 0}
        define = {"define_metric": lambda *_, **__: None}
        return SimpleNamespace(log=lambda _, step: logged.append(step), **own, **define)

    wandb = SimpleNamespace(Settings=lambda **_: None, init=init)
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    _WANDB("mine", {}, tmp_path).log(70, {})
    _WANDB("mine", {}, tmp_path).log(60, {})
    assert [each["id"] for each in asked] == [None, "abc-1"]
    assert {each["reinit"] for each in asked} == {"create_new"}
    assert logged == [70, 70]  # W&B ignores steps that decrease


_OFFLINE = """
import sys
from pathlib import Path
import wandb
from xagents_ray.watch.recorder import Wandb
own = wandb.init(project="mine", settings=wandb.Settings(silent=True))
ids = []
for step in (10, 20):
    run = Wandb("a", {}, Path("run"))
    run.log(step, {"reward": 1.0})
    ids.append(run._run.id)
    run.close()
assert wandb.run is own
own.log({"still": 1})
own.finish()
assert len({*ids, own.id}) == 2 and ids[0] == ids[1], (ids, own.id)
"""


def test_real_wandb_continues_its_run_beside_one_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    Path("run").mkdir()
    done = python("-c", _OFFLINE)
    assert done.returncode == 0, done.stderr
    # offline-run-TIME-ID, and -1 behind it for the second one of the same second
    (id_,) = {each.name.split("-")[3] for each in Path("run/wandb").glob("off*")}
    assert Path("run/wandb/run-id").read_text() == id_
