"""Starting Ray on this machine, which may fail; Ray is a fake."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from processes import wait_for

from xagents_ray.cluster.ray import connection, own_ray
from xagents_ray.core.errors import Broken, Stopped, UserError
from xagents_ray.core.signals import Signals
from xagents_ray.settings.resources import ConnectionConfig

_LATE = "The current node timed out during startup.\n  See its logs."


class _Ray:
    """The module `ray`, which does not start the first few times."""

    def __init__(self, failures: int, fail: Callable[[], None] = lambda: None) -> None:
        self._failures, self._fail = failures, fail
        self.folders: list[Path] = []
        self.shutdowns = 0

    def init(self, *, _temp_dir: str, **_: Any) -> Any:
        self.folders.append(Path(_temp_dir).parent)
        # What Ray has started, and a process that it can't work without.
        processes = connection.current_session().processes
        if len(self.folders) <= self._failures:
            ended = SimpleNamespace(pid=-1, args=["raylet"], poll=lambda: 1)
            processes.own.append(SimpleNamespace(**vars(ended), wait=lambda limit: 1))
            self._fail()
            raise RuntimeError(_LATE)
        return SimpleNamespace()

    def shutdown(self) -> None:
        self.shutdowns += 1


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a function that starts a fake, and says what was noted."""
    monkeypatch.setattr(connection, "_open", [])
    monkeypatch.setitem(connection.sys.modules, "ray", None)
    monkeypatch.setattr(own_ray, "job_without_folder", lambda ray: None)

    def started(ray: _Ray, **settings: Any) -> list[str]:
        monkeypatch.setattr(own_ray, "import_ray", lambda logs: ray)
        signals, said = settings.pop("signals", Signals()), list[str]()
        with signals:
            flags = ConnectionConfig(address=None)
            connection.start_ray(flags, 0, signals, said.append, **settings)
        return said

    yield started
    if connection._open:
        connection.leave_ray(SimpleNamespace(shutdown=lambda: None))


def test_a_start_that_fails_is_tried_once_more_with_a_line(start: Any) -> None:
    """Ray has a limit of its own, 30 s, which a busy machine exceeds."""
    ray = _Ray(1)
    why = "The current node timed out during startup. See its logs"
    assert start(ray) == [
        "Starting Ray...",
        f"Ray did not start ({why}); trying once more...",
    ]
    first, second = ray.folders
    assert not first.exists()
    assert second.exists()
    assert ray.shutdowns == 1
    assert not connection.is_lost()  # by the processes of the first start


@pytest.mark.parametrize(
    ("settings", "end"),
    [({}, "less busy, or use --local."), ({"requires_ray": True}, "is less busy.")],
)
def test_a_start_that_fails_twice_ends_with_the_reason_and_a_remedy(
    start: Any, settings: dict[str, Any], end: str
) -> None:
    """A sweep needs Ray even if its trials are local."""
    ray = _Ray(2)
    with pytest.raises(Broken) as error:
        start(ray, **settings)
    assert "(The current node timed out during startup. See its logs)" in str(
        error.value
    )
    assert str(error.value).endswith(end)
    assert len(ray.folders) == 2
    assert not any(folder.exists() for folder in ray.folders)
    assert not connection._open


def test_after_a_signal_there_is_no_further_try(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray's processes are ended, so its start fails."""
    monkeypatch.setattr(connection, "_quiet_threads", lambda: None)
    monkeypatch.setattr(connection.atexit, "register", lambda *_: None)
    signals = Signals()
    ray = _Ray(2, fail=lambda: setattr(signals, "received", signal.SIGTERM))
    with pytest.raises((Stopped, Broken)):
        start(ray, signals=signals)
    wait_for(lambda: not connection._open)
    assert len(ray.folders) == 1


@pytest.mark.parametrize("requires_ray", [False, True])
def test_too_little_shared_memory(
    monkeypatch: pytest.MonkeyPatch, requires_ray: bool
) -> None:
    usage = SimpleNamespace(free=64 * 2**20)
    monkeypatch.setattr(own_ray.shutil, "disk_usage", lambda path: usage)
    monkeypatch.setattr(Path, "exists", lambda path: True)
    with pytest.raises(UserError, match="/dev/shm has 51 MiB") as error:
        own_ray.object_store_size(0, requires_ray)
    assert ("--local" in str(error.value)) is not requires_ray
