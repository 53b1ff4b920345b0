"""A `.keras` file of someone else has layers of Keras that compute, and weights.

Each file is one that Keras wrote, with another config.
"""

import functools
import io
import json
import marshal
import math
import zipfile
from base64 import b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import h5py
import keras
import pytest

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import WeightsFile
from xagents_ray.networks import keras_archive, keras_conversion, keras_models
from xagents_ray.networks.keras_layers import WholeModel
from xagents_ray.networks.layout import Layout
from xagents_ray.networks.reading import layout_for
from xagents_ray.run.weights_formats import decode_weights
from xagents_ray.settings.config import Config
from xagents_ray.storage.run_directory import RunDirectory

SPEC = EnvSpec((4,), "float32", 1, 3)
layers = keras.layers


class Unregistered(layers.Layer):  # type: ignore[misc]
    def call(self, x: Any) -> Any:
        return x


@keras.saving.register_keras_serializable("test")
class Registered(layers.Layer):  # type: ignore[misc]
    def call(self, x: Any) -> Any:
        return x


def whole_file(*between: Any, **dense: Any) -> bytes:
    """Return a file of a network that begins with a layer which NumPy can't compute."""
    x = given = keras.Input((4,))
    for each in (layers.Dense(8, use_bias=False, name="first", **dense), *between):
        x = each(x)
    model = keras.Model(given, [layers.Dense(3)(x), layers.Dense(1)(x)])
    return keras_models.model_bytes(model, "own")


@functools.cache
def known_file() -> bytes:
    """Return a file of a network that NumPy computes."""
    given = keras.Input((4,))
    x = layers.Dense(8, "relu", name="first")(given)
    model = keras.Model(given, [layers.Dense(3)(x), layers.Dense(1)(x)])
    return keras_models.model_bytes(model, "own")


def edited(
    file: bytes,
    edit: Callable[[dict[str, Any]], None],
    method: int = zipfile.ZIP_STORED,
) -> bytes:
    """Return a file with a changed config; `edit` changes the config in place."""
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(file)) as before,
        zipfile.ZipFile(out, "w", method) as after,
    ):
        for name in before.namelist():
            data = before.read(name)
            if name == "config.json":
                config = json.loads(data)
                edit(config)
                data = json.dumps(config).encode()
            after.writestr(name, data)
    return out.getvalue()


def first_layer(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of the layer `first` in a model's config."""
    entries = config["config"]["layers"]
    found: dict[str, Any] = next(x for x in entries if x["config"]["name"] == "first")
    return found


def replaced(**entry: Any) -> Callable[[dict[str, Any]], None]:
    """Return a function that puts another class in place of the layer `first`."""

    def edit(config: dict[str, Any]) -> None:
        first = first_layer(config)
        given = {"name": "first", **entry.get("config", {})}
        first |= {"registered_name": None, **entry, "config": given}

    return edit


def without_module(
    name: str, registered: str | None = None
) -> Callable[[dict[str, Any]], None]:
    """Return a function that puts a class of Keras 2 in place of the layer `first`."""

    def edit(config: dict[str, Any]) -> None:
        first = first_layer(config)
        first |= {"class_name": name, "registered_name": registered}
        first.pop("module", None)

    return edit


def set_in_first(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda config: first_layer(config)["config"].update({name: value})


def function(module: str, name: str) -> dict[str, Any]:
    return {
        "module": module,
        "class_name": "function",
        "config": name,
        "registered_name": name,
    }


CODE = b64encode(marshal.dumps((lambda x: x).__code__)).decode()
LAMBDA = {"class_name": "__lambda__", "config": {"value": CODE}}
INNER: dict[str, Any] = {
    "module": "os",
    "class_name": "system",
    "config": {},
    "registered_name": None,
}
ATTACKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "a named function": replaced(
        module="keras.layers",
        class_name="Lambda",
        config={"function": function("keras.utils", "get_file")},
    ),
    "marshalled code": replaced(
        module="keras.layers", class_name="Lambda", config={"function": LAMBDA}
    ),
    "an internal name": replaced(
        module="keras.src.layers.core.lambda_layer",
        class_name="Lambda",
        config={"function": LAMBDA},
    ),
    "a SavedModel": replaced(
        module="keras.layers", class_name="TFSMLayer", config={"filepath": "/tmp/x"}
    ),
    "a pickle": replaced(
        module="keras.layers", class_name="TorchModuleWrapper", config={"module": "x"}
    ),
    "another file": replaced(
        module="keras.layers",
        class_name="StringLookup",
        config={"vocabulary": "/etc/passwd"},
    ),
    "another module": replaced(module="subprocess", class_name="Popen"),
    "a class of nobody": replaced(module=__name__, class_name="Unregistered"),
    "no module": replaced(module=None, class_name="Lambda"),
    "code of a registered name": replaced(
        module=None, class_name="__lambda__", registered_name="test>Registered"
    ),
    "the name of another": without_module("Lambda", "test>Registered"),
    "a long text": replaced(
        class_name="__numpy__", config={"value": ["a"], "dtype": "S1000000000"}
    ),
    "no name": replaced(module="keras.layers", class_name=["Dense"]),
    "a type": replaced(module="os", class_name="__typespec__", spec_name="x"),
    "an initializer": set_in_first("kernel_initializer", INNER),
    "a regularizer": set_in_first("kernel_regularizer", function("os", "system")),
    "an activation": set_in_first("activation", LAMBDA),
    "an argument": lambda config: config["config"]["layers"][-1]["inbound_nodes"][0][
        "kwargs"
    ].update(x=INNER),
    "a model within": replaced(
        module="keras",
        class_name="Sequential",
        config={"layers": [{"class_name": "Lambda", "module": "keras.layers"}]},
    ),
    "a utility": replaced(module="keras.utils", class_name="FeatureSpace"),
    "a loader": replaced(module="keras.models", class_name="load_model"),
}
FILES = {"known to NumPy": known_file, "unknown to NumPy": functools.cache(whole_file)}


def layout_of(data: bytes, name: str = "own.keras") -> Layout:
    Path(name).write_bytes(data)
    return layout_for(name, "", SPEC, (3, 1))


@pytest.fixture
def keras_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def reached(*_: Any, **__: Any) -> None:
        raise AssertionError("Keras has read the file")

    for name in ("load_model", "deserialize_keras_object"):
        monkeypatch.setattr(keras.saving, name, reached)


@pytest.mark.usefixtures("keras_reads_nothing")
@pytest.mark.parametrize("file", FILES.values(), ids=FILES)
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_other_classes_are_refused_before_keras_reads_them(
    attack: Callable[[dict[str, Any]], None], file: Callable[[], bytes]
) -> None:
    data = edited(file(), attack)
    with pytest.raises(UserError, match="not one of Keras' layers that only compute"):
        layout_of(data)


@pytest.mark.usefixtures("keras_reads_nothing")
def test_so_is_a_runs_own_copy(tmp_path: Path) -> None:
    row = find_algorithm("ppo")
    config = Config.of(row.config, {"env": "CartPole-v1", "model": "own.keras"})
    copy = edited(known_file(), ATTACKS["a named function"])
    RunDirectory(tmp_path).begin("ppo", 1, config.groups(), {"model.keras": copy})
    path = RunDirectory(tmp_path).settings()[1]["model"]
    assert path == str(tmp_path / "model.keras")
    with pytest.raises(UserError, match=r"model\.keras: it has 'Lambda' of the module"):
        layout_for(path, "", SPEC, (3, 1))


def test_a_registered_class_is_read() -> None:
    layout = layout_of(whole_file(Registered()))
    assert "Registered" in layout.layers[0].kinds  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="it has 'Unregistered' of the module"):
        layout_of(whole_file(Unregistered()))


def test_a_compiled_model_and_layers_in_layers_are_read() -> None:
    x = given = keras.Input((4,))
    x = layers.Reshape((2, 2))(x)
    cell = layers.LSTM(5, dropout=0.1, recurrent_regularizer="l2", seed=1)
    x = layers.Bidirectional(cell)(x)
    inner = keras.Sequential([keras.Input((10,)), layers.Dense(4, "gelu")])
    x = keras.ops.concatenate([inner(x), given], axis=-1)
    x = layers.SpectralNormalization(layers.Dense(4))(x)
    model = keras.Model(given, [layers.Dense(3)(x), layers.Dense(1)(x)])
    model.compile(keras.optimizers.Adam(1e-3), "mse")
    layout = layout_of(keras_models.model_bytes(model, "own"))
    assert isinstance(layout.layers[0], WholeModel)


@pytest.mark.parametrize("file", FILES.values(), ids=FILES)
def test_weights_are_in_the_file(file: Callable[[], bytes]) -> None:
    """A config of few bytes can name as many units as it likes."""

    def widen(config: dict[str, Any]) -> None:
        set_in_first("units", 10**9)(config)
        for entry in config["config"]["layers"]:  # or the next layer would not fit
            entry.pop("build_config", None)

    data = edited(file(), widen)
    with pytest.raises(UserError, match="its layers have more weights than the file"):
        layout_of(data)


def test_what_layers_return_is_bounded() -> None:
    """Layers without weights can enlarge what they get as they like."""
    x = given = keras.Input((4,))
    x = layers.RepeatVector(10**8, name="many")(x)
    inner = keras.Sequential([keras.Input(x.shape[1:]), layers.GlobalMaxPooling1D()])
    x = inner(x)
    model = keras.Model(given, [layers.Dense(3)(x), layers.Dense(1)(x)])
    with pytest.raises(UserError, match="its layer 'many' returns 400,000,000 numbers"):
        layout_of(keras_models.model_bytes(model, "own"))


@pytest.mark.usefixtures("keras_reads_nothing")
def test_the_number_of_layers_is_bounded() -> None:
    def edit(config: dict[str, Any]) -> None:
        config["config"]["layers"] += [first_layer(config)] * 2_000

    with pytest.raises(UserError, match=r"2,00\d layers, more than the 2,000"):
        layout_of(edited(known_file(), edit))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_parts_are_compressed_as_others_do(method: int) -> None:
    """Other methods may make gigabytes of a few bytes in one step."""
    data = edited(known_file(), lambda _: None, method)
    with pytest.raises(UserError, match=r"own\.keras: not a Keras model, or a damaged"):
        layout_of(data)
    with pytest.raises(UserError, match=r"not a \.keras weights file, or a"):
        decode_weights(WeightsFile("a.keras", {"": data}), layout_of(known_file()), {})


@pytest.mark.parametrize(
    "shapes", [[(4, 8), (9,)], [(4, 10**9), (10**9, -4)], [(math.nan, 1)]]
)
def test_no_layer_hides_the_weights_of_others(shapes: Any) -> None:
    keras_archive.check_size("a", [(4, 8), (8,)], 160)
    with pytest.raises(UserError, match="its layers have more weights than the file"):
        keras_archive.check_size("a", shapes, 160)


def test_weights_are_drawn_again_in_the_safe_mode(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a file, Keras runs no code when it makes its model a second time either."""
    modes: list[bool] = []
    make = keras.saving.deserialize_keras_object

    def seen(*given: Any, safe_mode: bool = True, **others: Any) -> Any:
        modes.append(safe_mode)
        return make(*given, safe_mode=safe_mode, **others)

    data = whole_file()
    layout = layout_of(data)
    monkeypatch.setattr(keras.saving, "deserialize_keras_object", seen)
    assert keras_models.weights_of("own.keras", data, layout, "seed")
    assert modes and all(modes)


def h5_file(edit: Callable[[dict[str, Any]], None]) -> bytes:
    """Return a file as of Keras 2 with a changed config."""
    given = keras.Input((4,))
    x = layers.Dense(8, "relu", name="first")(given)
    model = keras.Model(given, [layers.Dense(3)(x), layers.Dense(1)(x)])
    model.save("own.h5")
    with h5py.File("own.h5", "a") as file:
        config = json.loads(file.attrs["model_config"])
        edit(config)
        file.attrs["model_config"] = json.dumps(config)
    return Path("own.h5").read_bytes()


OLD = ("Lambda", "TFSMLayer", "IndexLookup", "StringLookup", "deserialize", "function")
H5_ATTACKS = {**ATTACKS, **{f"{x} of no module": without_module(x) for x in OLD}}


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("attack", H5_ATTACKS.values(), ids=H5_ATTACKS)
def test_other_classes_in_old_files_are_refused(
    attack: Callable[[dict[str, Any]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = h5_file(attack)

    def reached(*_: Any, **__: Any) -> None:
        raise AssertionError("Keras has read the file")

    monkeypatch.setattr(keras.models, "load_model", reached)
    monkeypatch.setattr(keras.Model, "from_config", reached)
    with pytest.raises(UserError, match="not one of Keras' layers that only compute"):
        keras_conversion.keras_file_of_h5("own.h5", data)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_weights_are_in_old_files() -> None:
    data = h5_file(set_in_first("units", 10**9))
    with pytest.raises(UserError, match="its layers have more weights than the file"):
        keras_conversion.keras_file_of_h5("own.h5", data)
    with h5py.File("own.h5", "a") as file:
        del file.attrs["model_config"]
    with pytest.raises(UserError, match=r"^own\.h5: Keras can't .* it has no model"):
        keras_conversion.keras_file_of_h5("own.h5", Path("own.h5").read_bytes())
