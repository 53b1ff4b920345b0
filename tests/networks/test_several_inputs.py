"""Networks of several arrays and of named parts: NumPy, Keras and ONNX agree."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from naive import random_arrays
from network_cases import model_of

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import VECTOR, EnvSpec, InputSpec
from xagents_ray.networks import keras as networks
from xagents_ray.networks import keras_models
from xagents_ray.networks.forward import bind_network
from xagents_ray.networks.heads import with_streams
from xagents_ray.networks.inputs import Selection
from xagents_ray.networks.keras_layers import WholeModel
from xagents_ray.networks.layout import Layout
from xagents_ray.networks.noisy import FACTORISED, Noisy, with_noise
from xagents_ray.networks.reading import layout_for

layers = keras.layers
INPUTS = (
    InputSpec("arm.joints", (3,), 0),
    InputSpec("camera", (12, 10, 3)),
    InputSpec("compass", (2,), 3),
    InputSpec("map", (14, 9)),
)
SEVERAL = EnvSpec((5,), "float32", 2, 3, inputs=INPUTS)
PARTS = (InputSpec("a", (2,), 0), InputSpec("b", (3,), 2), InputSpec("c", (1,), 5))
VECTORS = EnvSpec((6,), "float32", 1, 3, inputs=PARTS)
ALL = slice(None)
IMAGES = EnvSpec((0,), "float32", 1, 3, inputs=(INPUTS[1], INPUTS[3]))


def seen(spec: EnvSpec, rows: int = 5) -> Any:
    rng = np.random.default_rng(1)
    if not spec.has_several_arrays:
        return rng.normal(size=(rows, *spec.observation_shape)).astype(np.float32)
    found: dict[str, Any] = {}
    for name, (dtype, (*sides, channels)) in spec.arrays.items():
        if dtype == "float32":
            found[name] = rng.normal(size=(rows, channels)).astype(np.float32)
        else:
            full = (*sides, channels) if len(sides) == 2 else (*sides, channels, 1)
            shape = (rows, *full[:2], spec.stack * full[2])
            found[name] = rng.integers(0, 256, shape, np.uint8)
    return found


def assert_same(layout: Layout, x: Any) -> list[Any]:
    """Check that NumPy and Keras compute the same; return the outputs."""
    arrays = random_arrays(layout, 2)
    ours = bind_network(layout, arrays)(x)
    theirs = model_of(layout, arrays)(networks.scaled_inputs(layout, x))
    for one, other in zip(ours, theirs if len(ours) > 1 else [theirs], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    return ours


def written(path: Path, text: str) -> str:
    file = path / "net.cfg"
    file.write_text(text, encoding="utf-8")
    return str(file)


def moves(layout: Layout, output: int, x: Any, name: str, place: Any = ALL) -> bool:
    """Return whether an output depends on an array, or on components of it."""
    forward = bind_network(layout, random_arrays(layout, 2))
    changed = {**x, name: x[name].copy()} if name else x.copy()
    array = changed[name] if name else changed
    array[..., place] = array[..., place] // 2 + 40
    return not np.array_equal(forward(x)[output], forward(changed)[output])


@pytest.mark.parametrize("name", ["q", "actor-critic", "acer", "trpo-actor"])
@pytest.mark.parametrize("spec", [SEVERAL, IMAGES], ids=["all", "images"])
def test_default_networks(name: str, spec: EnvSpec) -> None:
    outputs = {"q": (3,), "trpo-actor": (3,), "acer": (3, 3)}.get(name, (3, 1))
    layout = layout_for(None, name + "-{kind}.cfg", spec, outputs)
    x = seen(spec)
    assert_same(layout, x)
    for array in x:
        assert all(moves(layout, i, x, array) for i in range(len(outputs)))
    kinds = [layer.name.partition("-")[0] for layer in layout.layers]
    assert kinds.count("flatten") == 2
    assert layout.stack == spec.stack


def test_the_first_layer_of_the_vectors_is_that_of_a_vector_network() -> None:
    layout = layout_for(None, "q-{kind}.cfg", SEVERAL, [3])
    first, joint, *_ = [x for x in layout.layers if x.name.startswith("dense")]
    plain = layout_for(None, "q-{kind}.cfg", EnvSpec((5,), "float32", 1, 3), [3])
    own = plain.layers[0]
    assert (first.shapes, first.activation) == (own.shapes, own.activation)
    assert len(joint.sources) == 3


def test_noise_and_streams_read_what_is_joined() -> None:
    plain = layout_for(None, "q-{kind}.cfg", SEVERAL, [3])
    noisy = with_noise(plain, FACTORISED)
    kinds = {layer.name: type(layer) is Noisy for layer in noisy.layers}
    assert not kinds["dense-0"]  # as the convolutions, it reads the input
    assert kinds["dense-1"]
    assert kinds["dense-2"]
    streams = with_streams(plain, 1)
    assert_same(streams, seen(SEVERAL))
    assert_same(plain.separated(), seen(SEVERAL))


SECTIONS = """
[input-camera]
[convolutional-0]
filters=4
size=5
stride=3
activation=relu
[flatten-0]
[input-map]
[flatten-1]
[input-compass]
[dense-0]
units=4
activation=tanh
[dense-1]
units=6
from=flatten-0, flatten-1,dense-0,input-compass
common=1
[dense-2]
output=1
[dense-3]
output=1
from=input-compass
"""


def test_sections_name_inputs_and_what_they_read(tmp_path: Path) -> None:
    layout = layout_for(written(tmp_path, SECTIONS), "", SEVERAL, (3, 1))
    x = seen(SEVERAL)
    assert_same(layout, x)
    reads = {name: [moves(layout, i, x, name) for i in (0, 1)] for name in x}
    assert reads["camera"] == reads["map"] == [True, False]
    compass, joints = slice(3, 5), slice(0, 3)
    assert [moves(layout, i, x, VECTOR, compass) for i in (0, 1)] == [True, True]
    assert [moves(layout, i, x, VECTOR, joints) for i in (0, 1)] == [False, False]


def test_raw_images_and_vectors_are_joined_scaled(tmp_path: Path) -> None:
    text = "[input-map]\n[flatten-0]\n[input-compass]\n[dense-0]\noutput=1\n"
    layout = layout_for(
        written(tmp_path, text + "from=flatten-0,input-compass\n"), "", SEVERAL, [3]
    )
    arrays, x = random_arrays(layout, 2), seen(SEVERAL)
    assert_same(layout, x)
    rows = x["map"].reshape(5, -1) / 255, x[VECTOR][:, 3:]
    expected = np.concatenate(rows, 1) @ arrays["dense-0/kernel"]
    found = bind_network(layout, arrays)(x)[0] - arrays["dense-0/bias"]
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_vectors_without_names_are_read_as_one(tmp_path: Path) -> None:
    own = written(tmp_path, "[dense-0]\noutput=1\n")
    plain = EnvSpec((6,), "float32", 1, 3)
    assert layout_for(own, "", VECTORS, [3]) == layout_for(own, "", plain, [3])
    default = "actor-critic-{kind}.cfg"
    one, other = (layout_for(None, default, x, (3, 1)) for x in (VECTORS, plain))
    assert one == other


def test_parts_of_the_only_array(tmp_path: Path) -> None:
    text = "[input-a]\n[input-c]\n[dense-0]\noutput=1\nfrom=input-a,input-c\n"
    layout = layout_for(written(tmp_path, text), "", VECTORS, [3])
    x = seen(VECTORS)
    assert_same(layout, x)
    assert not moves(layout, 0, x, "", slice(2, 5))
    assert moves(layout, 0, x, "", slice(5, 6))


def test_sections_may_name_inputs_that_have_a_slash(tmp_path: Path) -> None:
    """As those of dm_control; Keras allows no / in names of layers."""
    parts = InputSpec("walker/pos", (2,), 0), InputSpec("walker/speed", (3,), 2)
    spec = EnvSpec((5,), "float32", 1, 3, inputs=parts)
    text = "[input-walker/pos]\n[dense-0]\noutput=1\n"
    layout = layout_for(written(tmp_path, text), "", spec, [3])
    assert_same(layout, seen(spec))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[input-x]\n[dense-0]\noutput=1", r"\[input-x\]: no input .* arm.joints, cam"),
        ("[input-map]\nunits=3\n[dense-0]\noutput=1", "input sections have none"),
        ("[dense-0]\noutput=1", r"has several arrays; put one of \[input-arm.joints\]"),
        (
            "[input-map]\n[input-compass]\n[dense-0]\noutput=1\n",
            r"\[input-map\]: no layer reads it",
        ),
        (
            "[input-compass]\n[dense-0]\nunits=2\nfrom=dense-1\n[dense-1]\noutput=1\n",
            r"from: 'dense-1' is no section before it; those are input-compass",
        ),
        (
            "[input-map]\n[input-compass]\n[dense-0]\noutput=1\n"
            "from=input-map,input-compass\n",
            r"from: joins vectors only; put a \[flatten-N\]",
        ),
        (
            "[input-compass]\n[dense-0]\noutput=1\n[dense-1]\nfrom=dense-0\noutput=1",
            "from: dense-0 is an output",
        ),
    ],
)
def test_mistakes_in_sections(text: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=reason):
        layout_for(written(tmp_path, text), "", SEVERAL, (3, 1))


def test_one_array_has_no_named_inputs(tmp_path: Path) -> None:
    own = written(tmp_path, "[input-a]\n[dense-0]\noutput=1\n")
    with pytest.raises(UserError, match="has no named inputs; remove the section"):
        layout_for(own, "", EnvSpec((4,), "float32", 1, 3), [3])


def keras_model(names_by_key: bool = False, odd: Any = None) -> Any:
    """Return a Keras model of two named inputs."""
    image = keras.Input((14, 9, 2), name="first" if names_by_key else "map")
    vector = keras.Input((2,), name="second" if names_by_key else "compass")
    x = layers.Flatten()(layers.Conv2D(3, 4, 2, activation="relu")(image))
    x = layers.Concatenate()([x, vector])
    x = x if odd is None else odd(x)
    ends = [layers.Dense(3)(x), layers.Dense(1)(vector)]
    pairs: Any = [image, vector]
    return keras.Model(
        {"map": image, "compass": vector} if names_by_key else pairs, ends
    )


@pytest.mark.filterwarnings("ignore:When providing `inputs` as a dict")
@pytest.mark.parametrize("is_whole", [False, True])
@pytest.mark.parametrize("by_key", [False, True])
def test_keras_models_have_named_inputs(
    is_whole: bool, by_key: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    odd = layers.UnitNormalization() if is_whole else None
    model = keras_model(by_key, odd)
    file = keras_models.model_bytes(model, "own")
    Path("own.keras").write_bytes(file)
    layout = layout_for("own.keras", "", SEVERAL, (3, 1))
    assert (type(layout.layers[0]) is WholeModel) == is_whole
    variables = keras_models.user_variables(model, SEVERAL)
    assert {name: x.shape for name, x in variables.items()} == layout.shapes
    assert any(type(each) is Selection for each in layout.layers) != is_whole
    arrays, x = keras_models.weights_of("own", file, layout), seen(SEVERAL)
    named = {"map": x["map"] / np.float32(255), "compass": x[VECTOR][:, 3:]}
    expected = model(named if by_key else [*named.values()])
    inputs = networks.scaled_inputs(layout, x)
    for found in bind_network(layout, arrays)(x), model_of(layout, arrays)(inputs):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_keras_models_of_parts_of_the_only_array(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    x = seen(VECTORS)
    a, c = keras.Input((2,), name="a"), keras.Input((1,), name="c")
    model = keras.Model([a, c], layers.Dense(3)(layers.Concatenate()([c, a])))
    file = keras_models.model_bytes(model, "own")
    Path("own.keras").write_bytes(file)
    layout = layout_for("own.keras", "", VECTORS, [3])
    arrays = keras_models.weights_of("own", file, layout)
    (found,) = bind_network(layout, arrays)(x)
    np.testing.assert_allclose(found, model([x[:, :2], x[:, 5:]]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "name", "reason"),
    [
        ((2,), "x", "has an input 'x' and the observation has arm.joints, camera"),
        ((3,), "compass", r"reads 3 as compass and this is 2: .*Input\(\(2,\)\)"),
    ],
)
def test_inputs_of_keras_models_that_do_not_fit(
    shape: Any, name: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = keras.Sequential([keras.Input(shape, name=name), layers.Dense(3)])
    Path("own.keras").write_bytes(keras_models.model_bytes(model, "own"))
    with pytest.raises(UserError, match=reason):
        layout_for("own.keras", "", SEVERAL, [3])


def config_of(agent: str, **settings: Any) -> Any:
    return find_algorithm(agent).config(**settings)


@pytest.mark.parametrize("agent", ["a2c", "acer", "ppo", "trpo"])
@pytest.mark.parametrize("spec", [SEVERAL, VECTORS], ids=["several", "vectors"])
def test_policies_do_not_read_critic_inputs(agent: str, spec: EnvSpec) -> None:
    names = ("map", "arm.joints") if spec is SEVERAL else ("b",)
    config = config_of(agent, critic_inputs=",".join(names))
    layouts = find_algorithm(agent).layouts(config, spec)
    (policy, other), x = (layouts[0], layouts[-1]), seen(spec)
    last = len(other.outputs) - 1
    for layout in layouts:
        assert_same(layout, x)
    for name in names:
        part = next(each for each in spec.inputs if each.name == name)
        key = name if part.is_image else VECTOR if spec is SEVERAL else ""
        place = ALL if part.is_image else part.place
        assert not moves(policy, 0, x, key, place)
        assert moves(other, last, x, key, place)
    key = VECTOR if spec is SEVERAL else ""
    assert moves(policy, 0, x, key, slice(-1, None))


@pytest.mark.parametrize("agent", ["ddpg", "sac", "td3"])
def test_critics_of_actions_read_all(agent: str) -> None:
    bounds = {"action_low": (-1.0,), "action_high": (1.0,)}
    spec = EnvSpec((6,), "float32", 1, 0, inputs=PARTS, **bounds)
    row, config = find_algorithm(agent), config_of(agent, critic_inputs=["b"])
    actor, critic, *_ = row.layouts(config, spec)
    x = seen(spec)
    assert_same(actor, x)
    assert not moves(actor, 0, x, "", slice(2, 5))
    assert moves(actor, 0, x, "", slice(5, 6))
    assert critic == row.layouts(config_of(agent), spec)[1]


def test_a_file_whose_policy_reads_a_critic_input(tmp_path: Path) -> None:
    row, config = find_algorithm("ppo"), config_of("ppo", critic_inputs="b")
    shared = "[dense-0]\nunits=4\ncommon=1\n[dense-1]\noutput=1\n[dense-2]\noutput=1\n"
    own = written(tmp_path, shared)
    with pytest.raises(UserError, match=r"policy's output reads b, .*\[input-a\]"):
        row.layouts(config_of("ppo", critic_inputs="b", model=own), VECTORS)
    value = "[dense-1]\noutput=1\nfrom=input-b,input-c\n"
    apart = written(tmp_path, "[input-a]\n[dense-0]\noutput=1\n[input-b]\n[input-c]\n")
    Path(apart).write_text(Path(apart).read_text() + value)
    (layout,) = row.layouts(config_of("ppo", critic_inputs="b", model=apart), VECTORS)
    assert_same(layout, seen(VECTORS))
    idle = written(tmp_path, shared.replace("[dense-0]", "[input-a]\n[dense-0]"))
    with pytest.raises(UserError, match="no value reads b of --critic-inputs"):
        row.layouts(config_of("ppo", critic_inputs="b", model=idle), VECTORS)
    assert config.unread_inputs == ("b",)


@pytest.mark.parametrize(
    ("names", "spec", "reason"),
    [
        ("z", VECTORS, "there is no input 'z'; this environment has a, b, c"),
        ("a,b,c", VECTORS, "leaves no input for the policy"),
        ("a", EnvSpec((4,), "float32", 1, 3), "are one array: leave it out"),
    ],
)
def test_critic_inputs_that_do_not_fit(names: str, spec: EnvSpec, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        find_algorithm("ppo").layouts(config_of("ppo", critic_inputs=names), spec)
    with pytest.raises(UserError, match="here are none"):
        config_of("ppo", critic_inputs=" , ")
