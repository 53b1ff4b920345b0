"""A directory's lock, held by this process, another one, or one that is dead."""

import errno
import fcntl
import os
import subprocess
from pathlib import Path

import processes
import pytest

from xagents_ray.core.errors import UserError
from xagents_ray.storage.lock import locked_directory

_PARENT = """
import os, sys, time
from pathlib import Path
from xagents_ray.storage.lock import locked_directory
with locked_directory(Path("run")):
    if os.fork() == 0:  # as environments in processes of their own are
        print("held", flush=True)  # by the parent alone from here on
        sys.stdin.read()
        os._exit(0)
    time.sleep(600)
"""


@pytest.fixture
def run() -> Path:
    path = Path("run")
    path.mkdir()
    return path


def refused(run: Path, pid: int) -> None:
    """Check that process `pid` holds it."""
    said = f"run is being trained by process {pid} on .*: end it first, or begin"
    with pytest.raises(UserError, match=said), locked_directory(run):
        pytest.fail("two have it")


def test_a_directory_is_held_until_the_block_ends(run: Path) -> None:
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), locked_directory(run):
            refused(run, os.getpid())
            raise ZeroDivisionError
    with locked_directory(run):
        refused(run, os.getpid())


def test_a_fork_that_outlives_its_parent_holds_nothing(run: Path) -> None:
    process = processes.start("-c", _PARENT, stdin=subprocess.PIPE)
    try:
        assert process.stdout.readline() == "held\n"
        refused(run, process.pid)
        process.kill()
        process.wait()
        assert process.poll() is not None
        with locked_directory(run):
            refused(run, os.getpid())
    finally:
        process.kill()
        process.communicate()  # its fork reads the end of its input, and ends


@pytest.mark.parametrize("name", ["run", "gone"])
def test_without_locks_a_run_goes_on(
    run: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with locked_directory(Path(name)), locked_directory(Path(name)):
        pass
    assert not Path("gone").exists()


def test_no_file_is_written_behind_a_link(run: Path) -> None:
    Path("mine").write_text("my own")
    (run / ".lock").symlink_to("../mine")
    with locked_directory(run):
        assert Path("mine").read_text() == "my own"
