"""Checkpoints: what they hold, which of them stay, full disks, damaged files."""

import errno
import hashlib
import io
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from disks import mounted, names
from hypothesis import given, settings
from hypothesis import strategies as st

from xagents_ray.core.errors import UserError
from xagents_ray.core.files import replace_bytes
from xagents_ray.core.trajectory import Array
from xagents_ray.storage.arrays import write_arrays
from xagents_ray.storage.checkpoint_writer import CheckpointWriter
from xagents_ray.storage.checkpoints import (
    all_checkpoints,
    best_checkpoint,
    best_evaluation,
    load_checkpoint,
    load_newest,
    newest_valid,
    read_replay,
    replay_files,
    step_of,
)

ARRAYS: dict[str, Array] = {
    "policy/dense-0/kernel": np.arange(12, dtype=np.float32).reshape(3, 4),
    "optimizer/0": np.array(7, np.int64),
}
FACTS = {"env_steps": 5, "rewards": [1.5, -2.0]}
REPLAY: dict[str, Array] = {
    "frames": np.arange(6, dtype=np.uint8),
    "full": np.array([True, False]),
}


def holding(replay: dict[str, Array]) -> Callable[[Path], None]:
    """Return what writes these arrays as one file of a replay."""
    return lambda folder: write_arrays(folder / "replay.npz", replay)


HOLDING = holding(REPLAY)


def written(directory: Path, **settings: Any) -> Path:
    """Write a checkpoint of step 1."""
    return CheckpointWriter(directory, 1).write(1, ARRAYS, FACTS, **settings)


def steps(directory: Path) -> list[int]:
    return [step_of(path) for path in all_checkpoints(directory)]


def test_every_dtype_shape_and_order_comes_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {"transposed": rng.normal(size=(3, 5)).T, "strided": np.arange(9)[::2]}
    for kind in ("?", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"):
        for shape in ((), (0,), (3, 0, 2), (7,), (2, 3, 4)):
            array = rng.integers(0, 2**16, shape).astype(np.float64)
            arrays[f"{kind}/{shape}"] = (array % 120).astype(kind)
    arrays["file"] = np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max])
    arrays["big-endian ünïcode"] = np.arange(4, dtype=">f4")
    arrays["extremes"] = np.array([5e-324, 1.7976931348623157e308, -0.0])
    read = load_checkpoint(CheckpointWriter(tmp_path, 1).write(3, arrays, {})).arrays
    assert list(read) == list(arrays)
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype
        assert read[name].shape == array.shape
        assert read[name].tobytes() == array.tobytes(), name
        assert read[name].flags.writeable
    assert load_checkpoint(CheckpointWriter(tmp_path, 1).write(4, {}, {})).arrays == {}


def test_facts_come_back_exactly(tmp_path: Path) -> None:
    facts = {
        "generator": np.random.default_rng(1).bit_generator.state,
        "floats": [0.1, 1 / 3, 5e-324, -0.0, 1e300, float(np.float32(0.1))],
        "best": -np.inf,
        "window": [np.inf, None, True, "NaN", "a\n\N{GRINNING FACE} ü \ud800"],
        "large": 2**200,
    }
    path = CheckpointWriter(tmp_path, 1).write(0, ARRAYS, facts)
    checkpoint = load_checkpoint(path)
    assert checkpoint.path == path
    assert repr(checkpoint.facts) == repr(facts)
    np.random.default_rng().bit_generator.state = checkpoint.facts["generator"]


@pytest.mark.parametrize(
    ("arrays", "facts"),
    [
        ({}, {"a": [{"b": float("nan")}]}),
        ({"a": np.array([1, np.nan])}, {}),
        ({"a": np.array(-np.inf, np.float16)}, {}),
        ({"a": np.array(["text"])}, {}),
        ({"a": np.array([None])}, {}),
        ({"a": np.array(1j)}, {}),
    ],
)
def test_what_cannot_be_loaded_is_not_written(
    tmp_path: Path, arrays: Any, facts: Any
) -> None:
    writer = CheckpointWriter(tmp_path, 1)
    old = writer.write(1, ARRAYS, FACTS)
    with pytest.raises(ValueError, match=r"NaN|finite|array of"):
        writer.write(2, arrays, facts)
    assert names(tmp_path) == [old.name]
    assert load_checkpoint(old).facts == FACTS


def test_a_checkpoint_says_what_it_is(tmp_path: Path) -> None:
    path = CheckpointWriter(tmp_path / "deep" / "down", 1).write(12345, ARRAYS, FACTS)
    assert path == tmp_path / "deep" / "down" / "step-000000012345"
    assert names(path) == ["arrays.npz", "facts.json", "manifest.json"]
    manifest = json.loads((path / "manifest.json").read_bytes())
    assert manifest.items() >= {"format": 6, "step": 12345, "is_best": False}.items()
    for name in ("arrays.npz", "facts.json"):
        data = (path / name).read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        assert manifest["files"][name] == {"size": len(data), "sha256": digest}
    with np.load(path / "arrays.npz", allow_pickle=False) as arrays:
        assert arrays["optimizer/0"] == 7


def test_the_last_and_the_best_stay(tmp_path: Path) -> None:
    writer = CheckpointWriter(tmp_path, 2)
    assert (best_checkpoint(tmp_path), newest_valid(tmp_path), steps(tmp_path)) == (
        None,
        None,
        [],
    )
    stay = {1: [1], 2: [2, 1], 3: [3, 2], 4: [4, 3, 2], 5: [5, 4, 2], 6: [6, 5, 2]}
    stay |= {7: [7, 6], 8: [8, 7], 9: [9, 8, 7], 10**12: [10**12, 9, 7]}
    for step, expected in stay.items():
        path = writer.write(step, ARRAYS, FACTS, is_best=step in (2, 7))
        assert newest_valid(tmp_path) == path
        assert steps(tmp_path) == expected
    newest_best = best_checkpoint(tmp_path)
    assert newest_best is not None
    assert newest_best.name == "step-000000000007"
    assert len(names(tmp_path)) == 3
    with pytest.raises(ValueError, match="keep must be 1"):
        CheckpointWriter(tmp_path, 0)


def test_the_same_step_again_takes_the_place_and_the_mark(tmp_path: Path) -> None:
    writer = CheckpointWriter(tmp_path, 1)
    writer.write(1, ARRAYS, {"n": 1}, is_best=True)
    path = writer.write(1, {}, {"n": 2})
    assert load_checkpoint(path).facts == {"n": 2}
    assert best_checkpoint(tmp_path) == path
    writer.write(2, ARRAYS, {"n": 3})
    writer.write(2, ARRAYS, {"n": 4}, is_best=True)
    assert names(tmp_path) == ["step-000000000002"]
    assert load_checkpoint(tmp_path / "step-000000000002").facts == {"n": 4}


def test_a_run_that_goes_back_leaves_what_was_later(tmp_path: Path) -> None:
    writer = CheckpointWriter(tmp_path, 3)
    for step in (10, 20, 30):
        writer.write(step, ARRAYS, FACTS, is_best=step == 30)
    damaged = tmp_path / "step-000000000030" / "arrays.npz"
    damaged.write_bytes(b"")
    assert newest_valid(tmp_path) == tmp_path / "step-000000000020"
    CheckpointWriter(tmp_path, 3, start=20).write(25, ARRAYS, FACTS)
    assert steps(tmp_path) == [25, 20, 10]


@pytest.mark.parametrize("step", [25, 30, 35])
def test_a_later_best_of_an_earlier_run_is_dropped(tmp_path: Path, step: int) -> None:
    """Wherever the first checkpoint is, and not before it is there."""
    writer = CheckpointWriter(tmp_path, 3)
    for earlier in (10, 20, 30):
        mean = float(earlier)
        writer.write(earlier, ARRAYS, FACTS, is_best=earlier != 20, evaluation=mean)
    writer = CheckpointWriter(tmp_path, 3, start=20)
    assert steps(tmp_path) == [30, 20, 10]
    path = writer.write(step, ARRAYS, FACTS)
    assert steps(tmp_path) == [step, 20, 10] and best_evaluation(path) is None
    assert best_checkpoint(tmp_path) == writer.path(10)
    writer.write(40, ARRAYS, FACTS, is_best=True)
    writer.write(step, ARRAYS, FACTS)  # ends late; the later one is this run's
    assert steps(tmp_path) == [40, step, 20]


def test_only_the_newest_holds_the_replay(tmp_path: Path) -> None:
    writer = CheckpointWriter(tmp_path, 3)
    first = writer.write(1, ARRAYS, FACTS, is_best=True, write_replay=HOLDING)
    (file,) = replay_files(first)
    for name, array in read_replay(file).items():
        np.testing.assert_array_equal(array, REPLAY[name], strict=True)

    def shards(folder: Path) -> None:
        for index in range(3):
            write_arrays(folder / f"shard-{index}.npz", {"index": np.array(index)})

    second = writer.write(2, ARRAYS, FACTS, write_replay=shards, replay_nbytes=3000)
    assert [p.name for p in replay_files(second)] == [f"shard-{i}.npz" for i in "012"]
    assert [int(read_replay(p)["index"]) for p in replay_files(second)] == [0, 1, 2]
    assert replay_files(first) == []
    assert names(first) == ["arrays.npz", "facts.json", "manifest.json"]
    assert load_checkpoint(first).facts == FACTS
    writer.write(3, ARRAYS, FACTS)  # on a signal: the replay is not lost for it
    assert len(replay_files(second)) == 3


def test_a_replay_is_read_into_arrays(tmp_path: Path) -> None:
    (file,) = replay_files(
        CheckpointWriter(tmp_path, 1).write(1, {}, {}, write_replay=HOLDING)
    )
    into = {name: np.zeros_like(array) for name, array in REPLAY.items()}
    read = read_replay(file, into)
    for name in REPLAY:
        assert read[name] is into[name]
        np.testing.assert_array_equal(into[name], REPLAY[name])
    for wrong, message in [
        ({**into, "frames": np.zeros(7, np.uint8)}, r"uint8 \(6,\), expected .*\(7,\)"),
        ({**into, "frames": np.zeros(6, np.int8)}, "expected int8"),
        ({**into, "more": np.zeros(1)}, "'more' is missing"),
        ({"frames": into["frames"]}, "'full' is not expected"),
    ]:
        with pytest.raises(UserError, match=message):
            read_replay(file, wrong)
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(UserError, match=r"replay\.npz can't be used"):
        read_replay(file, into)
    assert load_checkpoint(file.parent.parent).facts == {}


def test_a_replay_that_fails_leaves_nothing(tmp_path: Path) -> None:
    writer = CheckpointWriter(tmp_path, 1)
    old = writer.write(1, ARRAYS, FACTS)

    def dies(folder: Path) -> None:
        write_arrays(folder / "shard.npz", REPLAY)
        raise KeyboardInterrupt

    def links(folder: Path) -> None:
        (folder / "shard.npz").symlink_to("/etc/hostname")

    def nests(folder: Path) -> None:
        (folder / "folder").mkdir()

    for write in (dies, links, nests):
        with pytest.raises((KeyboardInterrupt, OSError, ValueError)):
            writer.write(2, ARRAYS, FACTS, write_replay=write)
        assert names(tmp_path) == [old.name]


def test_what_killed_writers_left_is_removed(tmp_path: Path) -> None:
    writer = CheckpointWriter(tmp_path, 2)
    path = writer.write(1, ARRAYS, FACTS)
    shutil.copytree(path, tmp_path / ".aside-01234567")
    (tmp_path / ".aside-link").symlink_to(path)
    (tmp_path / "step-000000000001~").mkdir()
    new = writer.write(2, ARRAYS, {"n": 1}, is_best=True)
    old = new.rename(tmp_path / "step-000000000002~")
    (tmp_path / "notes.txt").write_text("mine")
    assert newest_valid(tmp_path) == old
    writer = CheckpointWriter(tmp_path, 2, start=2)
    assert newest_valid(tmp_path) == old
    assert load_checkpoint(old).facts == {"n": 1}
    assert names(tmp_path) == ["notes.txt", path.name, old.name]
    assert writer.write(2, ARRAYS, {"n": 2}) == new
    assert names(tmp_path) == ["notes.txt", path.name, new.name]
    assert best_checkpoint(tmp_path) == new
    assert load_checkpoint(new).facts == {"n": 2}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", "4m") as disk:
        yield disk


MEGABYTE = {"a": np.ones(1_000_000, np.uint8)}


def test_a_disk_without_room_is_not_touched(small_disk: Path) -> None:
    writer = CheckpointWriter(small_disk / "checkpoints", 9)
    for step in (1, 2, 3, 4):
        old = writer.write(step, MEGABYTE, FACTS)
    before = {p: p.stat().st_mtime_ns for p in small_disk.rglob("*")}
    for arrays, nbytes in ((MEGABYTE, 0), (MEGABYTE, 10**9), (ARRAYS, 10**6)):
        with pytest.raises(OSError, match="No space left") as raised:
            writer.write(5, arrays, FACTS, replay_nbytes=nbytes)
        assert raised.value.errno == errno.ENOSPC
    assert {p: p.stat().st_mtime_ns for p in small_disk.rglob("*")} == before
    assert newest_valid(small_disk / "checkpoints") == old
    assert load_checkpoint(writer.write(5, ARRAYS, FACTS)).facts == FACTS


def test_a_disk_that_fills_up_while_writing(small_disk: Path) -> None:
    writer = CheckpointWriter(small_disk, 2)
    old = writer.write(1, MEGABYTE, FACTS, write_replay=holding(MEGABYTE))
    free = shutil.disk_usage(small_disk).free

    def write_too_much(folder: Path) -> None:
        write_arrays(folder / "shard.npz", {"a": np.ones(10**7, np.uint8)})

    def fill_the_rest(folder: Path) -> None:
        write_arrays(folder / "shard.npz", REPLAY)
        nbytes = shutil.disk_usage(small_disk).free - 500_000
        (small_disk / "other").write_bytes(bytes(nbytes))

    for write in (write_too_much, fill_the_rest):
        with pytest.raises(OSError, match="No space left") as raised:
            writer.write(2, MEGABYTE, FACTS, write_replay=write)
        assert raised.value.errno == errno.ENOSPC
        (small_disk / "other").unlink(missing_ok=True)
        assert names(small_disk) == [old.name]
        assert shutil.disk_usage(small_disk).free == free
        assert newest_valid(small_disk) == old
        assert read_replay(replay_files(old)[0])["a"].all()
    assert newest_valid(small_disk) == old
    assert load_checkpoint(writer.write(2, MEGABYTE, FACTS)).facts == FACTS


def test_a_read_only_disk(small_disk: Path) -> None:
    path = written(small_disk)
    (small_disk / ".aside-1").mkdir()
    options = ["mount", "-o", "remount,ro", str(small_disk)]
    subprocess.run(options, check=True)
    writer = CheckpointWriter(small_disk, 1)
    for step in (1, 2):
        with pytest.raises(OSError, match="Read-only"):
            writer.write(step, ARRAYS, FACTS)
    assert newest_valid(small_disk) == path


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for directory in (tmp_path / "file", tmp_path / "file" / "checkpoints"):
        with pytest.raises(OSError, match="file"):
            written(directory)
        assert newest_valid(directory) is None


def test_damaged_checkpoints_are_skipped_and_named(tmp_path: Path) -> None:
    writer = CheckpointWriter(tmp_path, 3)
    writer.write(1, ARRAYS, FACTS)
    new = writer.write(2, ARRAYS, FACTS)
    (new / "facts.json").write_text("{}")
    found, skipped = load_newest(tmp_path)
    assert found.path.name == "step-000000000001"
    (said,) = skipped
    assert said.startswith(f"Skipped a damaged checkpoint: {new}/facts.json")
    (found.path / "arrays.npz").unlink()
    with pytest.raises(UserError, match="no other checkpoint beside it is valid"):
        load_newest(tmp_path)


def test_advice(tmp_path: Path) -> None:
    writer = CheckpointWriter(tmp_path, 3)
    old = writer.write(1, ARRAYS, FACTS)
    new = writer.write(2, ARRAYS, FACTS)
    (new / "facts.json").write_text("{}")
    with pytest.raises(UserError) as raised:
        load_checkpoint(new, "resume with --resume")
    assert str(raised.value) == (
        f"{new}/facts.json can't be used (it has 2 bytes, 40 were written): "
        f"resume with --resume {old}, the newest valid one."
    )
    (old / "arrays.npz").unlink()
    with pytest.raises(UserError) as raised:
        load_checkpoint(old)
    assert str(raised.value) == (
        f"{old}/arrays.npz is missing: no other checkpoint beside it is valid; "
        "start over or restore a copy."
    )
    with pytest.raises(UserError, match=r"nothing/manifest\.json is missing"):
        load_checkpoint(tmp_path / "nothing")


def reseal(path: Path, **entries: Any) -> None:
    """Let a manifest fit its directory's files again, as a forger would."""
    manifest = json.loads((path / "manifest.json").read_bytes())
    for name in manifest["files"]:
        data = (path / name).read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        manifest["files"][name] = {"size": len(data), "sha256": digest}
    (path / "manifest.json").write_text(json.dumps(manifest | entries))


def npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def npz(*members: bytes, compression: int = 0) -> bytes:
    """Return an archive, all of its members named a.npy."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for data in members:
            archive.writestr("a.npy", data)
    return file.getvalue()


def nested(data: bytes) -> bytes:
    """Return an archive with a member inside another's data, read twice."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("a.npy", data)
        (info,), end = archive.infolist(), inner.tell()
    outer = npy(SHAPE % ("|u1", f"({end},)"), inner.getvalue()[:end])
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("outer.npy", outer)
        info.header_offset = file.tell() - end
        archive.filelist.append(info)
    return file.getvalue()


SHAPE = "{'descr': '%s', 'fortran_order': False, 'shape': %s}\n"
FORGERIES = {
    "no zip": b"PK",
    "huge shape": npz(npy(SHAPE % ("<f4", "(1099511627776, 9)"))),
    "huge and empty": npz(npy(SHAPE % ("<f4", f"({2**62}, {2**62}, 0)"))),
    "negative": npz(npy(SHAPE % ("|u1", "(-1, -1)"), b"a")),
    "many axes": npz(npy(SHAPE % ("|u1", "(1,)" * 1 + " * 99"), b"a")),
    "short": npz(npy(SHAPE % ("<f4", "(2,)"), b"1234")),
    "long": npz(npy(SHAPE % ("<f4", "(1,)"), b"12345678")),
    "objects": npz(npy(SHAPE % ("|O", "(1,)"), b"\x80\x04N.")),
    "code": npz(npy("__import__('os').abort()")),
    "deep": npz(npy("(" * 9000 + ")" * 9000)),
    "python 2": npz(npy(SHAPE % ("<f4", "(1L,)"), b"1234")),
    "no header": npz(b""),
    "compressed bomb": npz(bytes(10**7), compression=zipfile.ZIP_DEFLATED),
    "overlapping": nested(npy(SHAPE % ("|u1", "(9999,)"), bytes(9999))),
    "nan": npz(npy(SHAPE % ("<f8", "()"), b"\xff" * 8)),
}


@pytest.mark.parametrize("data", FORGERIES.values(), ids=FORGERIES)
def test_forged_arrays_are_refused(tmp_path: Path, data: bytes) -> None:
    path = written(tmp_path, write_replay=HOLDING)
    (path / "arrays.npz").write_bytes(data)
    reseal(path)
    with pytest.raises(UserError, match=r"arrays\.npz can't be used") as raised:
        load_checkpoint(path)
    assert "\n" not in str(raised.value)
    assert newest_valid(tmp_path) is None


def test_an_array_named_twice_is_refused(tmp_path: Path) -> None:
    path, member = written(tmp_path), npy(SHAPE % ("<f4", "(1,)"), b"1234")
    with pytest.warns(UserWarning, match="Duplicate"):
        (path / "arrays.npz").write_bytes(npz(member, member))
    reseal(path)
    with pytest.raises(UserError, match="'a' is not expected"):
        load_checkpoint(path)


@pytest.mark.parametrize(
    "text", ["[]", "NaN", '{"a": NaN}', "", "{", "[" * 10**5, "9" * 10**4, "\x00"]
)
def test_forged_facts_are_refused(tmp_path: Path, text: str) -> None:
    path = written(tmp_path)
    (path / "facts.json").write_text(text)
    reseal(path)
    with pytest.raises(UserError, match=r"facts\.json can't be used"):
        load_checkpoint(path)


def with_statistics(directory: Path, told: Any) -> Path:
    """Write a checkpoint with what a wrapper of one number measured."""
    arrays = {**ARRAYS, "policy/wrapper-0/mean": np.zeros(1)}
    facts = {"progress": {"statistics": {"wrapper-0": told}}}
    return CheckpointWriter(directory, 1).write(1, arrays, facts)


@pytest.mark.parametrize(
    "told",
    [
        [2.0, [[0.0], [0.0]], [[1.0], [1.0]]],
        [2.0, 0.0, 1.0],
        [2.0, [0.0], [1.0, 1.0]],
        [2.0, [np.inf], [1.0]],
        [np.inf, [0.0], [1.0]],
        [2.0, ["x"], [1.0]],
        [2.0, [0.0]],
        3,
    ],
)
def test_statistics_that_do_not_fit_are_refused(tmp_path: Path, told: Any) -> None:
    """Merged with arrays of another shape, they would make larger ones."""
    fitting = with_statistics(tmp_path / "fitting", [2.0, [0.0], [1.0]])
    assert load_checkpoint(fitting).facts["progress"]
    path = with_statistics(tmp_path / "other", told)
    with pytest.raises(UserError, match="step-000000000001 can't be used"):
        load_checkpoint(path)


@pytest.mark.parametrize(
    "name", ["../../secret", "/etc/hostname", "..", ".", "", "a/b", "a\0", "manifest"]
)
def test_names_outside_are_refused(tmp_path: Path, name: str) -> None:
    runs = tmp_path / "runs"
    (tmp_path / "secret").write_text("{}")
    path = written(runs, write_replay=HOLDING)
    for folder, read in ((path, load_checkpoint), (path / "replay", replay_files)):
        manifest = json.loads((folder / "manifest.json").read_bytes())
        entry = {"size": 2, "sha256": hashlib.sha256(b"{}").hexdigest()}
        manifest["files"][name] = entry
        (folder / "manifest.json").write_text(json.dumps(manifest))
        if read is replay_files and name == "manifest":
            with pytest.raises(UserError, match="missing"):
                read_replay(folder / name)
            continue
        with pytest.raises(UserError, match=r"manifest\.json can't be used"):
            read(path)


def test_links_and_pipes_are_not_followed(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    path = written(runs, write_replay=HOLDING)
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    for name in ("arrays.npz", "facts.json", "manifest.json"):
        (path / name).unlink()
        (path / name).symlink_to(copy / name)
        with pytest.raises(UserError, match=f"{name} can't be used"):
            load_checkpoint(path)
        (path / name).unlink()
        os.mkfifo(path / name)
        with pytest.raises(UserError, match=f"{name} can't be used .*not a regular"):
            load_checkpoint(path)
        (path / name).unlink()
        shutil.copy(copy / name, path)
    shutil.rmtree(path / "replay")
    (path / "replay").symlink_to(copy / "replay")
    with pytest.raises(UserError, match="symbolic link"):
        replay_files(path)
    (runs / "step-000000000009").symlink_to(copy)
    assert all_checkpoints(runs) == [path]
    CheckpointWriter(runs, 1).write(9, ARRAYS, FACTS)
    assert names(runs) == ["step-000000000009"]
    assert names(copy) == ["arrays.npz", "facts.json", "manifest.json", "replay"]
    assert load_checkpoint(copy).facts == FACTS


@pytest.mark.parametrize(
    "change",
    [
        {"step": 2},
        {"step": "1"},
        {"is_best": 1},
        {"files": {}},
        {"files": []},
        {"files": {"arrays.npz": None}},
        {"files": {"arrays.npz": {"size": "1", "sha256": "0" * 64}}},
        {"files": {"arrays.npz": {"size": 1, "sha256": 5}}},
        {"files": {"arrays.npz": {"size": 1}}},
    ],
)
def test_edited_manifests_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    path = written(tmp_path)
    reseal(path, **change)
    with pytest.raises(UserError, match=r"manifest\.json can't be used"):
        load_checkpoint(path)


DAMAGES = st.tuples(
    st.sampled_from(["flip", "cut", "insert", "delete", "folder", "text"]),
    st.integers(0, 2**20),
    st.binary(min_size=1),
)
PARTS = "manifest.json arrays.npz facts.json replay/manifest.json replay/replay.npz"


def damage(file: Path, kind: str, at: int, data: bytes) -> None:
    old = file.read_bytes() if file.exists() else b""
    at %= len(old) + 1
    file.unlink(missing_ok=True)
    if kind == "folder":
        file.mkdir()
    elif kind == "text":
        file.write_bytes(data)
    elif kind == "cut":
        file.write_bytes(old[:at])
    elif kind == "insert":
        file.write_bytes(old[:at] + data + old[at:])
    elif kind == "flip":
        mixed = bytes(a ^ b for a, b in zip(old[at:], data, strict=False))
        file.write_bytes(old[:at] + mixed + old[at + len(mixed) :])


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("fuzz") / "pristine"
    written(directory, write_replay=HOLDING)
    return directory


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(PARTS.split()), DAMAGES, st.booleans())
def test_damage_is_an_error_of_the_user_or_harmless(
    pristine: Path, name: str, change: tuple[str, int, bytes], resealed: bool
) -> None:
    runs = pristine.parent / "runs"
    shutil.rmtree(runs, ignore_errors=True)
    shutil.copytree(pristine, runs)
    path = runs / "step-000000000001"
    damage(path / name, *change)
    resealed &= "manifest" not in name and change[0] in ("flip", "cut", "insert")
    if resealed:
        reseal((path / name).parent)
    outside = sorted(p for p in pristine.parent.rglob("*") if runs not in p.parents)
    try:
        checkpoint = load_checkpoint(path)
    except UserError as error:
        assert re.fullmatch(r"[^\n]+\.", str(error))
        assert newest_valid(runs) is None
    else:
        assert checkpoint.arrays.keys() == ARRAYS.keys() or resealed
        assert checkpoint.facts == FACTS or resealed
        assert newest_valid(runs) == path
    try:
        for file in replay_files(path):
            for name, array in read_replay(file).items():
                assert resealed or np.array_equal(array, REPLAY[name])
    except UserError as error:
        assert "\n" not in str(error)
    new = CheckpointWriter(runs, 1).write(2, ARRAYS, FACTS, write_replay=HOLDING)
    assert newest_valid(runs) == new
    assert names(new.parent)[-1] == new.name
    found = sorted(p for p in pristine.parent.rglob("*") if runs not in p.parents)
    assert found == outside


def test_bytes_are_replaced_at_once(tmp_path: Path) -> None:
    file, outside = tmp_path / "runs" / "summary.json", tmp_path / "outside"
    file.parent.mkdir()
    outside.write_text("mine")
    replace_bytes(file, b"one")
    (file.parent / ".summary.json.new").symlink_to(outside)
    replace_bytes(file, b"two")
    assert file.read_bytes() == b"two"
    assert names(file.parent) == ["summary.json"]
    file.unlink()
    file.symlink_to(outside)
    replace_bytes(file, b"three")
    assert file.read_bytes() == b"three"
    assert outside.read_text() == "mine"
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    with pytest.raises(OSError, match="folder"):
        replace_bytes(tmp_path / "folder", b"")
    assert names(tmp_path) == ["folder", "outside", "runs"]


@pytest.mark.parametrize(("size", "limit"), [(20e6, 0.1), (100e3, 0.01)])
def test_writing_takes_little_time(size: float, limit: float) -> None:
    """In memory, where a sync costs nothing; other jobs' time doesn't count."""
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("there is no directory in memory")
    rng = np.random.default_rng(0)
    arrays = {
        f"layer-{i}": rng.random(int(size / 4 / 30), np.float32) for i in range(30)
    }

    def seconds(writer: CheckpointWriter, step: int) -> float:
        began = time.process_time()
        writer.write(step, arrays, FACTS)
        return time.process_time() - began

    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        writer = CheckpointWriter(Path(folder), 3)
        each = ([seconds(writer, step) for step in range(5)] for _ in range(6))
        assert min(map(statistics.median, each)) <= limit
