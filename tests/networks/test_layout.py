"""Reading .cfg files, what is said of mistakes in them, and initial weights."""

import itertools
import shutil
from pathlib import Path
from typing import Any, cast

import keras
import numpy as np
import pytest

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.networks import keras as networks
from xagents_ray.networks.forward import bind_network
from xagents_ray.networks.kinds import register_initializer
from xagents_ray.networks.layers import Convolutional, Dense
from xagents_ray.networks.layout import Layout
from xagents_ray.networks.reading import layout_for, read_layout
from xagents_ray.networks.section import INITIALIZERS

IMAGE = (84, 84, 1)
# The example of the reference document, section 3.10.
EXAMPLE = """
[convolutional-0]
filters=32
size=8
stride=4
activation=relu
initializer=orthogonal
gain=1.4142135

[convolutional-1]
filters=64
size=4
stride=2
activation=relu
initializer=orthogonal
gain=1.4142135

[convolutional-2]
filters=64
size=3
stride=1
activation=relu
initializer=orthogonal
gain=1.4142135

[flatten-0]

[dense-0]
units=512
activation=relu
initializer=orthogonal
gain=1.4142135
common=1

[dense-1]
initializer=orthogonal
gain=0.01
output=1

[dense-2]
initializer=orthogonal
gain=1.0
output=1
"""


def read(path: Path, text: str, shape: Any = IMAGE, outputs: Any = (6, 1)) -> Layout:
    path = path / "net.cfg"
    path.write_text(text, encoding="utf-8")
    return read_layout(path, shape, outputs, 1.0)


def kernels(model: Any) -> dict[str, Any]:
    weights = networks.named_weights(model)
    return {k: v.numpy() for k, v in weights.items() if k.endswith("/kernel")}


def test_reference_example(tmp_path: Path) -> None:
    layout = read(tmp_path, EXAMPLE)
    model = networks.build_model(layout, 0, "model")
    assert model.count_params() == 1_681_575
    assert model.input_shape == (None, 84, 84, 1)
    assert [tuple(output.shape) for output in model.outputs] == [(None, 6), (None, 1)]
    shapes = [layer.output_shape for layer in layout.layers]
    assert shapes == [(20, 20, 32), (9, 9, 64), (7, 7, 64), (3136,), (512,), (6,), (1,)]
    assert [layer.source for layer in layout.layers] == [-1, 0, 1, 2, 3, 4, 4]
    sizes = [layer.count_params() for layer in model.layers[1:]]
    assert sizes == [2080, 32832, 36928, 0, 1606144, 3078, 513]


def test_gain_and_orthogonality_reach_keras(tmp_path: Path) -> None:
    weights = kernels(networks.build_model(read(tmp_path, EXAMPLE), 0, "model"))
    for name, gain in (("dense-0", 1.4142135), ("dense-1", 0.01), ("dense-2", 1.0)):
        kernel = weights[f"{name}/kernel"]
        product = kernel.T @ kernel
        expected = gain**2 * np.eye(len(product))
        np.testing.assert_allclose(product, expected, atol=1e-5 * gain**2)


def test_defaults_of_keys(tmp_path: Path) -> None:
    text = "[convolutional-0]\nfilters=2\nsize=3\n[flatten-0]\n[dense-0]\noutput=1\n"
    convolution, _, dense = read(tmp_path, text, outputs=[5]).layers
    assert isinstance(convolution, Convolutional) and convolution.stride == 1
    assert isinstance(dense, Dense)
    assert (dense.activation, dense.initializer) == ("linear", "glorot_uniform")
    assert dense.output_shape == (5,)


VECTOR_HEADS = "[dense-8]\noutput=1\n[dense-9]\noutput=1\n"
IMAGE_HEADS = f"[flatten-9]\ncommon=1\n{VECTOR_HEADS}"
VECTOR_MISTAKES = {
    "unknown kind": ("[rnn-0]\nunits=4\n", ["[rnn-0]", "dense", "convolutional"]),
    "no number": ("[dense0]\nunits=4\n", ["[dense0]", "KIND-NUMBER"]),
    "unknown key": ("[dense-0]\nunit=4\n", ["[dense-0] unit", "units"]),
    "foreign key": ("[dense-0]\nunits=4\nsize=2\n", ["[dense-0] size", "units"]),
    "key of flatten": ("[flatten-0]\nunits=2\n", ["[flatten-0] units", "common"]),
    "non-number": ("[dense-0]\nunits=many\n", ["[dense-0] units", "'many'", "≥ 1"]),
    "fraction": ("[dense-0]\nunits=6.5\n", ["[dense-0] units", "'6.5'", "whole"]),
    "zero": ("[dense-0]\nunits=0\n", ["[dense-0] units", "'0'", "≥ 1"]),
    "negative": ("[dense-0]\nunits=-3\n", ["[dense-0] units", "'-3'", "≥ 1"]),
    "empty value": ("[dense-0]\nunits=\n", ["[dense-0] units", "''", "≥ 1"]),
    "missing units": ("[dense-0]\nactivation=relu\n", ["[dense-0] units", "missing"]),
    "unknown activation": (
        "[dense-0]\nunits=4\nactivation=rellu\n",
        ["[dense-0] activation", "'rellu'; did you mean relu", "? Known are linear"],
    ),
    "unknown initializer": (
        "[dense-0]\nunits=4\ninitializer=ortogonal\n",
        ["[dense-0] initializer", "did you mean orthogonal", "; register one of your"],
    ),
    "gain without orthogonal": (
        "[dense-0]\nunits=4\ngain=1\n",
        ["[dense-0] gain", "orthogonal"],
    ),
    "gain of another initializer": (
        "[dense-0]\nunits=4\ninitializer=he_normal\ngain=1\n",
        ["[dense-0] gain", "orthogonal"],
    ),
    "gain is no number": (
        "[dense-0]\nunits=4\ninitializer=orthogonal\ngain=big\n",
        ["[dense-0] gain", "'big'"],
    ),
    "gain is infinite": (
        "[dense-0]\nunits=4\ninitializer=orthogonal\ngain=inf\n",
        ["[dense-0] gain", "'inf'"],
    ),
    "switch": ("[dense-0]\nunits=4\ncommon=yes\n", ["[dense-0] common", "0 or 1"]),
    "output switch": ("[dense-0]\noutput=2\n", ["[dense-0] output", "0 or 1"]),
    "convolution of a vector": (
        "[convolutional-0]\nfilters=2\nsize=2\n",
        ["[convolutional-0]", "images"],
    ),
    "wrong output": ("[dense-0]\nunits=5\noutput=1\n", ["[dense-0] units", "needs 6"]),
}
IMAGE_MISTAKES = {
    "no filters": (
        "[convolutional-0]\nsize=2\n",
        ["[convolutional-0] filters", "missing"],
    ),
    "no size": (
        "[convolutional-0]\nfilters=2\n",
        ["[convolutional-0] size", "missing"],
    ),
    "stride": (
        "[convolutional-0]\nfilters=2\nsize=2\nstride=0\n",
        ["[convolutional-0] stride", "≥ 1"],
    ),
    "large kernel": (
        "[convolutional-0]\nfilters=2\nsize=85\n",
        ["[convolutional-0] size", "85", "84x84"],
    ),
    "large second kernel": (
        "[convolutional-0]\nfilters=2\nsize=8\nstride=16\n"
        "[convolutional-1]\nfilters=2\nsize=6\n",
        ["[convolutional-1] size", "6", "5x5"],
    ),
    "dense without flatten": (
        "[convolutional-0]\nfilters=2\nsize=4\n[dense-0]\nunits=4\n",
        ["[dense-0]", "[flatten-0]"],
    ),
    "dense on the frames": ("[dense-0]\nunits=4\n", ["[dense-0]", "[flatten-0]"]),
    "output of a convolution": (
        "[convolutional-0]\nfilters=2\nsize=4\noutput=1\n",
        ["[convolutional-0] output"],
    ),
}
CASES = [
    *((name, *case, (4,), VECTOR_HEADS) for name, case in VECTOR_MISTAKES.items()),
    *((name, *case, IMAGE, IMAGE_HEADS) for name, case in IMAGE_MISTAKES.items()),
]


@pytest.mark.parametrize(
    ("text", "parts", "shape", "heads"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_mistakes_are_named(
    text: str, parts: list[str], shape: Any, heads: str, tmp_path: Path
) -> None:
    read(tmp_path, heads, shape)  # nothing else is wrong
    with pytest.raises(UserError) as error:
        read(tmp_path, text + heads, shape)
    message = str(error.value)
    for part in (str(tmp_path / "net.cfg"), *parts):
        assert part in message
    assert "\n" not in message
    assert message[-1] in ".?"


@pytest.mark.parametrize("heads", [0, 1, 3], ids=["none", "too few", "too many"])
def test_wrong_number_of_outputs(heads: int, tmp_path: Path) -> None:
    text = "[dense-0]\nunits=4\ncommon=1\n"
    text += "".join(f"[dense-{i}]\noutput=1\n" for i in range(1, heads + 1))
    with pytest.raises(UserError, match=r"net\.cfg.*output") as error:
        read(tmp_path, text, (4,))
    words = {
        0: "has 0 output layers and the agent needs 2; mark",
        1: "has 1 output layer and the agent needs 2; mark",
        3: "[dense-3] output: the agent needs only 2 outputs; remove this one.",
    }
    assert words[heads] in str(error.value)


@pytest.mark.parametrize("common", ["", "common=1\n"], ids=["end", "common"])
def test_layers_that_lead_nowhere(common: str, tmp_path: Path) -> None:
    """The network would leave them out, and acting would miss their weights."""
    text = f"[dense-0]\nunits=4\ncommon=1\n{VECTOR_HEADS}[dense-10]\nunits=4\n{common}"
    with pytest.raises(UserError, match=r"net.cfg.*\[dense-10\]"):
        read(tmp_path, text, (4,))


def test_section_names_that_keras_refuses(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"net.cfg.*\[dense-a/b\]"):
        read(tmp_path, f"[dense-a/b]\nunits=4\n{VECTOR_HEADS}", (4,))


UNREADABLE = {
    "key first": (b"units=4\n[dense-0]\n", "line 1 is in no section"),
    "no value": (b"[dense-0]\nunits\n", "line 2 is neither a section nor a key with"),
    "twice the section": (
        b"[dense-0]\nunits=4\n[dense-0]\nunits=4\n",
        "line 3 begins [dense-0] again",
    ),
    "twice the key": (
        b"[dense-0]\nunits=4\nunits=4\n",
        "line 3 gives units of [dense-0] again",
    ),
    "binary": (bytes(range(256)) * 8, "it is no text in UTF-8"),
    "zeros": (bytes(64), "line 1 is in no section"),
    "invalid UTF-8": (b"[dense-0]\nunits=\xff\n", "it is no text in UTF-8"),
}


@pytest.mark.parametrize(
    ("content", "reason"), UNREADABLE.values(), ids=list(UNREADABLE)
)
def test_what_is_not_a_cfg_file(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "garbage.cfg"
    path.write_bytes(content)
    with pytest.raises(UserError) as error:
        read_layout(path, (4,), (6, 1), 1.0)
    message = str(error.value)
    assert message.startswith(f"{path}: not a .cfg file: {reason}")
    assert message.isprintable()


def test_missing_file(tmp_path: Path) -> None:
    spec = EnvSpec((4,), "float32", 1, 2)
    for path in (tmp_path / "none.cfg", tmp_path):
        with pytest.raises(UserError, match=r"--model a \.cfg file") as error:
            layout_for(str(path), "q-{kind}.cfg", spec, [2])
        assert str(path) in str(error.value)


def test_the_default_fits_the_observations() -> None:
    vector = EnvSpec((4,), "float32", 1, 2)
    ram = EnvSpec((128,), "uint8", 1, 2)
    image = EnvSpec((84, 84), "uint8", 4, 2)
    read = [layout_for(None, "q-{kind}.cfg", s, [2]) for s in (vector, ram, image)]
    assert [layout.scale for layout in read] == [1, 1 / 255, 1 / 255]
    assert [layout.input_shape for layout in read] == [(4,), (128,), (84, 84, 4)]
    assert [type(layout.layers[0]) for layout in read] == [Dense, Dense, Convolutional]


def test_own_file_takes_precedence(tmp_path: Path) -> None:
    path = tmp_path / "own.cfg"
    package = Path(networks.__file__).parent
    shutil.copy(package / "actor-critic-vector.cfg", path)
    spec = EnvSpec((4,), "float32", 1, 2)
    assert len(layout_for(str(path), "q-{kind}.cfg", spec, [2, 1]).outputs) == 2


def four_equal_layers(initializer: str) -> str:
    layers = [f"[dense-{i}]\nunits=24\ninitializer={initializer}\n" for i in range(4)]
    return "".join(layers) + f"[dense-4]\noutput=1\ninitializer={initializer}\n"


CONSTANT = {"zeros", "ones", "constant", "identity"}


@pytest.mark.parametrize("initializer", [i for i in INITIALIZERS if i not in CONSTANT])
def test_no_two_layers_share_values(initializer: str, tmp_path: Path) -> None:
    """Keras draws the same values twice from one seed."""
    layout = read(tmp_path, four_equal_layers(initializer), (24,), [24])
    policy = networks.build_model(layout, 7, "policy")
    target = networks.build_model(layout, 7, "target")
    drawn = [k.ravel() for m in (policy, target) for k in kernels(m).values()]
    assert len(drawn) == 10
    for one, other in itertools.combinations(drawn, 2):
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.25


def test_zeros(tmp_path: Path) -> None:
    layout = read(tmp_path, four_equal_layers("zeros"), (24,), [24])
    assert not any(
        k.any() for k in kernels(networks.build_model(layout, 7, "q")).values()
    )


# What needs arguments, or has no kernel of these layers.
NOT_BY_NAME = {"Initializer", "STFT"}
KERAS_INITIALIZERS = sorted(
    name
    for name, kind in vars(keras.initializers).items()
    if isinstance(kind, type) and kind.__name__ not in NOT_BY_NAME
)


@pytest.mark.parametrize("name", [*KERAS_INITIALIZERS, "normal", "uniform", "zero"])
def test_every_initializer_of_keras_works_by_name(name: str, tmp_path: Path) -> None:
    """Its values are those that Keras draws with the layer's seed."""
    layout = read(tmp_path, f"[dense-0]\ninitializer={name}\noutput=1\n", (6,), [6])
    model = networks.build_model(layout, 5, "q")
    (layer,) = (each for each in model.layers if each.weights)
    if name.lower() == "constant":  # which Keras can't make by its name
        expected = keras.initializers.Constant()
    else:
        expected = keras.initializers.get(name)
    assert type(layer.kernel_initializer) is type(expected)
    config = expected.get_config()
    if "seed" in config:
        config["seed"] = layer.kernel_initializer.seed
    again = type(expected).from_config(config)((6, 6))
    np.testing.assert_array_equal(layer.kernel.numpy(), again.numpy())


def test_the_names_of_keras_initializers_are_all_there() -> None:
    assert len(KERAS_INITIALIZERS) >= 15
    assert {"HeNormal", "TruncatedNormal"} <= {*KERAS_INITIALIZERS}


def test_identity_has_no_convolution(tmp_path: Path) -> None:
    text = "[convolutional-0]\nfilters=2\nsize=3\ninitializer=identity\n"
    with pytest.raises(UserError, match=r"\[convolutional-0\] initializer: identity"):
        read(tmp_path, text + IMAGE_HEADS)


class Doubled(keras.initializers.Initializer):
    """Fills a kernel with twice its gain."""

    def __init__(self, gain: float = 1.0) -> None:
        self.gain = gain

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        return np.full(shape, 2 * self.gain, np.float32)


OWN = {
    "a class": (Doubled, 3.0, 6.0),
    "an instance": (Doubled(5.0), None, 10.0),
    "a function that makes one": (lambda gain: Doubled(gain), 4.0, 8.0),
    "an initializer": (lambda shape, dtype: np.full(shape, 7.0, np.float32), None, 7),
}


@pytest.mark.parametrize(("given", "gain", "value"), OWN.values(), ids=list(OWN))
def test_own_initializers(
    given: Any, gain: float | None, value: float, tmp_path: Path
) -> None:
    register_initializer("my-own", given)
    text = "[dense-0]\ninitializer=my-own\noutput=1\n"
    text += "" if gain is None else f"gain={gain}\n"
    layout, nothing = read(tmp_path, text, (3,), [2]), cast("Any", None)
    model = networks.build_model(layout, 5, "q")
    assert (kernels(model)["dense-0/kernel"] == value).all()
    run = RunSpec(nothing, nothing, nothing, (layout,), 0)
    assert run.parts_of_networks == [("initializer", "my-own")]  # they travel with it


def test_instances_without_a_seed_get_one(tmp_path: Path) -> None:
    register_initializer("mine", keras.initializers.RandomNormal(stddev=0.1))
    layout = read(tmp_path, four_equal_layers("mine"), (24,), [24])
    drawn = [
        kernels(networks.build_model(layout, seed, "q"))["dense-0/kernel"]
        for seed in (7, 7, 8)
    ]
    assert (drawn[0] == drawn[1]).all() and (drawn[0] != drawn[2]).any()


SEEDED = keras.initializers.RandomNormal(stddev=0.1, seed=3)


class Unseeded(keras.initializers.RandomNormal):
    """Can't be made from its config."""

    def __init__(self) -> None:
        super().__init__(0.0, 0.1)


@pytest.mark.parametrize("given", [SEEDED, lambda: SEEDED, Unseeded])
def test_a_second_network_gets_another_seed(given: Any, tmp_path: Path) -> None:
    """Critics that begin alike would stay so for ever."""
    register_initializer("mine", given)
    layout = read(tmp_path, four_equal_layers("mine"), (24,), [24])
    one, again, second = (
        kernels(networks.build_model(layout, seed, "q", redrawn=redrawn))
        for seed, redrawn in ((7, False), (8, False), (7, True))
    )
    for name, array in one.items():
        assert (array == again[name]).all() == (given is not Unseeded)
        assert abs(np.corrcoef(array.ravel(), second[name].ravel())[0, 1]) < 0.25


def test_a_shared_instance_that_cant_be_redrawn(tmp_path: Path) -> None:
    register_initializer("mine", Unseeded())
    layout = read(tmp_path, four_equal_layers("mine"), (24,), [24])
    networks.build_model(layout, 7, "critic")
    with pytest.raises(UserError, match=r"'mine' can't be made with another seed \(T"):
        networks.build_model(layout, 7, "critic-2", redrawn=True)


def test_initializers_that_are_refused(tmp_path: Path) -> None:
    register_initializer("HeNormal", keras.initializers.HeNormal)  # is known
    for name, given, words in (
        ("he_normal", Doubled, "as one of Keras is"),
        ("odd", "he_normal", "give a Keras initializer"),
    ):
        with pytest.raises(UserError, match=words):
            register_initializer(name, given)

    def needy(needed: float) -> None:
        """Take what nobody gives."""

    register_initializer("needy", needy)  # so that the file is read
    layout = read(tmp_path, "[dense-0]\ninitializer=needy\noutput=1\n", (3,), [2])
    for each in (needy, dict):  # the latter has no signature
        register_initializer("needy", each)
        with pytest.raises(UserError, match=r"'needy' can't be made .* gain and seed"):
            networks.build_model(layout, 0, "q")


def test_name_and_seed_decide_the_weights(tmp_path: Path) -> None:
    layout = read(tmp_path, four_equal_layers("glorot_uniform"), (24,), [24])
    made = {
        key: kernels(networks.build_model(layout, *key))
        for key in ((0, "policy"), (1, "policy"), (0, "target"), (2**31 - 1, "policy"))
    }
    again = kernels(networks.build_model(layout, 0, "policy"))
    for name, kernel in again.items():
        np.testing.assert_array_equal(kernel, made[0, "policy"][name])
        for one, other in itertools.combinations(made.values(), 2):
            assert abs(np.corrcoef(one[name].ravel(), other[name].ravel())[0, 1]) < 0.25


def test_swish_is_silu(tmp_path: Path) -> None:
    text = "[dense-0]\noutput=1\nactivation=swish\n"
    (layer,) = read(tmp_path, text, (3,), [2]).layers
    assert layer.activation == "silu"


def test_separated_outputs_share_no_layer(tmp_path: Path) -> None:
    """With the same weights in the copies, it computes what it did before."""
    path = tmp_path / "shared.cfg"
    text = "[dense-0]\nunits=5\nactivation=tanh\n[dense-1]\nunits=4\ncommon=1\n"
    path.write_text(f"{text}[dense-2]\noutput=1\n[dense-3]\noutput=1\n")
    shared = read_layout(path, (3,), (2, 1), 1.0)
    own = shared.separated()
    names = ["dense-0", "dense-1", "dense-2", "dense-0-2", "dense-1-2", "dense-3"]
    assert [layer.name for layer in own.layers] == names
    assert [layer.source for layer in own.layers] == [-1, 0, 1, -1, 3, 4]
    assert own.outputs == (2, 5)
    arrays = networks.weight_arrays(networks.build_model(shared, 1, "policy"))
    copies = {
        name: arrays[name.replace("-2/", "/")]
        for name in own.shapes
        if name not in arrays
    }
    x = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    together, apart = (
        bind_network(shared, arrays),
        bind_network(own, {**arrays, **copies}),
    )
    for one, other in zip(together(x), apart(x), strict=True):
        np.testing.assert_array_equal(one, other)
    model = networks.build_model(own, 1, "policy")
    assert {v.shape for v in model.weights} == set(own.shapes.values())
    assert networks.named_weights(model).keys() == own.shapes.keys()
    assert own.separated() == own
