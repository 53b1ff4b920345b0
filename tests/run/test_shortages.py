"""Runs that lack disk space or memory, and what they say of it last."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import forked
import pytest
from disks import mounted
from fake_driver import FakeDriver
from sessions import RUN, SETTINGS, raising, steps, summary, train

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.errors import Broken, shortage
from xagents_ray.core.signals import Signals
from xagents_ray.run.session import run_session
from xagents_ray.settings.config import Config

CONTINUE = f"To continue: xagents-ray train ppo --resume {RUN}"
FEW: dict[str, Any] = {"max_steps": 4, "reward_buffer_size": 9}
"""Settings of a run of four steps in which no mean reward is the best one."""
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def in_the_way(*names: str) -> Iterator[None]:
    """Put files in place of directories of the run, and directories of files."""
    for name in names:
        path = RUN / name
        if path.exists():
            path.rename(f"{name}.aside")
        path.write_text("in the way") if not path.suffix else path.mkdir()
    yield


def blocking(*names: str) -> Any:
    """Return a round after whose begin these files can't be written anymore."""

    def round_() -> list[float]:
        with in_the_way(*names):
            return [1]

    return round_


@pytest.mark.parametrize(
    ("error", "lacking"),
    [
        (MemoryError(), "memory"),
        (type("_ArrayMemoryError", (MemoryError,), {})("NumPy's"), "memory"),
        (type("ResourceExhaustedError", (Exception,), {})("TensorFlow's"), "memory"),
        (OSError(errno.ENOMEM, "no memory"), "memory"),
        (FULL, "disk space"),
        (OSError(errno.EDQUOT, "the quota"), "disk space"),
        (OSError(errno.EFBIG, "the limit"), "disk space"),
        (OSError(errno.EACCES, "not allowed"), ""),
        (OSError("a message alone"), ""),
        (ValueError("another"), ""),
        (None, ""),
    ],
    ids=str,
)
def test_what_an_error_lacks(error: BaseException | None, lacking: str) -> None:
    assert shortage(error) == lacking


def test_a_run_whose_last_state_cannot_be_written_says_so_last(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rounds = [[1], [1], blocking("checkpoints"), [1]]
    result = train(FakeDriver(rounds), **FEW, checkpoint_every=2, quiet=True)
    *_, last = capsys.readouterr().out.splitlines()
    assert result.completed and result.unsaved == ("the newest state (4 env steps)",)
    assert last.startswith("Warning: Not saved (") and last.endswith(
        "): the newest state (4 env steps). There is no checkpoint to continue from."
    )
    assert summary()["unsaved"] == [*result.unsaved]


def test_what_is_written_in_the_end_is_saved(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A disk that was full for a while costs a warning."""

    def free() -> list[float]:
        (RUN / "checkpoints").unlink()
        return [1]

    rounds = [[1], blocking("checkpoints"), [1], free]
    result = train(FakeDriver(rounds), **FEW, checkpoint_every=2)
    assert result.unsaved == () and steps() == [4]
    out = capsys.readouterr().out
    assert "A checkpoint can't be written" in out and "Not saved" not in out


def test_all_that_could_not_be_written_is_named() -> None:
    later = blocking("checkpoints", "history.parquet", "summary.json")
    rounds = [blocking("tensorboard"), [1], later, [1]]
    result = train(FakeDriver(rounds), **FEW, tensorboard=True)
    assert result.unsaved == (
        "the newest state (4 env steps)",
        "TensorBoard's events",
        "the history",
        "the summary",
    )


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            MemoryError("Unable to allocate 3 GiB"),
            "Out of memory after 2 env steps (MemoryError: Unable to allocate 3 GiB): "
            "lower --n-envs, the batch, the network, or close other programs. ",
        ),
        (
            FULL,
            "Out of disk space after 2 env steps (OSError: [Errno 28] No space left on "
            "device): free some, or name a --run-dir on another disk. ",
        ),
    ],
    ids=["memory", "disk"],
)
def test_a_shortage_ends_a_run_with_one_line(
    error: Exception, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = FakeDriver([[1], [1], raising(error)])
    with pytest.raises(Broken) as raised:
        train(driver)
    assert str(raised.value) == expected + CONTINUE
    assert "To continue" not in capsys.readouterr().out  # but once
    assert steps() == [2]


def test_a_shortage_says_what_it_leaves_unsaved() -> None:
    driver = FakeDriver([[1], [1], [1], raising(MemoryError())])

    def no_state() -> NoReturn:
        raise MemoryError

    driver.on_drain = lambda: driver.learned == 3 and no_state()
    driver.state = no_state  # type: ignore[method-assign]
    with pytest.raises(Broken) as raised:
        train(driver)
    assert str(raised.value).endswith(
        "Not saved: the newest state (3 env steps). There is no checkpoint to continue "
        "from."
    )


def test_a_shortage_while_the_driver_starts() -> None:
    config = Config.of(find_algorithm("ppo").config, SETTINGS)
    start = raising(MemoryError("Unable to allocate 3 GiB"))
    with pytest.raises(Broken, match=r"Out of memory before the first step .*3 GiB"):
        run_session(find_algorithm("ppo"), config, Signals(), lambda *_: start())


def test_a_command_on_a_full_disk_exits_with_1(tmp_path: Path) -> None:
    """Settings and history have room, and checkpoints don't."""
    with mounted(tmp_path / "disk", "64k") as disk:
        words = "train a2c --env CartPole-v1 --local --max-steps 300 --name a --seed 1"
        command = ["-m", "xagents_ray", *words.split(), "--run-dir", str(disk)]
        done = forked.run(command, 120)
    assert (done.returncode, done.stderr) == (1, "")
    *_, last = done.stdout.splitlines()
    assert last.startswith("Warning: Not saved (No space left on device): the newest ")
    assert last.endswith("There is no checkpoint to continue from.")
