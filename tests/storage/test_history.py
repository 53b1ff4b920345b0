"""The history file: continued, ordered, cut, whole at every moment."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from disks import as_nobody, full_disk
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from processes import python, start

from xagents_ray.core.errors import UserError
from xagents_ray.storage import history
from xagents_ray.storage.history import History, read_history
from xagents_ray.storage.history_parts import COLUMNS, EpisodeRow

OLD = {name: [1.0] for name in COLUMNS[:5]} | {"step": [10]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "h.parquet"


def fill(made: History, count: int, start: int = 0) -> None:
    for n in range(start, start + count):
        made.add(n * 10, n / 2, float(n), n / 4, n / 8)


def filled(path: Path, count: int) -> History:
    """Return a new history with so many rows in its file."""
    made = History(path)
    fill(made, count)
    made.flush()
    return made


def steps(path: Path) -> list[int]:
    found: list[int] = pd.read_parquet(path).sort_values("time")["step"].tolist()
    return found


def xagents(path: Path, order: list[int]) -> None:
    """Write a directory as xagents 1.0.1 did: a file per row, names without order."""
    for n in order:
        row = {"mean_reward": [n / 4], "best_reward": [n / 8]}
        row |= {"episode_reward": [float(n)], "step": [n * 10], "time": [n / 2]}
        pq.write_to_dataset(pa.table(row), path)


def files(path: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in path.iterdir()}


def test_new_file(tmp_path: Path) -> None:
    path = tmp_path / "not" / "yet" / "h.parquet"
    made = History(path)
    assert (made.rows, made.last, made.newest_rewards(3)) == (0, None, [])
    made.flush()
    assert not path.exists()
    made.add(7, 0.5, 3.0, 2.0, 4.0)
    assert made.last == EpisodeRow(2.0, 4.0, 3.0, 7, 0.5, None)
    made.flush()
    schema = pq.read_schema(path)
    assert tuple(schema.names) == COLUMNS
    assert [str(t) for t in schema.types] == [*["double"] * 3, "int64", *["double"] * 2]
    assert pd.read_parquet(path).iloc[0].tolist()[:5] == [2.0, 4.0, 3.0, 7, 0.5]
    assert pq.read_table(path)["evaluation_reward"].null_count == 1
    assert os.listdir(path.parent) == [path.name]


def test_continued(path: Path) -> None:
    filled(path, 5)
    second = History(path)
    assert second.rows == 5
    assert second.last == EpisodeRow(1.0, 0.5, 4.0, 40, 2.0, None)
    fill(second, 3, start=5)
    assert (second.rows, second.newest_rewards(4)) == (8, [4.0, 5.0, 6.0, 7.0])
    assert second.newest_rewards(0) == []
    assert second.newest_rewards(99) == [float(n) for n in range(8)]
    second.flush()
    assert steps(path) == [n * 10 for n in range(8)]


def test_nothing_new_is_not_written(path: Path) -> None:
    made = filled(path, 1)
    before = path.stat().st_ino
    made.flush()
    History(path).flush()
    assert path.stat().st_ino == before


def test_rows_are_read_by_time(path: Path) -> None:
    order = np.random.default_rng(0).permutation(50)
    columns = {name: order / 2 for name in COLUMNS[:5]}
    table = pa.table({**columns, "step": order.astype(np.int32), "mine": order})
    pq.write_table(table, path)
    rows = read_history(path)
    assert rows["step"].tolist() == list(range(50))
    assert rows["step"].dtype == np.int64
    assert np.isnan(rows["evaluation_reward"]).all()
    made = History(path)
    assert made.newest_rewards(2) == [24.0, 24.5]
    fill(made, 1, start=50)
    made.flush()
    assert pq.read_table(path)["step"].to_pylist() == [*range(50), 500]


def test_evaluation(path: Path) -> None:
    made = History(path)
    made.evaluated(1.0)
    fill(made, 2)
    made.flush()
    made.evaluated(2.0)
    made.flush()
    fill(made, 2, start=2)
    made.evaluated(3.0)
    assert made.last is not None and made.last.evaluation_reward == 3.0
    made.flush()
    found = pq.read_table(path)["evaluation_reward"].to_pylist()
    assert found == [1.0, 2.0, None, 3.0]


def test_columns_of_the_users_own(path: Path) -> None:
    made = History(path)
    made.log("a", 1.0)  # of the first row
    fill(made, 2)
    made.log("a", 2.0)
    made.log("a", 3.0)
    made.flush()
    again = History(path)
    fill(again, 2, start=2)
    again.log("b/c", -1.0)
    again.evaluated(5.0)
    again.flush()
    rows = read_history(path)
    for name, values in {
        "a": [1, 3, np.nan, np.nan],
        "b/c": [np.nan] * 3 + [-1],
        "evaluation_reward": [np.nan] * 3 + [5],
    }.items():
        np.testing.assert_array_equal(rows[name], values)
    assert pd.read_parquet(path)["a"].tolist()[:2] == [1, 3]
    again.cut(10)
    again.log("a", 9.0)
    again.flush()
    np.testing.assert_array_equal(read_history(path)["a"], [1, 9])


def test_a_column_of_the_users_own_has_no_name_that_is_taken(path: Path) -> None:
    for name in (*COLUMNS, "part", ""):
        with pytest.raises(UserError, match="choose another name"):
            History(path).log(name, 1.0)


def test_parts_with_different_columns(path: Path) -> None:
    xagents(path, [1, 0])
    for n, name in enumerate(("a", "b")):
        made = History(path)
        fill(made, 1, start=2 + n)
        made.log(name, float(n))
        made.flush()
    rows = read_history(path)
    np.testing.assert_array_equal(rows["a"], [np.nan, np.nan, 0, np.nan])
    np.testing.assert_array_equal(rows["b"], [np.nan, np.nan, np.nan, 1])


def test_cut(path: Path) -> None:
    made = filled(path, 6)
    fill(made, 2, start=6)
    made.cut(30)
    assert made.newest_rewards(9) == [0.0, 1.0, 2.0, 3.0]
    made.flush()
    assert steps(path) == [0, 10, 20, 30]
    made.cut(-1)
    made.flush()
    assert (steps(path), made.last) == ([], None)
    fill(History(path), 1)


def test_a_cut_that_is_held(path: Path) -> None:
    filled(path, 6)
    made = History(path)
    made.cut(30, is_held=True)
    made.flush_if_due()
    assert steps(path) == [0, 10, 20, 30, 40, 50]
    made.flush()
    assert steps(path) == [0, 10, 20, 30]


def test_flush_when_due(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = History(path)
    made.flush_if_due()
    fill(made, 1)
    made.flush_if_due()
    assert steps(path) == [0]
    fill(made, 1, start=1)
    made.flush_if_due()
    assert steps(path) == [0]
    monkeypatch.setattr(history, "FLUSH_SECONDS", 0.0)
    monkeypatch.setattr(history, "_REST", 0)
    again = History(path)
    for n in (2, 3):
        fill(again, 1, start=n)
        again.flush_if_due()
        assert len(steps(path)) == n


def test_directory(path: Path) -> None:
    xagents(path, [3, 0, 2, 1])
    before = files(path)
    made = History(path)
    assert (made.rows, made.newest_rewards(9)) == (4, [0.0, 1.0, 2.0, 3.0])
    made.flush()
    assert files(path) == before
    for n in (4, 6):
        fill(made, 2, start=n)
        made.flush()
        made.flush()
    after = files(path)
    assert {name: after[name] for name in before} == before
    parts = [pq.read_table(path / name) for name in after.keys() - before.keys()]
    assert sorted(part["step"].to_pylist() for part in parts) == [[40, 50], [60, 70]]
    assert steps(path) == [n * 10 for n in range(8)]
    assert History(path).newest_rewards(2) == [6.0, 7.0]


def test_evaluation_in_a_directory(path: Path) -> None:
    """Pandas shows it, though the files of xagents lack that column."""
    xagents(path, [1, 0])
    made = History(path)
    made.evaluated(1.5)
    fill(made, 2, start=2)
    made.flush()
    made.evaluated(3.5)
    made.flush()
    assert len(files(path)) == 3
    found = pd.read_parquet(path).sort_values("time")["evaluation_reward"].tolist()
    assert found[1::2] == [1.5, 3.5]
    assert np.isnan(found[0::2]).all()


def test_cut_of_a_directory(path: Path) -> None:
    xagents(path, [3, 0, 2, 1])
    made = History(path)
    fill(made, 4, start=4)
    made.flush()
    again = History(path)
    again.cut(50)
    fill(again, 1, start=9)
    again.flush()
    assert steps(path) == [0, 10, 20, 30, 40, 50, 90]
    again.cut(10)
    again.flush()
    assert steps(path) == [0, 10]
    assert len(files(path)) == 2


def test_path_outlives_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "link.parquet").symlink_to("other/real.parquet")
    monkeypatch.chdir(tmp_path)
    made = [History("h.parquet"), History("link.parquet")]
    monkeypatch.chdir(tmp_path / "other")
    for each in made:
        fill(each, 1)
        each.flush()
    assert steps(tmp_path / "h.parquet") == steps(tmp_path / "link.parquet") == [0]
    assert (tmp_path / "link.parquet").is_symlink()


def test_pandas_is_not_imported(path: Path) -> None:
    """It takes seconds, at which no environment would be stepped."""
    code = """if True:
        import sys
        from xagents_ray.storage.history import History
        for n in range(3):
            made = History(sys.argv[1])
            made.add(n, n, n, n, n)
            made.flush()
        print(made.rows, "pyarrow" in sys.modules, "pandas" in sys.modules)"""
    done = python("-c", code, str(path))
    assert done.stdout == "3 True False\n", done.stderr


def test_full_disk(path: Path) -> None:
    """The old file stays, and a later flush writes everything."""
    made = filled(path, 10)
    before = files(path.parent)
    fill(made, 5000, start=10)
    with full_disk(1000), pytest.raises(OSError):
        made.flush()
    assert files(path.parent) == before
    fill(made, 1, start=5010)
    made.flush()
    assert len(steps(path)) == made.rows == 5011


def test_leftovers_are_removed(tmp_path: Path) -> None:
    path, folder = tmp_path / "h.parquet", tmp_path / "old.parquet"
    xagents(folder, [0])
    mine = [tmp_path / ".h.parquet.12.new", folder / ".000-1.parquet.345.new"]
    others = [tmp_path / n for n in (".g.parquet.12.new", ".h.parquet.tmp", "12.new")]
    for file in [*mine, *others]:
        file.write_bytes(b"PAR1")
    assert History(folder).rows == 1
    assert History(path).rows == 0
    assert not any(file.exists() for file in mine)
    assert all(file.exists() for file in others)


WRITER = """
import os, signal, sys
import pyarrow.parquet
from xagents_ray.storage.history import History

def write(path):
    signal.alarm(60)
    made = History(path)
    found = made.rows
    for n in range(found, found + 2000):
        made.add(n, float(n), 1.0, 2.0, 3.0)
        if made.rows % 50 == 0:
            made.flush()
        if made.rows == found + 50:
            print(os.getpid(), found, flush=True)
    signal.pause()

# Forked, for speed: the imports take a second.
for _ in sys.stdin:
    if child := os.fork():
        os.waitpid(child, 0)
        print("dead", flush=True)
    else:
        write(sys.argv[1])
"""


class Writers:
    """Processes that add 50 rows and flush, again and again, 40 times at most."""

    def __init__(self, process: Any) -> None:
        self._process = process

    @contextmanager
    def one(self) -> Iterator[int]:
        """Start one, yield how many rows it found once it flushed; kill it."""
        print("start", file=self._process.stdin, flush=True)
        child, rows = map(int, self._process.stdout.readline().split())
        try:
            yield rows
        finally:
            os.kill(child, signal.SIGKILL)
            assert self._process.stdout.readline() == "dead\n"


@contextmanager
def writers(path: Path) -> Iterator[Writers]:
    with start("-c", WRITER, str(path), stdin=subprocess.PIPE) as process:
        yield Writers(process)
        process.stdin.close()


def test_readable_while_written(path: Path) -> None:
    read: list[int] = []
    with writers(path) as them, them.one():
        end = time.monotonic() + 60
        while not read or read[-1] < 2000:
            assert time.monotonic() < end
            if path.exists():
                found = steps(path)
                assert found == list(range(len(found)))
                read.append(len(found))
    assert len(set(read)) > 10
    assert read == sorted(read)
    assert all(count % 50 == 0 for count in read)


def test_killed(path: Path) -> None:
    """A writer killed at any moment leaves a file that the next one continues."""
    rng, rows = random.Random(0), 0
    with writers(path) as them:
        for _ in range(20):
            with them.one() as begun:
                assert begun == rows
                time.sleep(rng.uniform(0.0, 0.08))
            found = steps(path)
            assert found == list(range(len(found)))
            assert len(found) >= rows + 50
            rows = len(found)
            # The one of the writer that was just killed, no older one.
            assert len(set(os.listdir(path.parent)) - {path.name}) <= 1


def test_flushed_rows_keep_their_place(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that knows the old metadata only finds the same bytes there."""
    monkeypatch.setattr(history, "_GROUPS", 6)
    made = History(path)
    before = b"PAR1"
    for n in range(6):
        fill(made, 3, start=3 * n)
        made.flush()
        after = path.read_bytes()
        assert after.startswith(before)
        before = after[: -8 - int.from_bytes(after[-8:-4], "little")]
    assert pq.read_metadata(path).num_row_groups == 6
    fill(made, 1, start=18)
    made.flush()
    assert pq.read_metadata(path).num_row_groups == 1


def test_cost_of_100_000_games(tmp_path: Path) -> None:
    """At 80,000 steps/s and 20 steps a game they are 25 s of a run, 2 % is 0.5 s.

    The least of three, in this thread: in a process that tested other things, theirs
    may still be at work.
    """
    rng = np.random.default_rng(0)
    rewards = rng.normal(size=100_000).tolist()
    times = np.cumsum(rng.exponential(size=100_000)).tolist()

    def seconds(path: Path) -> float:
        made = filled(path, 1)  # imports pyarrow
        begun = time.thread_time()
        for n, reward in enumerate(rewards):
            made.add(n * 20, times[n], reward, reward / 3, reward / 7)
        made.flush()
        return time.thread_time() - begun

    paths = [tmp_path / str(n) / "h.parquet" for n in range(3)]
    assert min(map(seconds, paths)) < 0.5
    assert paths[0].stat().st_size < 8_000_000
    assert os.listdir(paths[0].parent) == ["h.parquet"]


MISSING = "has values that are missing or out of range"


@pytest.mark.parametrize(
    ("column", "values", "why"),
    [
        ("time", None, "it lacks the column time"),
        ("step", None, "it lacks the column step"),
        ("step", ["10"], "its column step holds string, not numbers"),
        ("mean_reward", [True], "its column mean_reward holds bool, not numbers"),
        ("step", [np.nan], f"its column step {MISSING}"),
        ("step", pa.array([None], pa.int64()), f"its column step {MISSING}"),
        ("step", [2.0**70], f"its column step {MISSING}"),
        ("time", [np.nan], f"its column time {MISSING}"),
        ("time", pa.array([None], pa.float64()), f"its column time {MISSING}"),
    ],
)
def test_wrong_columns(path: Path, column: str, values: Any, why: str) -> None:
    columns = {k: v for k, v in {**OLD, column: values}.items() if v is not None}
    pq.write_table(pa.table(columns), path)
    before = files(path.parent)
    for read in (History, read_history):
        with pytest.raises(UserError) as error:
            read(path)
        assert str(error.value).startswith(f"{path} cannot be read as a history: {why}")
        assert str(error.value).endswith("; name another one, or move it away.")
    assert files(path.parent) == before


def test_a_missing_reward_is_read(path: Path) -> None:
    pq.write_table(pa.table(OLD | {"mean_reward": pa.array([None], pa.null())}), path)
    made = History(path)
    assert made.last is not None and np.isnan(made.last.mean_reward)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"hello", b"PAR1" * 9, b"\0" * 999])
def test_no_parquet(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    words = r"h\.parquet cannot .* not a parquet file, or a dam"
    with pytest.raises(UserError, match=words):
        History(path)
    assert path.read_bytes() == data


def test_a_column_twice(path: Path) -> None:
    names = [*COLUMNS[:5], "step"]
    pq.write_table(pa.table([pa.array([1])] * 6, names=names), path)
    with pytest.raises(UserError, match="step"):
        History(path)


def test_other_things_in_a_directory(tmp_path: Path) -> None:
    path = tmp_path / "h"
    xagents(path, [0])
    (path / "_SUCCESS").touch()
    assert History(path).rows == 1
    (path / "notes.txt").touch()
    with pytest.raises(UserError, match=r"h cannot .* with notes\.txt in it"):
        History(path)
    (path / "notes.txt").rename(path / "bad.parquet")
    with pytest.raises(UserError, match=r"bad\.parquet cannot .* not a parquet file"):
        read_history(path)


def test_places_that_hold_no_history(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "h.parquet", tmp_path / ("h" * 300)):
        with pytest.raises(UserError, match="cannot be read as a history"):
            History(path)
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path(os.devnull)):
        with pytest.raises(UserError, match="neither a file nor a directory"):
            History(path)
    with pytest.raises(UserError, match="doesn't exist; name a history"):
        read_history(tmp_path / "none.parquet")


def test_no_permission(tmp_path: Path, path: Path) -> None:
    made = filled(path, 1)
    fill(made, 1, start=1)
    path.chmod(0)
    tmp_path.chmod(0o555)
    try:
        with as_nobody():
            with pytest.raises(UserError, match="Permission denied"):
                History(path)
            with pytest.raises(UserError, match="Permission denied"):
                History(tmp_path / "new" / "h.parquet")
            with pytest.raises(PermissionError):
                made.flush()
    finally:
        tmp_path.chmod(0o755)
        path.chmod(0o644)
    assert steps(path) == [0]
    made.flush()
    assert steps(path) == [0, 10]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, ...]:
    """Return a history of ours, and one that pandas wrote without checksums."""
    path = tmp_path_factory.mktemp("sound") / "h.parquet"
    filled(path, 300)
    ours = path.read_bytes()
    pd.read_parquet(path).to_parquet(path)
    return ours, path.read_bytes()


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_damaged_bytes(
    sound: tuple[bytes, ...], path: Path, data: st.DataObject
) -> None:
    damaged = bytearray(data.draw(st.sampled_from(sound)))
    where = st.integers(0, len(damaged) - 1)
    end = st.integers(max(0, len(damaged) - 3000), len(damaged) - 1)  # the metadata
    for place in data.draw(st.lists(where | end, min_size=0, max_size=4)):
        damaged[place] ^= data.draw(st.integers(1, 255))
    if data.draw(st.booleans()):
        del damaged[data.draw(where) :]
    path.write_bytes(damaged)
    try:
        made = History(path)
    except UserError as error:
        assert str(path) in str(error)
    else:
        made.newest_rewards(10)
        assert made.last is None or isinstance(made.last.step, int)
    assert path.read_bytes() == damaged
    assert os.listdir(path.parent) == [path.name]
