"""Small files that ask for much: each reader refuses them in one sentence, at once.

Each reader has a row of such files, which are made here. What a format can't have is
missing in its row.
"""

import io
import json
import os
import shutil
import struct
import warnings
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from measured import measured, slowness

from xagents_ray.actors.envs.make import check_env
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.commands import cli
from xagents_ray.compat.model_reader import ModelReader
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import WeightsFile
from xagents_ray.learners.formats import tf_checkpoint  # noqa: F401 (not in the fork)
from xagents_ray.networks import keras_conversion, keras_models
from xagents_ray.run import weights_formats
from xagents_ray.run.prepare import with_own_names
from xagents_ray.settings.training import EnvConfig
from xagents_ray.storage.history_parts import COLUMNS
from xagents_ray.storage.run_directory import RunDirectory, _digest
from xagents_ray.storage.sealed import seal_directory

STORED = Path(__file__).parents[1] / "data/format-1/trained/ppo/Pendulum-v1/before"
LAYOUT = find_algorithm("ppo").layout(None, EnvSpec((4,), "float32", 1, 2))
SECONDS, MEMORY = 2.0, 300 << 20
"""What a reader may take: seconds of CPU and bytes."""
Call = Callable[[], int | None]
DEEP = 100_000
EVALUATE = ["evaluate", "ppo", "--env", "CartPole-v1", "--episodes", "1"]
MODEL = ["--weights", "gone.npz", "--model"]


def command(*words: str) -> Call:
    return lambda: cli.run(words)


def preset(text: str) -> Call:
    Path("own.yaml").write_text(text)
    return command(
        *"train ppo --env CartPole-v1 --max-steps 9 --local --preset".split(),
        "own.yaml",
    )


def config_file(text: str) -> Call:
    Path("own.yaml").write_text(text)
    return command(*"train --config own.yaml --local".split())


def resumed(change: Callable[[Path], None]) -> Call:
    """Return a command that resumes a run with changed files."""
    run = Path("run")
    if not run.exists():
        shutil.copytree(STORED, run)
    change(run)
    return command(*"train ppo --local --checkpoints a.npz --resume run".split())


def config(text: str) -> Call:
    def change(run: Path) -> None:
        data = text.encode()
        (run / "config.yaml").write_bytes(_digest(data) + data)

    return resumed(change)


def settings_with(lr: str) -> str:
    lines = (STORED / "config.yaml").read_text().splitlines()[1:]
    changed = [f"  lr: {lr}" if line.startswith("  lr:") else line for line in lines]
    assert changed != lines
    return "\n".join(changed)


def facts(text: str) -> Call:
    """Return a command that reads a checkpoint with other facts and good hashes."""

    def change(run: Path) -> None:
        (path,) = (run / "checkpoints").iterdir()
        before = json.loads((path / "manifest.json").read_text())
        (path / "facts.json").write_text(text)
        (path / "manifest.json").unlink()
        own = {n: x for n, x in before.items() if n not in ("format", "files")}
        seal_directory(path, ["arrays.npz", "facts.json"], own)

    return resumed(change)


def manifest(text: str) -> Call:
    def change(run: Path) -> None:
        (path,) = (run / "checkpoints").iterdir()
        (path / "manifest.json").write_text(text)

    return resumed(change)


def npz(data: bytes) -> Call:
    Path("own.npz").write_bytes(data)
    return command(*EVALUATE, "--weights", "own.npz")


def archive(**members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(f"{name}.npy", data)
    return out.getvalue()


@cache
def bomb() -> bytes:
    return archive(**{"dense-0/kernel": npy(np.zeros(2**26, "f4"))})


def npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def arrays(value: float = 0.5) -> dict[str, Any]:
    return {n: np.full(shape, value, "f4") for n, shape in LAYOUT.shapes.items()}


def whole_npz(value: float = 0.5) -> bytes:
    return weights_formats.weights.encode_npz(arrays(value))[""]


def deep_npy() -> bytes:
    header = b"{'descr':'<f4','fortran_order':False,'shape':" + b"(" * 9_000
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header


def twice_in_the_directory() -> bytes:
    """Return an archive in whose directory one member has many names."""
    data = archive(a=npy(np.zeros(2**16, "f4")))
    begin = data.index(b"PK\x01\x02")
    end = data.index(b"PK\x05\x06")
    entry, count = data[begin:end], 500
    names = [entry.replace(b"a.npy", b"%05d" % i) for i in range(count)]
    tail = struct.pack(
        "<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, count * len(entry), begin, 0
    )
    return data[:begin] + b"".join(names) + tail


def history(data: bytes) -> Call:
    Path("own.parquet").write_bytes(data)
    return command("plot", "own.parquet")


def rows_of(count: int, groups: int, **other: Any) -> bytes:
    """Return a parquet file with rows that are all the same."""
    same = {name: pa.array(np.ones(count)) for name in COLUMNS[:5]}
    same["step"] = pa.array(np.ones(count, "i8"))
    table = pa.table({**same, **other})
    out = io.BytesIO()
    with parquet.ParquetWriter(out, table.schema, compression="zstd") as writer:
        for _ in range(groups):
            writer.write_table(table)
    return out.getvalue()


def nested_column() -> bytes:
    kind = pa.float64()
    for _ in range(90):
        kind = pa.struct([("x", kind)])
    return rows_of(1, 1, mean_reward=pa.nulls(1, kind))


def long_texts() -> bytes:
    texts = pa.DictionaryArray.from_arrays(np.zeros(10**5, "i4"), ["x" * 10**5])
    return rows_of(10**5, 1, mean_reward=texts)


def page_of(size: int) -> bytes:
    """Return a file with a page whose header states another unpacked size."""
    data = bytearray(rows_of(300_000, 1))
    before = (
        parquet.ParquetFile(io.BytesIO(bytes(data))).metadata.row_group(0).column(0)
    )
    at = before.dictionary_page_offset or before.data_page_offset
    assert data[at : at + 2] == b"\x15\x04" and data[at + 2] == 0x15  # a dictionary's
    assert data[at + 3] < 128  # a number of one byte takes more of the next ones
    number = 2 * size
    coded = [(number >> 7 * i & 127) | (128 if i < 4 else 0) for i in range(5)]
    del data[at + 3]
    data[at + 3 : at + 3] = bytes(coded)
    return bytes(data)


def cfg(text: str) -> Call:
    Path("own.cfg").write_text(text)
    return command(*EVALUATE, *MODEL, "own.cfg")


def keras_file(data: bytes) -> Call:
    Path("own.keras").write_bytes(data)
    return command(*EVALUATE, *MODEL, "own.keras")


def endless(name: str, *flags: str) -> Call:
    """Return a command that reads a link to a device in place of a file."""
    Path(name).symlink_to("/dev/zero")
    return command(*EVALUATE, *flags, name)


def piped(call: Call, path: str) -> Call:
    """Return a call whose file is a pipe to which nobody writes."""
    Path(path).unlink()
    os.mkfifo(path)
    return call


def cfg_model(name: str, data: bytes, **parts: bytes) -> Call:
    """Return a call that loads weights into a model of `ModelReader`."""
    Path("own.cfg").write_text(NETWORK.format(8))
    for part, content in {name: data, **parts}.items():
        Path(part).write_bytes(content)
    model = ModelReader("own.cfg", [2, 1], (4,)).build_model()
    return lambda: model.load_weights(name) and None


def whole_model(value: float) -> Any:
    given = keras.Input((4,))
    x = keras.layers.Dense(8, name="first")(given)
    outputs = [keras.layers.Dense(n)(x) for n in (2, 1)]
    model = keras.Model(given, outputs)
    model.set_weights([np.full(w.shape, value) for w in model.get_weights()])
    return model


def whole_keras(value: float = 0.5) -> bytes:
    return keras_models.model_bytes(whole_model(value), "own")


def keras_weights(data: bytes) -> Call:
    file = WeightsFile("own.keras", {"": data})
    return lambda: weights_formats.decode_weights(file, LAYOUT, {}) and None


def old_keras(data: bytes) -> Call:
    return lambda: keras_conversion.keras_file_of_h5("own.h5", data) and None


def whole_h5(value: float = 0.5) -> bytes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole_model(value).save("whole.h5")
    return Path("whole.h5").read_bytes()


def with_parts(**changed: Callable[[bytes], bytes]) -> bytes:
    """Return a Keras file with changed parts, compressed."""
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(whole_keras())) as before,
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as after,
    ):
        for name in before.namelist():
            edit = changed.get(name.partition(".")[0], lambda data: data)
            after.writestr(name, edit(before.read(name)))
    return out.getvalue()


def many_units(data: bytes) -> bytes:
    return data.replace(b'"units": 8', b'"units": 2000000000')


def h5(data: bytes) -> Call:
    file = WeightsFile("own.weights.h5", {"": data})
    return lambda: weights_formats.decode_weights(file, LAYOUT, {}) and None


def hdf5(make: Callable[[Any], None]) -> bytes:
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        make(file)
    return out.getvalue()


def squeezed() -> bytes:
    shape, chunks = (10**8,), (10**6,)
    return hdf5(lambda f: f.create_dataset("a", shape, "f4", chunks=chunks))


def overlapping_hdf5(count: int = 400, size: int = 10**6) -> bytes:
    """Return a file with datasets that all have the bytes of the first one."""

    def make(file: Any) -> None:
        file["layers/first"] = np.ones(size, "u1")
        for i in range(count):
            file.create_dataset(f"layers/{i}", (size,), "u1")  # not written

    data = hdf5(make)
    with h5py.File(io.BytesIO(data)) as file:
        offset = file["layers/first"].id.get_offset()
    length = size.to_bytes(8, "little")
    assert data.count(b"\xff" * 8 + length) == count
    return data.replace(b"\xff" * 8 + length, offset.to_bytes(8, "little") + length)


def long_names(file: Any) -> None:
    group = file.create_group("layers/" + "/".join(["x" * 60_000] * 20))
    for i in range(1_000):
        group[str(i)] = np.zeros(1, "u1")


def shared_texts(file: Any) -> None:
    data = file.create_dataset("layers/a", (10**5,), h5py.string_dtype())
    data[0] = "x" * 10**6


def tf(index: bytes, data: bytes = bytes(64)) -> Call:
    parts = {".index": index, ".data-00000-of-00001": data}
    file = WeightsFile("own.tf", parts)
    return lambda: weights_formats.decode_weights(file, LAYOUT, {}) and None


def varint(number: int) -> bytes:
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + varint(rest) if rest else bytes([low])


def table(entries: bytes) -> bytes:
    """Return the index of a checkpoint with one block of entries."""
    data, handles = b"", list[bytes]()
    for number in range(3):
        block = entries
        if number:
            block = b"" if number == 1 else b"\0\x01%c" % len(handles[0]) + b"z"
            block += handles[0] if number == 2 else b""
        block += (0).to_bytes(4, "little") + (1).to_bytes(4, "little")
        handles.append(varint(len(data)) + varint(len(block)))
        data += block + b"\0" + bytes(4)
    magic = bytes.fromhex("57fb808b247547db")
    return data + (handles[1] + handles[2]).ljust(40, b"\0") + magic


HEADER = b"\0\0\x02\x08\x01"
LONG_KEYS = HEADER + b"\0" + varint(10**5) + b"\0" + b"k" * 10**5
LONG_KEYS += (varint(10**5) + b"\0\0") * 10**5
FLOATS = b"\x08\x01\x12\x04\x12\x02\x08\x10\x28\x40"  # 16 of them, in 64 bytes
SHARED = HEADER + b"".join(
    b"\0%c%c" % (3, len(FLOATS)) + b"%03d" % i + FLOATS for i in range(999)
)
LISTS = "[" + "[]," * 300_000 + "[]]"
ALIASES = "\n".join(
    ["a0: &a0 [x, x]", *(f"a{i}: &a{i} [{f'*a{i - 1}, ' * 9}x]" for i in range(1, 9))]
)
SECTIONS = "".join(f"[dense-{i}]\nunits=1\n" for i in range(20_000))
NETWORK = "[dense-0]\nunits={}\ncommon=1\n[dense-1]\noutput=1\n[dense-2]\noutput=1\n"
READERS: dict[str, dict[str, Callable[[], Call]]] = {
    "preset": {
        "huge": lambda: preset("settings:\n  lr: [" + "1, " * 80_000 + "1]\n"),
        "huge number": lambda: preset(f"settings:\n  lr: 0x{'f' * 60_000}\n"),
        "huge file": lambda: preset("settings:\n  lr: 1\n# " + "x" * 10**6),
        "deep": lambda: preset("settings: " + "[" * DEEP),
        "aliased": lambda: preset(f"settings:\n  lr: 1\n{ALIASES}"),
        "truncated": lambda: preset("settings: {lr: "),
        "NaN": lambda: preset("settings: {lr: .nan}"),
        "endless": lambda: piped(preset(""), "own.yaml"),
    },
    "file of settings": {
        "huge": lambda: config_file("agent: ppo\nlr: [" + "1, " * 80_000 + "1]\n"),
        "huge number": lambda: config_file(f"agent: ppo\nlr: 0x{'f' * 60_000}\n"),
        "huge file": lambda: config_file("agent: ppo\n# " + "x" * 10**6),
        "deep": lambda: config_file("agent: ppo\nenv_kwargs: " + "{a: " * DEEP),
        "aliased": lambda: config_file(f"agent: ppo\n{ALIASES}"),
        "truncated": lambda: config_file("agent: ppo\nalgorithm: {lr: "),
        "NaN": lambda: config_file("agent: ppo\nlr: .nan"),
        "twice": lambda: config_file("agent: ppo\n" + "lr: 1\n" * 2_000),
        "object": lambda: config_file("agent: !!python/object/apply:os.getcwd []"),
        "endless": lambda: piped(config_file(""), "own.yaml"),
    },
    "settings of a run": {
        "huge": lambda: config("a: [" + "1, " * 300_000 + "1]\n"),
        "deep": lambda: config("a: " + "{a: " * DEEP),
        "aliased": lambda: config(ALIASES),
        "truncated": lambda: config(settings_with("1") + "\nx: ["),
        "NaN": lambda: config(settings_with(".nan")),
        "endless": lambda: piped(config(""), "run/config.yaml"),
    },
    "facts of a checkpoint": {
        "huge": lambda: facts(f'{{"a": {LISTS}}}'),
        "deep": lambda: facts('{"a": ' + "[" * DEEP + "]" * DEEP + "}"),
        "half as deep": lambda: facts('{"a": ' + "[" * 500 + "]" * 500 + "}"),
        "truncated": lambda: facts('{"seed": 1, '),
        "NaN": lambda: facts('{"seed": NaN}'),
    },
    "manifest of a checkpoint": {
        "huge": lambda: manifest(LISTS),
        "deep": lambda: manifest("[" * DEEP),
        "truncated": lambda: manifest('{"format": 1, "files": {'),
        "NaN": lambda: manifest('{"format": NaN, "files": {}}'),
    },
    ".npz": {
        "huge": lambda: npz(bomb()),
        "deep": lambda: npz(archive(a=deep_npy())),
        "overlapping": lambda: npz(twice_in_the_directory()),
        "endless": lambda: endless("own.npz", "--weights"),
        "truncated": lambda: npz(whole_npz()[:-300]),
        "NaN": lambda: npz(whole_npz(np.nan)),
    },
    "history": {
        "huge": lambda: history(rows_of(500_000, 20)),
        "huge page": lambda: history(page_of(2**30)),
        "deep": lambda: history(nested_column()),
        "aliased": lambda: history(long_texts()),
        "truncated": lambda: history(rows_of(9, 1)[:-9]),
        "NaN": lambda: history(rows_of(9, 1, time=pa.array([np.nan] * 9))),
        "endless": lambda: piped(history(b""), "own.parquet"),
    },
    ".cfg": {
        "huge": lambda: cfg(NETWORK.format(2 * 10**9)),
        "huge number": lambda: cfg(NETWORK.format("9" * 4_000)),
        "huge file": lambda: cfg("#" * 10**7),
        "many layers": lambda: cfg(SECTIONS),
        "truncated": lambda: cfg("[dense-0]\nunits=8\n[dense-"),
        "NaN": lambda: cfg("[dense-0]\nunits=8\ninitializer=orthogonal\ngain=nan\n"),
        "endless": lambda: piped(cfg(""), "own.cfg"),
    },
    ".keras": {
        "huge": lambda: keras_file(with_parts(config=many_units)),
        "huge part": lambda: keras_file(with_parts(metadata=lambda _: bytes(10**8))),
        "huge weights": lambda: keras_file(with_parts(model=lambda _: squeezed())),
        "deep": lambda: keras_file(with_parts(config=lambda _: b"[" * DEEP)),
        "overlapping": lambda: keras_file(
            with_parts(model=lambda _: overlapping_hdf5())
        ),
        "endless": lambda: endless("own.keras", *MODEL),
        "truncated": lambda: keras_file(whole_keras()[:-300]),
        "NaN": lambda: keras_file(whole_keras(np.nan)),
    },
    ".keras as weights": {
        "huge part": lambda: keras_weights(with_parts(metadata=lambda _: bytes(10**8))),
        "huge weights": lambda: keras_weights(with_parts(model=lambda _: squeezed())),
        "overlapping": lambda: keras_weights(
            with_parts(model=lambda _: overlapping_hdf5())
        ),
        "truncated": lambda: keras_weights(whole_keras()[:-300]),
    },
    ".h5": {
        "huge": lambda: old_keras(squeezed()),
        "deep": lambda: old_keras(
            hdf5(lambda f: f.attrs.update(model_config="[" * DEEP))
        ),
        "long names": lambda: old_keras(hdf5(long_names)),
        "aliased": lambda: old_keras(hdf5(shared_texts)),
        "overlapping": lambda: old_keras(overlapping_hdf5()),
        "endless": lambda: endless("own.h5", *MODEL),
        "truncated": lambda: old_keras(whole_h5()[:-300]),
        "NaN": lambda: old_keras(whole_h5(np.nan)),
    },
    ".weights.h5": {
        "huge": lambda: h5(squeezed()),
        "deep": lambda: h5(hdf5(lambda f: f.create_group("a/" * 3_000 + "a"))),
        "long names": lambda: h5(hdf5(long_names)),
        "aliased": lambda: h5(hdf5(shared_texts)),
        "overlapping": lambda: h5(overlapping_hdf5()),
        "truncated": lambda: h5(hdf5(lambda f: f.update(a=np.ones(9)))[:-9]),
        "NaN": lambda: h5(
            weights_formats.encode_weights(
                arrays(np.nan), LAYOUT, "a.weights.h5"
            ).files[""]
        ),
    },
    "weights of a .cfg model": {
        "huge": lambda: cfg_model("own.h5", squeezed()),
        "huge .npz": lambda: cfg_model("own.npz", bomb()),
        "huge part": lambda: cfg_model(
            "own.weights.json",
            b'{"weight_map": {"/vars": ["a.weights.h5"]}}',
            **{"a.weights.h5": squeezed()},
        ),
        "deep": lambda: cfg_model("own.weights.json", b"[" * DEEP),
        "aliased": lambda: cfg_model("own.h5", hdf5(shared_texts)),
        "overlapping": lambda: cfg_model("own.h5", overlapping_hdf5()),
        "truncated": lambda: cfg_model("own.h5", whole_h5()[:-300]),
    },
    ".tf": {
        "huge": lambda: tf(table(HEADER)[:-48] + b"\0\x08\0".ljust(40, b"\xff") + b"x"),
        "aliased": lambda: tf(table(LONG_KEYS)),
        "overlapping": lambda: tf(table(SHARED)),
        "truncated": lambda: tf(table(SHARED)[:-9]),
    },
}
LOST = ["[" * DEEP, "[" * 500 + "]" * 500, "{", "[" + "0," * 3_000_000 + "0]"]
CASES = [(reader, kind) for reader, kinds in READERS.items() for kind in kinds]


@pytest.fixture(autouse=True, scope="module")
def imported() -> None:
    """Import here what the forks would import."""
    check_env(EnvConfig(env="CartPole-v1"))
    file = weights_formats.encode_weights(arrays(), LAYOUT, "a.weights.h5")
    weights_formats.decode_weights(file, LAYOUT, {})  # caches what TensorFlow says


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize(("reader", "kind"), CASES)
def test_readers_refuse_them_at_once(reader: str, kind: str) -> None:
    call = READERS[reader][kind]()
    for path in Path().glob("own.*"):
        assert path.stat().st_size < 12 << 20
    found = measured(call)
    assert found.code == 2, found.said
    sentence = found.said.strip()
    assert "\n" not in sentence and len(sentence) < 500 and sentence.endswith(".")
    assert found.seconds <= SECONDS * slowness()
    assert found.memory <= MEMORY


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize(
    "name",
    """
    seed session owed actors plateau plateau/best progress
    progress/env_steps progress/rewards progress/statistics
    """.split(),
)
def test_facts_of_another_type_are_refused(name: str) -> None:
    (path,) = STORED.glob("checkpoints/*/facts.json")
    whole = part = json.loads(path.read_text())
    *above, last = name.split("/")
    for each in above:
        part = part[each]
    part[last] = {"x": [None]}
    found = measured(facts(json.dumps(whole)))
    assert found.code == 2, found.said
    # Statistics are read once more before, by a migration.
    needed = "can't be used" if last == "statistics" else "lacks what a run needs"
    assert needed in found.said


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_runs_copy_without_an_end_is_another_file() -> None:
    Path("own.h5").write_bytes(b"a network")
    Path("stored.h5").symlink_to("/dev/zero")
    given, stored = {"model": "own.h5"}, {"model": "stored.keras"}
    config = find_algorithm("ppo").config
    found = measured(lambda: int(with_own_names(config, given, stored) != given))
    assert found.code == 0, found.said
    assert found.seconds <= SECONDS * slowness()
    assert found.memory <= MEMORY


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("name", ["run.json", "summary.json"])
@pytest.mark.parametrize(
    "text", LOST, ids=["deep", "half as deep", "truncated", "huge"]
)
def test_files_that_may_be_lost_are_as_if_they_were(name: str, text: str) -> None:
    Path(name).write_text(text)
    directory = RunDirectory(Path())
    found = measured(lambda: len([*directory.starts(), *directory.summary()]))
    assert found.code == 0, found.said
    assert found.seconds <= SECONDS * slowness()
    assert found.memory <= MEMORY
