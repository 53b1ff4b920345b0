"""Weights files of TensorFlow and Keras, ours and others'."""

import os
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf
from naive import assert_same
from processes import python

from xagents_ray.algorithms.dqn import DQNConfig
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core import objects
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import WeightsFile
from xagents_ray.networks import keras as networks
from xagents_ray.networks import keras_models
from xagents_ray.networks.forward import bind_network
from xagents_ray.networks.layers import Dense
from xagents_ray.networks.layout import Layout
from xagents_ray.networks.reading import read_layout
from xagents_ray.run import weights_formats as formats
from xagents_ray.storage.weights import read_file, write_file

XAGENTS = Path(__file__).parent.parent / "data" / "xagents-1.0.1"
EXAMPLES = Path(__file__).parent.parent.parent / "examples"
CARTPOLE = EnvSpec((4,), "float32", 1, 2)
SPECS = {
    "vector": CARTPOLE,
    "grey": EnvSpec((36, 36), "uint8", 4, 6),
    "continuous": EnvSpec((5,), "float32", 1, 0, (-1.0, -1.0), (1.0, 1.0)),
}
EXTRAS: dict[str, tuple[int, ...]] = {
    "log_std": (2,),
    "observation/mean": (5,),
    "observation/size": (),
}
KINDS = [".tf", ".weights.h5", ".npz", ".keras"]
UNEVEN = (
    "[dense-0]\nunits=5\ncommon=1\n[dense-1]\noutput=1\n"
    "[dense-2]\nunits=6\n[dense-3]\nunits=7\n[dense-4]\noutput=1\n"
)


LAYOUTS = {
    name: find_algorithm("ppo").layout(None, spec) for name, spec in SPECS.items()
}
VECTOR = LAYOUTS["vector"]
RAINBOW = DQNConfig(dueling=True, noisy="factorised", distributional=True)
LAYOUTS["rainbow"] = find_algorithm("dqn").layouts(RAINBOW, CARTPOLE)[0]
STATE_DEPENDENT = find_algorithm("sac").config(sde_frequency=8)
LAYOUTS["sac"] = find_algorithm("sac").layouts(STATE_DEPENDENT, SPECS["continuous"])[0]


def arrays_of(layout: Layout, extras: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    every = {**layout.shapes, **extras}
    arrays = {name: np.asarray(rng.normal(size=s)) for name, s in every.items()}
    return {
        name: array if name.startswith("observation/") else array.astype(np.float32)
        for name, array in arrays.items()
    }


def refused(file: WeightsFile, layout: Layout = VECTOR) -> str:
    with pytest.raises(UserError) as caught:
        formats.decode_weights(file, layout, {})
    text = str(caught.value)
    assert text.startswith(f"{file.path}: ")
    assert "\n" not in text
    return text


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_shapes_are_those_that_keras_builds(layout: Layout) -> None:
    built = networks.weight_arrays(networks.build_model(layout, 1, "net"))
    assert layout.shapes == {name: array.shape for name, array in built.items()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("extras", [{}, EXTRAS], ids=["plain", "extras"])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_round_trip(
    layout: Layout, extras: dict[str, tuple[int, ...]], kind: str, tmp_path: Path
) -> None:
    arrays = arrays_of(layout, extras)
    if kind == ".keras" and layout in (LAYOUTS["rainbow"], LAYOUTS["sac"]):
        words = r"^a\.keras: this network has layers that Keras lacks"
        with pytest.raises(UserError, match=words):
            formats.encode_weights(arrays, layout, "a.keras")
        return
    write_file(formats.encode_weights(arrays, layout, str(tmp_path / f"a{kind}")))
    file = read_file(str(tmp_path / f"a{kind}"))
    got, notes = formats.decode_weights(file, layout, extras)
    assert_same(got, arrays)
    assert notes == []
    if not extras:
        got, notes = formats.decode_weights(file, layout, {"log_std": (2,)})
        assert_same(got, {**arrays, "log_std": np.zeros(2, np.float32)})
        assert notes == [f"{file.path} has no log_std; it starts at 0."]


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_keras_reads_ours(layout: Layout, tmp_path: Path) -> None:
    arrays = arrays_of(layout, EXTRAS)
    path = tmp_path / "a.weights.h5"
    write_file(formats.encode_weights(arrays, layout, str(path)))
    model = networks.build_model(layout, 1, "theirs")
    model.load_weights(path)
    expected = {name: arrays[name] for name in layout.shapes}
    assert_same(networks.weight_arrays(model), expected)


@pytest.mark.parametrize("name", ["vector", "grey", "continuous"])
def test_keras_loads_our_models(name: str, tmp_path: Path) -> None:
    layout = LAYOUTS[name]
    arrays = arrays_of(layout, EXTRAS)
    path = tmp_path / "a.keras"
    write_file(formats.encode_weights(arrays, layout, str(path)))
    model = keras.models.load_model(path)
    expected = {name: arrays[name] for name in layout.shapes}
    assert_same(networks.weight_arrays(model), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_initializers_that_are_unknown_here(kind: str, tmp_path: Path) -> None:
    """A child process writes and reads files, and nothing is drawn there."""
    layers = [
        replace(layer, initializer="tiny") if isinstance(layer, Dense) else layer
        for layer in VECTOR.layers
    ]
    layout = replace(VECTOR, layers=tuple(layers))
    arrays, path = arrays_of(layout, {}), tmp_path / f"a{kind}"
    write_file(formats.encode_weights(arrays, layout, str(path)))
    got, _ = formats.decode_weights(read_file(str(path)), layout, {})
    assert_same(got, arrays)
    if kind == ".keras":
        loaded = networks.weight_arrays(keras.models.load_model(path))
        assert_same(loaded, arrays)


def layout_of(model: Any, agent: str = "ppo", spec: EnvSpec = CARTPOLE) -> Layout:
    """Return the layout of an agent's first network, made by code of this process."""
    objects.keep("network-file", keras_models.model_bytes(model, "mine"), "mine")
    return find_algorithm(agent).models[0].layout("mine", spec)


@pytest.mark.filterwarnings(
    "ignore:__array__ implementation:DeprecationWarning"  # Keras' own, in its save
)
def test_whole_models_of_a_user(tmp_path: Path) -> None:
    """Their layers are those of Keras, though NumPy can't compute them."""
    given = keras.Input((4,))
    x = keras.layers.BatchNormalization()(keras.layers.Dense(8)(given))
    x = keras.layers.Dropout(0.1)(x)
    mine = keras.Model(given, [keras.layers.Dense(n)(x) for n in (2, 1)])
    layout = layout_of(mine)
    extras = {"observation/size": ()}
    arrays, path = arrays_of(layout, extras), tmp_path / "a.keras"
    write_file(formats.encode_weights(arrays, layout, str(path)))
    loaded = keras.models.load_model(path)
    assert len(loaded.weights) == len(mine.weights)
    for array, name in zip(loaded.get_weights(), layout.shapes, strict=True):
        np.testing.assert_array_equal(array, arrays[name])
    for other in (path, tmp_path / "a.weights.h5"):
        write_file(formats.encode_weights(arrays, layout, str(other)))
        got, _ = formats.decode_weights(read_file(str(other)), layout, extras)
        assert_same(got, arrays)
    mine.save(path)
    got, _ = formats.decode_weights(read_file(str(path)), layout, {})
    for array, name in zip(mine.get_weights(), layout.shapes, strict=True):
        np.testing.assert_array_equal(got[name], array)


@pytest.mark.parametrize("between", [(), ("BatchNormalization",), ("Lambda",)])
@pytest.mark.parametrize("end", ["activation", "layer"])
def test_keras_files_end_in_the_softmax_of_the_model(
    end: str, between: tuple[str, ...], tmp_path: Path
) -> None:
    """The learner has logits; the value is deeper than those, as in many models."""
    layers, given = keras.layers, keras.Input((4,))
    x = layers.Dense(8)(given)
    for kind in between:
        own = (lambda x: 2 * x,) if kind == "Lambda" else ()
        x = getattr(layers, kind)(*own)(x)
    is_layer = end == "layer"
    logits = layers.Dense(2, None if is_layer else "softmax")(x)
    policy = layers.Softmax()(logits) if is_layer else logits
    mine = keras.Model(given, [policy, layers.Dense(1)(layers.Dense(2)(x))])
    rng = np.random.default_rng(4)
    mine.set_weights([rng.random(w.shape, np.float32) for w in mine.get_weights()])
    layout, path = layout_of(mine), tmp_path / "a.keras"
    assert layout.with_softmax() != layout
    arrays = keras_models.weights_of(
        "mine", objects.find_kept("network-file", "mine"), layout
    )
    write_file(formats.encode_weights(arrays, layout, str(path)))
    x = np.random.default_rng(5).normal(size=(3, 4)).astype(np.float32)
    saved = keras.models.load_model(path, safe_mode=False)
    for ours, theirs in zip(saved(x), mine(x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    got, _ = formats.decode_weights(read_file(str(path)), layout, {})
    assert_same(got, arrays)


@pytest.mark.parametrize("is_known", [True, False])
def test_keras_files_of_actors_are_bounded(is_known: bool, tmp_path: Path) -> None:
    given, path = keras.Input((5,)), tmp_path / "a.keras"
    x = given if is_known else keras.layers.BatchNormalization()(given)
    mine = keras.Model(given, keras.layers.Dense(2)(x))
    layout = layout_of(mine, "td3", SPECS["continuous"])
    arrays = keras_models.weights_of(
        "mine", objects.find_kept("network-file", "mine"), layout
    )
    write_file(formats.encode_weights(arrays, layout, str(path)))
    x = 9 * np.ones((2, 5), np.float32)
    saved = keras.models.load_model(path)
    np.testing.assert_allclose(saved(x), np.tanh(mine(x)), rtol=1e-5)


@pytest.mark.filterwarnings(
    "ignore:__array__ implementation:DeprecationWarning"  # Keras' own, in its save
)
@pytest.mark.parametrize(
    "config", ['{"class_name": "Lambda", "config": {}}', "[" * 100_000]
)
def test_no_model_is_made_of_a_weights_file(config: str, tmp_path: Path) -> None:
    """Its config may be of any size; the weights have names of the layout's own."""
    given, path = keras.Input((4,)), tmp_path / "a.keras"
    x = keras.layers.BatchNormalization()(given)
    mine = keras.Model(given, [keras.layers.Dense(n)(x) for n in (2, 1)])
    layout = layout_of(mine)
    mine.save(path)
    with zipfile.ZipFile(path) as parts:
        weights = parts.read("model.weights.h5")
    with zipfile.ZipFile(path, "w") as parts:
        parts.writestr("config.json", config)
        parts.writestr("model.weights.h5", weights)
    got, _ = formats.decode_weights(read_file(str(path)), layout, {})
    for array, name in zip(mine.get_weights(), layout.shapes, strict=True):
        np.testing.assert_array_equal(got[name], array)


@pytest.mark.filterwarnings(
    "ignore:__array__ implementation:DeprecationWarning"  # Keras' own, in its save
)
def test_ours_reads_keras(tmp_path: Path) -> None:
    """A user's own model, trained, whose layers have other names."""
    dense = keras.layers.Dense
    x = keras.Input((4,))
    shared = dense(5, activation="tanh")(x)
    policy = dense(2)(shared)
    value = dense(1)(dense(7)(dense(6)(shared)))
    model = keras.Model(x, [policy, value])
    model.compile("adam", "mse")
    observations = np.random.default_rng(1).normal(size=(6, 4)).astype(np.float32)
    model.fit(observations, [np.ones((6, 2)), np.ones((6, 1))], verbose=0)
    model.save_weights(tmp_path / "a.weights.h5")
    cfg = UNEVEN.replace("common=1", "activation=tanh\ncommon=1")
    layout = read_layout(write(tmp_path / "net.cfg", cfg), (4,), [2, 1], 1.0)
    file = read_file(str(tmp_path / "a.weights.h5"))
    arrays, _ = formats.decode_weights(file, layout, {})
    got = bind_network(layout, arrays)(observations)
    for mine, theirs in zip(got, model(observations), strict=True):
        np.testing.assert_allclose(mine, theirs.numpy(), atol=1e-6)


def test_weights_of_xagents() -> None:
    file = read_file(str(XAGENTS / "a2c-cartpole.tf"))
    arrays, notes = formats.decode_weights(file, VECTOR, {})
    assert notes == []
    with np.load(XAGENTS / "a2c-cartpole-outputs.npz") as expected:
        logits, values = bind_network(VECTOR, arrays)(expected["observations"])
        np.testing.assert_allclose(logits, expected["logits"], atol=1e-5, rtol=0)
        np.testing.assert_allclose(values, expected["values"], atol=1e-5, rtol=0)
    assert np.abs(logits).max() > 0.1


# As Keras 2 (tf_keras 2.21) numbered them in the checkpoints that it wrote.
ORDERS = {
    (EXAMPLES / "separate-64.cfg").read_text(): [0, 3, 1, 4, 2, 5],
    UNEVEN: [0, 2, 3, 1, 4],
}


@pytest.mark.parametrize("text", ORDERS, ids=["branches", "uneven"])
def test_branches_in_checkpoints(text: str, tmp_path: Path) -> None:
    """Keras numbers layers by depth, so those of two branches take turns."""
    layout = read_layout(write(tmp_path / "net.cfg", text), (4,), [2, 1], 1.0)
    arrays = arrays_of(layout, {})
    keys = {
        f"layer_with_weights-{i}": tf.train.Checkpoint(
            kernel=tf.Variable(arrays[f"dense-{number}/kernel"]),
            bias=tf.Variable(arrays[f"dense-{number}/bias"]),
        )
        for i, number in enumerate(ORDERS[text])
    }
    tf.train.Checkpoint(**keys).write(str(tmp_path / "theirs.tf"))
    got, _ = formats.decode_weights(read_file(str(tmp_path / "theirs.tf")), layout, {})
    assert_same(got, arrays)
    write_file(formats.encode_weights(arrays, layout, str(tmp_path / "ours.tf")))
    ours = dict(tf.train.list_variables(str(tmp_path / "ours.tf")))
    assert ours == dict(tf.train.list_variables(str(tmp_path / "theirs.tf")))


@pytest.mark.parametrize("kind", KINDS)
def test_another_network(kind: str, tmp_path: Path) -> None:
    file = formats.encode_weights(arrays_of(VECTOR, {}), VECTOR, f"a{kind}")
    wide = find_algorithm("ppo").layout(None, EnvSpec((6,), "float32", 1, 2))
    text = refused(file, wide)
    assert "dense-0/kernel is [4, 64], this agent's network needs [6, 64]" in text
    assert "--model and the network's other settings must be those that" in text
    single = find_algorithm("dqn").layout(None, CARTPOLE)
    assert "has " in refused(file, single)
    fewer = formats.encode_weights(arrays_of(single, {}), single, f"a{kind}")
    assert "has no dense-3/kernel" in refused(fewer)
    extra = formats.encode_weights(arrays_of(VECTOR, EXTRAS), VECTOR, f"a{kind}")
    assert "has log_std, which this agent's network lacks" in refused(extra)


@pytest.mark.parametrize("kind", KINDS)
def test_not_a_number(kind: str) -> None:
    arrays = arrays_of(VECTOR, {})
    arrays["dense-2/bias"][1] = np.nan
    text = refused(formats.encode_weights(arrays, VECTOR, f"a{kind}"))
    assert "dense-2/bias has numbers that are not finite" in text


def whole(kind: str) -> WeightsFile:
    return formats.encode_weights(arrays_of(VECTOR, {}), VECTOR, f"a{kind}")


@pytest.mark.parametrize("kind", KINDS)
def test_foreign_bytes(kind: str) -> None:
    file = whole(kind)
    others = [b"", b"text", bytes(3000), os.urandom(3000), whole(".npz").files[""]]
    for other in others[: 4 if kind == ".npz" else 5]:
        for suffix in file.files:
            assert "damaged" in refused(
                WeightsFile(file.path, {**file.files, suffix: other})
            )


def damage(data: bytes, rng: np.random.Generator) -> bytes:
    """Return bytes cut off, or with some changed."""
    if rng.random() < 0.2:
        return data[: rng.integers(len(data))]
    bad = bytearray(data)
    for at in rng.integers(len(data), size=rng.integers(1, 9)):
        bad[at] ^= int(rng.integers(1, 256))
    return bytes(bad)


@pytest.mark.parametrize(("kind", "times"), [(".tf", 400), (".weights.h5", 12)])
def test_damaged_bytes(kind: str, times: int) -> None:
    """Refused, or, when no array was touched, the very same."""
    file, arrays = whole(kind), arrays_of(VECTOR, {})
    rng = np.random.default_rng(5)
    caught = 0
    for i in range(times):
        suffix = sorted(file.files)[i % len(file.files)]
        bad = {**file.files, suffix: damage(file.files[suffix], rng)}
        try:
            got, _ = formats.decode_weights(WeightsFile(file.path, bad), VECTOR, {})
        except UserError as error:
            assert str(error).startswith(file.path)
            caught += 1
        else:
            assert_same(got, arrays)
    assert caught > times / 2


def test_an_hdf5_file_that_is_read_for_ever() -> None:
    """The first free block of a group's names is followed by itself."""
    file = whole(".weights.h5")
    data = file.files[""].replace(b"vars\0\0\0\0\x01", b"vars\0\0\0\0\x10")
    assert data != file.files[""]
    assert "damaged" in refused(WeightsFile(file.path, {"": data}))


def change(path: Path, edit: Callable[[Any], None]) -> WeightsFile:
    write_file(WeightsFile(str(path), whole(".weights.h5").files))
    with h5py.File(path, "a") as file:
        edit(file)
    return read_file(str(path))


def test_hdf5_edited(tmp_path: Path) -> None:
    def edit(file: Any) -> None:
        file["layers/dense/vars/0"][0, 0] += 1

    assert "damaged" in refused(change(tmp_path / "a.weights.h5", edit))


@pytest.mark.parametrize(
    "settings",
    [
        {"shape": (4, 64), "external": [(os.devnull, 0, 1024)]},
        {"shape": (10**6, 10**6)},
        {"data": np.zeros((4, 10**6), "f4"), "compression": 9},
        {"data": "text", "dtype": "S4"},
        {"data": ["text"], "dtype": h5py.string_dtype()},
    ],
    ids=["outside", "unwritten", "squeezed", "text", "objects"],
)
def test_hdf5_of_other_things(settings: dict[str, Any], tmp_path: Path) -> None:
    """Valid HDF5 without our digest, whose arrays are not in the file as they are."""

    def edit(file: Any) -> None:
        del file["extras"], file["layers/dense/vars/0"]
        file.create_dataset("layers/dense/vars/0", **{"dtype": "f4", **settings})

    assert "damaged" in refused(change(tmp_path / "a.weights.h5", edit))


def varint(number: int) -> bytes:
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + varint(rest) if rest else bytes([low])


@pytest.mark.parametrize("size", [10**9, 2**62])
def test_an_index_that_asks_for_memory(size: int) -> None:
    file = whole(".tf")
    footer = b"\0\x08\0" + varint(size)
    index = file.files[".index"]
    index = index[:-48] + footer.ljust(40, b"\0") + index[-8:]
    refused(WeightsFile(file.path, {**file.files, ".index": index}))


def masked_crc32c(data: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


def table(header: bytes, entry: bytes, restart: int = 0) -> bytes:
    """Return a checkpoint's index with one tensor and good checksums."""
    data, handles = b"", list[bytes]()
    key = b"layer_with_weights-0/bias/.ATTRIBUTES/VARIABLE_VALUE"
    for pairs in ([(b"", header), (key, entry)], [], None):
        block = b"".join(
            bytes([0, len(key), len(value)]) + key + value
            for key, value in ([(b"z", handles[0])] if pairs is None else pairs)
        )
        block += restart.to_bytes(4, "little") + (1).to_bytes(4, "little")
        handles.append(varint(len(data)) + varint(len(block)))
        data += block + b"\0" + masked_crc32c(block + b"\0")
    magic = bytes.fromhex("57fb808b247547db")
    return data + (handles[1] + handles[2]).ljust(40, b"\0") + magic


def tensor(*sides: int, size: int = 4, dtype: bytes = b"\x01") -> bytes:
    """Return the protocol buffer of a tensor's entry, float32 or b"\\x02", float64."""
    shape = b""
    for side in sides:
        number = b"\x08" + varint(side % 2**64)
        shape += bytes([0x12, len(number)]) + number
    kind = b"\x08" + dtype + b"\x12" + varint(len(shape)) + shape
    return kind + b"\x28" + varint(size)


BAD_INDICES = {
    "negative": table(b"\x08\x01", tensor(-4)),
    "overflow": table(b"\x08\x01", tensor(2**40, 2**40)),
    "huge": table(b"\x08\x01", tensor(10**12, size=4 * 10**12)),
    "larger than its bytes": table(b"\x08\x01", tensor(64)),
    "half of a double": table(b"\x08\x01", tensor(1, dtype=b"\x02")),
    "no entry": table(b"\x08\x01", b"\xff\xff"),
    "no header": table(b"\xff\xff", tensor(1)),
    "many files": table(b"\x08\x64", tensor(1)),
    "restart": table(b"\x08\x01", tensor(1), restart=2**31),
}


@pytest.mark.parametrize("index", BAD_INDICES.values(), ids=BAD_INDICES)
def test_an_index_with_good_checksums(index: bytes) -> None:
    """TensorFlow alone aborts the process on some of these."""
    file = WeightsFile("a.tf", {".index": index, ".data-00000-of-00001": bytes(4)})
    assert "damaged" in refused(file)


def test_the_index_above_is_one(tmp_path: Path) -> None:
    (tmp_path / "a.index").write_bytes(table(b"\x08\x01", tensor(1)))
    (tmp_path / "a.data-00000-of-00001").write_bytes(bytes(4))
    (listed,) = tf.train.list_variables(str(tmp_path / "a"))
    assert listed == ("layer_with_weights-0/bias/.ATTRIBUTES/VARIABLE_VALUE", [1])


def test_nothing_on_the_screen(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from xagents_ray.run import weights_formats as formats\n"
        "from xagents_ray.algorithms.table import find_algorithm\n"
        "from xagents_ray.core.errors import UserError\n"
        "from xagents_ray.core.spec import EnvSpec\n"
        "from xagents_ray.core.trajectory import WeightsFile\n"
        "from xagents_ray.storage.weights import read_file\n"
        "layout = find_algorithm('ppo').layout(None, EnvSpec((4,), 'float32', 1, 2))\n"
        "arrays, _ = formats.decode_weights(read_file(sys.argv[1]), layout, {})\n"
        "for kind in ('.tf', '.weights.h5', '.npz'):\n"
        "    file = formats.encode_weights(arrays, layout, 'a' + kind)\n"
        "    formats.decode_weights(file, layout, {})\n"
        "    bad = {s: d[:-9] + b'x' + d[-8:] for s, d in file.files.items()}\n"
        "    half = {s: d[:99] for s, d in file.files.items()}\n"
        "    for files in (bad, half):\n"
        "        broken = WeightsFile('a' + kind, files)\n"
        "        try: formats.decode_weights(broken, layout, {})\n"
        "        except UserError: pass\n"
    )
    done = python("-c", code, str(XAGENTS / "a2c-cartpole.tf"), cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert os.listdir(tmp_path) == []
