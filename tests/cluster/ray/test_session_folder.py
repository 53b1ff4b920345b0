"""Ray's folder is one that only this user enters, and is said to be another's."""

import os
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import start, wait_for

from xagents_ray.cluster.ray.ray_session import RayProcesses
from xagents_ray.cluster.ray.session_folder import (
    create_private_folder,
    exposed_folder,
)
from xagents_ray.core.errors import UserError

_SOCKET = "session_2026-11-27_12-34-56_123456_4194304/sockets/plasma_store"
_START = """
import pathlib, sys
from xagents_ray.cluster.ray.ray_session import RayProcesses
made = RayProcesses()
folder = made.create_folder()
folder.mkdir()
(folder / "log").touch()
print(folder, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that all users can enter, as those above pytest's own are not."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_nobody_else_enters_it_and_it_is_removed(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(shared))
    made = RayProcesses()
    folder = made.create_folder()
    assert folder.parent.parent == shared
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    assert len(f"{folder}/{_SOCKET}".encode()) < 107
    folder.mkdir()
    folder.chmod(0o777)  # as Ray does
    (folder / "socket").touch()
    assert exposed_folder(folder) == ""
    made.watch()
    made.end()
    assert folder.exists()
    made.close()
    assert list(shared.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_is_killed_leaves_none(
    number: signal.Signals, shared: Path
) -> None:
    environment = {**os.environ, "RAY_TMPDIR": str(shared)}
    with start("-c", _START, stdin=subprocess.PIPE, env=environment) as process:
        folder = Path(process.stdout.readline().strip())
        assert (folder / "log").exists() and folder.parent.parent == shared
        process.send_signal(number)
    wait_for(lambda: not list(shared.iterdir()))


def test_names_of_sockets_are_never_too_long(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = shared / ("x" * 60)
    monkeypatch.setenv("RAY_TMPDIR", str(deep))
    with pytest.raises(UserError, match="too long for the names of Ray's sockets: na"):
        create_private_folder()
    monkeypatch.delenv("RAY_TMPDIR")
    monkeypatch.setenv("TMPDIR", str(deep))
    made = create_private_folder()
    assert made.parent == Path("/tmp")
    made.rmdir()


def test_a_folder_that_cannot_be_created(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shared / "file").touch()
    monkeypatch.setenv("RAY_TMPDIR", str(shared / "file"))
    with pytest.raises(UserError, match=r"can't be created in .*: name another"):
        create_private_folder()


@pytest.mark.parametrize(
    ("modes", "is_open"),
    [
        ((0o777, 0o777), True),  # as Ray makes /tmp/ray and a session
        ((0o755, 0o777), True),
        ((0o755, 0o1777), True),
        ((0o755, 0o755), False),
        ((0o700, 0o777), False),
        ((0o777, 0o700), True),  # another folder can take its place
        ((0o1777, 0o700), False),
    ],
)
def test_folders_that_others_can_write_to(
    modes: tuple[int, int], is_open: bool, shared: Path
) -> None:
    session = shared / "ray" / "session"
    session.mkdir(parents=True)
    for path, mode in zip((session.parent, session), modes, strict=True):
        path.chmod(mode)
    said = exposed_folder(session)
    assert bool(said) == is_open
    assert not is_open or f"can write to {session}, from which Ray's" in said


def test_a_pod_has_one_user(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (shared / "session").mkdir()
    (shared / "session").chmod(0o777)
    assert exposed_folder(shared / "session")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert exposed_folder(shared / "session") == ""
