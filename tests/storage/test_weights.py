"""Weights files without TensorFlow: paths, bytes, .npz, what fits a network."""

import io
import os
import random
import signal
import time
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import assert_same
from processes import start

from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import WeightsFile
from xagents_ray.networks.matching import match_arrays
from xagents_ray.networks.reading import layout_for
from xagents_ray.storage.weights import (
    decode_npz,
    encode_npz,
    file_kind,
    read_file,
    readable_kind,
    write_file,
)

ARRAYS: dict[str, Any] = {
    "dense-0/kernel": np.arange(6, dtype=np.float32).reshape(2, 3),
    "dense-0/bias": np.full(3, 0.5, np.float32),
    "observation/mean": np.full((), 1 / 3),
}
SHAPES = {"dense-0/kernel": (2, 3), "dense-0/bias": (3,)}
MEAN: dict[str, tuple[int, ...]] = {"observation/mean": ()}
DATA, INDEX = ".data-00000-of-00001", ".index"


def npz(data: bytes, path: str = "w.npz") -> WeightsFile:
    return WeightsFile(path, {"": data})


def refused(data: bytes) -> str:
    with pytest.raises(UserError) as caught:
        decode_npz(npz(data))
    assert str(caught.value).startswith("w.npz")
    return str(caught.value)


def test_kinds() -> None:
    assert (
        file_kind("a/b.tf")
        == file_kind("b.tf.index")
        == file_kind(f"b.tf{DATA}")
        == ".tf"
    )
    assert file_kind("b.weights.h5") == ".weights.h5"
    assert file_kind("b.npz") == ".npz"
    assert file_kind("b.keras") == readable_kind("b.keras") == ".keras"
    assert readable_kind("b.h5") == ".h5"
    for path in ("b.h5", "b", "b.index", "b.tf.meta", ""):
        with pytest.raises(UserError, match=r"\.tf, \.weights\.h5, \.npz or \.keras"):
            file_kind(path)


@pytest.mark.parametrize("path", ["a.npz", "a.weights.h5", "new/folder/a.npz"])
def test_one_part(path: str, tmp_path: Path) -> None:
    file = WeightsFile(str(tmp_path / path), {"": b"first"})
    write_file(file)
    assert read_file(file.path) == file
    write_file(npz(b"second", file.path))
    assert read_file(file.path).files == {"": b"second"}
    assert len(os.listdir(Path(file.path).parent)) == 1


def test_two_parts(tmp_path: Path) -> None:
    file = WeightsFile(str(tmp_path / "a.tf"), {INDEX: b"index", DATA: b"data"})
    write_file(file)
    assert sorted(os.listdir(tmp_path)) == [f"a.tf{DATA}", "a.tf.index"]
    assert (tmp_path / "a.tf.index").read_bytes() == b"index"
    for named in ("a.tf", "a.tf.index", f"a.tf{DATA}"):
        assert read_file(str(tmp_path / named)) == file


def both(content: bytes) -> dict[str, bytes]:
    return {INDEX: content, DATA: content}


def test_killed_between_the_two_renames(tmp_path: Path) -> None:
    """New data in place, the new index beside it: that is the new file."""
    path = str(tmp_path / "a.tf")
    write_file(WeightsFile(path, both(b"old")))
    (tmp_path / f"a.tf{DATA}").write_bytes(b"new")
    (tmp_path / ".a.tf.index.new").write_bytes(b"new")
    assert read_file(path).files == both(b"new")
    with pytest.raises(TypeError):  # a writer that fails at once
        write_file(WeightsFile(path, {DATA: None, INDEX: b""}))  # type: ignore
    assert read_file(path).files == both(b"new")
    write_file(WeightsFile(path, both(b"newer")))
    assert read_file(path).files == both(b"newer")
    assert sorted(os.listdir(tmp_path)) == [f"a.tf{DATA}", "a.tf.index"]


@pytest.mark.parametrize("written", [[DATA], [DATA, INDEX]], ids=["data", "both"])
def test_killed_before_the_renames(written: list[str], tmp_path: Path) -> None:
    path = str(tmp_path / "a.tf")
    write_file(WeightsFile(path, both(b"old")))
    for suffix in written:
        (tmp_path / f".a.tf{suffix}.new").write_bytes(b"half")
    assert read_file(path).files == both(b"old")
    write_file(WeightsFile(path, both(b"new")))
    assert read_file(path).files == both(b"new")
    assert len(os.listdir(tmp_path)) == 2


_WRITER = """
import itertools, sys, time
import numpy as np
from xagents_ray.core.trajectory import WeightsFile
from xagents_ray.storage.weights import encode_npz, write_file
began = time.perf_counter()
for i in itertools.count():
    array = np.full(20_000, i % 2, np.float32)
    write_file(WeightsFile(sys.argv[1] + "/a.npz", encode_npz({"x": array})))
    part = bytes([i % 2]) * 20_000
    parts = {".index": part, ".data-00000-of-00001": part}
    write_file(WeightsFile(sys.argv[1] + "/a.tf", parts))
    if i == 0:
        print(time.perf_counter() - began, flush=True)
"""


def test_killed_writers_leave_whole_files(tmp_path: Path) -> None:
    seen = set()
    for _ in range(20):
        with start("-c", _WRITER, str(tmp_path)) as writer:
            seconds = float(writer.stdout.readline())  # of both files
            time.sleep(random.uniform(0, 4 * seconds))
            writer.send_signal(signal.SIGKILL)
        array = decode_npz(read_file(str(tmp_path / "a.npz")))["x"]
        assert len(array) == 20_000
        assert len(set(array.tolist())) == 1
        parts = read_file(str(tmp_path / "a.tf")).files
        assert parts[INDEX] == parts[DATA]
        assert len(parts[INDEX]) == 20_000
        seen.add(parts[INDEX][0])
    assert seen == {0, 1}
    assert len(os.listdir(tmp_path)) <= 6  # leftovers don't pile up


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = str(tmp_path / "a.npz")
    write_file(npz(b"old", path))
    (tmp_path / ".a.npz.new").mkdir()
    with pytest.raises(OSError, match=r"\.a\.npz\.new"):
        write_file(npz(b"new", path))
    assert read_file(path).files == {"": b"old"}
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError):
        write_file(npz(b"new", str(tmp_path / "file" / "a.npz")))


def message(path: Path | str) -> str:
    with pytest.raises(UserError) as caught:
        read_file(str(path))
    text = str(caught.value)
    shown = str(path).removesuffix(".index").replace("\0", r"\x00")
    assert text.startswith(shown)
    assert "\n" not in text
    return text


def test_missing_files(tmp_path: Path) -> None:
    assert "no such weights file; give the path" in message(tmp_path / "no" / "a.npz")
    for name in ("best-1.npz", f"best.tf{DATA}", "best.tf.index", "notes.txt"):
        (tmp_path / name).write_bytes(b"x")
    assert "did you mean best-1.npz" in message(tmp_path / "best-2.npz")
    assert "did you mean best.tf?" in message(tmp_path / "bes.tf.index")
    (tmp_path / f"best.tf{DATA}").unlink()
    text = message(tmp_path / "best.tf")
    assert f"best.tf{DATA} is missing; copy both files" in text


def test_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / "a.npz").mkdir()
    assert "can't be read (Is a directory)" in message(tmp_path / "a.npz")
    (tmp_path / "a.tf").mkdir()
    assert "a directory, not a weights file" in message(tmp_path / "a.tf")
    (tmp_path / "a.tf.index").mkdir()
    (tmp_path / f"a.tf{DATA}").mkdir()
    assert "can't be read" in message(tmp_path / "a.tf")
    assert "can't be read" in message("null\0byte.npz")
    assert "can't be read" in message("x" * 300 + ".npz")


def test_npz_round_trip() -> None:
    data = encode_npz(ARRAYS)
    assert_same(decode_npz(npz(data[""])), ARRAYS)
    with np.load(io.BytesIO(data[""]), allow_pickle=False) as plain:
        assert_same(dict(plain), ARRAYS)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_of_numpy(save: Any) -> None:
    """Other dtypes, byte orders and memory orders than ours."""
    arrays = {
        "a": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "b": np.arange(4, dtype=">f4"),
        "c": np.arange(3),
        "d": np.zeros((0, 2), np.float16),
    }
    out = io.BytesIO()
    save(out, **arrays)
    assert_same(decode_npz(npz(out.getvalue())), arrays)


def archive(content: bytes, compression: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as file:
        file.writestr("x.npy", content)
    return out.getvalue()


def saved(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not an array",
        saved(np.zeros(3)).replace(b"(3,)", b"(4,)"),
        saved(np.zeros(3)).replace(b"(3,), ", b"(-3,),"),
        saved(np.zeros(9)).replace(b"(9,), }            ", b"(999999999999,), } "),
        saved(np.array(["text"])),
        saved(np.array([None], object)),
        saved(np.zeros(2, [("a", "f4")])),
    ],
    ids="empty text shape negative absurd string object record".split(),
)
def test_npz_of_other_things(content: bytes) -> None:
    assert "not a .npz weights file" in refused(archive(content))


def test_npz_never_unpickles() -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return exec, ("raise SystemExit",)

    refused(archive(saved(np.array([Trap()], object))))


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_npz_bombs(method: int) -> None:
    """Neither what the directory says nor what it hides is allocated."""
    bomb = archive(saved(np.zeros(20_000_000, np.uint8)), method)
    at = bomb.rindex(b"PK\x01\x02")
    lying = bomb[: at + 24] + (500).to_bytes(4, "little") + bomb[at + 28 :]
    for data in (bomb, lying):
        tracemalloc.start()
        refused(data)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
        tracemalloc.stop()


@settings(deadline=None, max_examples=300)
@given(
    st.binary(max_size=3), st.integers(0, 700), st.integers(0, 40), st.integers(0, 700)
)
def test_damaged_npz(new: bytes, at: int, cut: int, end: int) -> None:
    """Bytes replaced, inserted and cut: refused, or the very same arrays."""
    data = encode_npz(ARRAYS)[""]
    damaged = (data[:at] + new + data[at + cut :])[: len(data) - max(0, end - 600)]
    try:
        arrays, _ = match_arrays(decode_npz(npz(damaged)), SHAPES, MEAN, "w.npz")
    except UserError as error:
        assert "\n" not in str(error)
    else:
        assert_same({**arrays, **{n: ARRAYS[n] for n in MEAN}}, ARRAYS)


@pytest.mark.parametrize("data", [b"", b"PK", b"x" * 1000, bytes(1000)])
def test_foreign_bytes(data: bytes) -> None:
    refused(data)


def test_shapes() -> None:
    grey = EnvSpec((84, 84), "uint8", 4, 6)
    kernels = {
        "convolutional-0": (8, 8, 4, 32),
        "convolutional-1": (4, 4, 32, 64),
        "convolutional-2": (3, 3, 64, 64),
        "dense-0": (3136, 512),
        "dense-1": (512, 6),
    }
    expected = {f"{name}/kernel": shape for name, shape in kernels.items()}
    expected |= {f"{name}/bias": shape[-1:] for name, shape in kernels.items()}
    assert layout_for(None, "q-{kind}.cfg", grey, [6]).shapes == expected


def test_check_takes_what_fits() -> None:
    wide = {name: array.astype(np.float64) for name, array in ARRAYS.items()}
    arrays, notes = match_arrays(wide, SHAPES, MEAN, "w.npz")
    assert_same(arrays, ARRAYS)
    assert notes == []
    earlier = {"observation/mean": np.ones((), np.float32)}
    narrow, _ = match_arrays({**ARRAYS, **earlier}, SHAPES, MEAN, "w.npz")
    assert narrow["observation/mean"].dtype == np.float64
    arrays["dense-0/bias"][0] = 9  # its own, writable copy
    assert wide["dense-0/bias"][0] == 0.5


def test_check_without_extras() -> None:
    own = {name: ARRAYS[name] for name in SHAPES}
    extras = {"log_std": (2,), "action_scaling": (), **MEAN}
    arrays, notes = match_arrays(own, SHAPES, extras, "old.tf")
    added = {"log_std": np.zeros(2, np.float32), "action_scaling": np.float32(1)}
    assert_same(arrays, {**own, **added})
    assert notes == [
        "old.tf has no log_std; it starts at 0.",
        "old.tf doesn't say whether its actions are scaled; if it is older than "
        "--action-scaling, give --no-action-scaling unless bounds are -1 and 1.",
        "old.tf has no statistics of observations; they start from scratch.",
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"dense-0/bias": None},
            "has no dense-0/bias; --model and the network's other",
        ),
        ({"dense-1/bias": np.zeros(3)}, "has dense-1/bias, which this agent's"),
        ({"dense-0/kernel": np.zeros((3, 2))}, "is [3, 2], this agent's network needs"),
        ({"dense-0/kernel": np.zeros((3, 2))}, "needs [2, 3]"),
        ({"observation/mean": np.zeros(1)}, "observation/mean is [1]"),
        ({"action_scaling": np.ones(())}, "trained on continuous actions with --act"),
        ({"dense-0/bias": np.array([1, np.nan, 1])}, "dense-0/bias has numbers that"),
        ({"observation/mean": np.array(np.inf)}, "not finite"),
        ({"dense-0/bias": np.array([1, 1e300, 1])}, "not finite"),
    ],
)
def test_check_refuses(change: dict[str, Any], said: str) -> None:
    arrays = {k: v for k, v in {**ARRAYS, **change}.items() if v is not None}
    with pytest.raises(UserError) as caught:
        match_arrays(arrays, SHAPES, MEAN, "w.npz")
    assert str(caught.value).startswith("w.npz: ")
    assert said in str(caught.value)


@pytest.mark.parametrize(("channels", "stack"), [((), 4), ((), 1), ((3,), 4)])
def test_weights_of_another_number_of_frames_name_the_flag(
    channels: tuple[int, ...], stack: int
) -> None:
    """The reference's image networks see one frame."""
    other = 5 - stack
    of = [EnvSpec((84, 84, *channels), "uint8", n, 6) for n in (stack, other)]
    mine, theirs = (layout_for(None, "q-{kind}.cfg", spec, [6]) for spec in of)
    arrays = {name: np.zeros(s, np.float32) for name, s in theirs.shapes.items()}
    with pytest.raises(UserError, match=f"give --frame-stack {other}") as caught:
        match_arrays(arrays, mine.shapes, {}, "old.tf", mine)
    assert "--model" not in str(caught.value)
    kernel = "convolutional-1/kernel"  # another network is no other number of frames
    arrays = {name: np.zeros(s, np.float32) for name, s in mine.shapes.items()}
    arrays[kernel] = np.zeros((4, 4, 64, 64), np.float32)
    with pytest.raises(
        UserError, match="--model and the network's other settings must be"
    ):
        match_arrays(arrays, mine.shapes, {}, "old.tf", mine)
