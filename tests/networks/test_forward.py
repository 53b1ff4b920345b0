"""The NumPy forward pass is the Keras model."""

import inspect
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from naive import random_arrays
from network_cases import model_of, observations

from xagents_ray.core.spec import EnvSpec
from xagents_ray.networks import keras as networks
from xagents_ray.networks.activations import ACTIVATIONS
from xagents_ray.networks.forward import bind_network
from xagents_ray.networks.layers import product_with
from xagents_ray.networks.layout import Layout
from xagents_ray.networks.reading import layout_for, read_layout

VECTOR = EnvSpec((7,), "float32", 1, 5)
RAM = EnvSpec((128,), "uint8", 1, 5)
GREY = EnvSpec((84, 84), "uint8", 4, 6)
RGB = EnvSpec((84, 96, 3), "uint8", 2, 6)
BATCH = 5


def assert_same(layout: Layout, x: Any, gain: float = 1.0) -> None:
    model = model_of(layout, random_arrays(layout, 2, gain))
    before = x.copy()
    expected = model(networks.scaled_inputs(layout, x))
    if len(layout.outputs) == 1:
        expected = [expected]  # Keras unpacks it
    got = bind_network(layout, networks.weight_arrays(model))(x)
    np.testing.assert_array_equal(x, before)
    assert len(got) == len(expected) == len(layout.outputs)
    for mine, other in zip(got, expected, strict=True):
        theirs = other.numpy()
        assert mine.dtype == np.float32
        assert mine.shape == theirs.shape
        size = max(np.abs(theirs).max(), 1e-3)
        assert np.abs(mine - theirs).max() <= 1e-5 * size


@pytest.mark.parametrize(("size", "units"), [(3_136, 512), (3_137, 512), (514, 2_048)])
@pytest.mark.parametrize("rows", [1, 2, 8, 9])
def test_a_product_with_a_large_kernel(size: int, units: int, rows: int) -> None:
    """That of a few rows is summed in blocks, if the size has a suitable divisor."""
    rng = np.random.default_rng(rows)
    kernel = rng.normal(size=(size, units)).astype(np.float32)
    x = rng.normal(size=(size, 2 * rows)).astype(np.float32).T[::2]  # not contiguous
    found = product_with(kernel)(x)
    assert found.dtype == np.float32
    expected = x.astype(np.float64) @ kernel.astype(np.float64)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    "spec", [VECTOR, RAM, GREY, RGB], ids="vector ram grey rgb".split()
)
@pytest.mark.parametrize(
    ("name", "outputs"), [("actor-critic-{kind}.cfg", (6, 1)), ("q-{kind}.cfg", (6,))]
)
def test_default_networks(spec: EnvSpec, name: str, outputs: tuple[int, ...]) -> None:
    assert_same(layout_for(None, name, spec, outputs), observations(spec))


def read(text: str, shape: Any, outputs: list[int], scale: float = 1 / 255) -> Layout:
    path = Path("net.cfg")
    path.write_text(text, encoding="utf-8")
    return read_layout(path, shape, outputs, scale)


def frames(*shape: int) -> Any:
    return np.random.default_rng(5).integers(0, 256, shape, np.uint8)


@pytest.mark.parametrize("gain", [1.0, 300.0], ids=["usual", "saturated"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations(activation: str, gain: float) -> None:
    """Every layer kind with it, without warnings when it saturates."""
    text = (
        f"[convolutional-0]\nfilters=3\nsize=4\nstride=3\nactivation={activation}\n"
        f"[flatten-0]\n[dense-0]\nunits=8\nactivation={activation}\n"
        f"[dense-1]\noutput=1\nactivation={activation}\n"
    )
    bounded = {"tanh", "sigmoid", "softmax", "relu6", "softsign", "sparsemax"}
    bounded |= {"sparse_sigmoid", "hard_sigmoid", "hard_tanh"}
    if gain > 1 and activation not in bounded:
        gain = 30.0  # they grow with every layer
    if activation == "exponential":
        gain = 0.1
    assert_same(read(text, (12, 15, 2), [4]), frames(BATCH, 12, 15, 2), gain)


# What needs arguments, changes a layer's units, or makes an activation.
NOT_BY_NAME = {"threshold", "glu", "get", "serialize", "deserialize"}
KERAS_ACTIVATIONS = {
    name: function
    for name, function in vars(keras.activations).items()
    if inspect.isfunction(function) and name not in NOT_BY_NAME
}


@pytest.mark.parametrize("name", [*KERAS_ACTIVATIONS, "swish", "hard_swish"])
def test_every_activation_of_keras_works_by_name(name: str) -> None:
    """Around its bends and far from them, it is the function of Keras."""
    layout = read(f"[dense-0]\noutput=1\nactivation={name}\n", (2,), [3], 1.0)
    ours = ACTIVATIONS[layout.layers[0].activation]
    bends = np.array([-3, -1, -0.5, 0, 0.5, 1, 3, 6], np.float32)
    x = np.concatenate([bends, np.linspace(-20, 20, 400, dtype=np.float32)])
    x = np.random.default_rng(2).permutation(x).reshape(-1, 8)
    expected = keras.ops.convert_to_numpy(keras.activations.get(name)(x))
    np.testing.assert_allclose(ours(x.copy()), expected, 1e-5, 1e-5)


@pytest.mark.parametrize("spec", [VECTOR, RAM], ids=["vector", "ram"])
def test_branches_without_common(spec: EnvSpec) -> None:
    """A second branch that starts at the input is scaled too."""
    text = (
        "[dense-0]\nunits=16\nactivation=relu\n[dense-1]\noutput=1\n"
        "[dense-2]\nunits=9\nactivation=tanh\n[dense-3]\noutput=1\n"
    )
    layout = read(text, spec.input_shape, [5, 1], 1 / 255 if spec is RAM else 1.0)
    assert [layer.source for layer in layout.layers] == [-1, 0, -1, 2]
    assert_same(layout, observations(spec))


def test_branches_behind_their_own_flatten() -> None:
    text = (
        "[flatten-0]\n[dense-0]\noutput=1\n[convolutional-0]\nfilters=2\nsize=3\n"
        "common=1\n[flatten-1]\n[dense-1]\noutput=1\n[flatten-2]\n[dense-2]\n"
        "output=1\nactivation=softmax\n"
    )
    assert_same(read(text, (6, 5, 4), [5, 1, 3]), frames(BATCH, 6, 5, 4))


def test_strided_input() -> None:
    """Frames need not lie in memory in the order of their axes."""
    text = "[convolutional-0]\nfilters=2\nsize=3\nstride=2\n[flatten-0]\n"
    layout = read(f"{text}[dense-0]\noutput=1\n", (9, 8, 4), [5])
    assert_same(layout, np.moveaxis(frames(4, BATCH, 9, 8), 0, -1))


def test_results_of_two_calls_are_apart() -> None:
    layout = layout_for(None, "q-{kind}.cfg", VECTOR, [5])
    forward = bind_network(layout, random_arrays(layout, 1))
    x = observations(VECTOR)
    first = forward(x)[0]
    kept = first.copy()
    forward(x + 1)
    np.testing.assert_array_equal(first, kept)


def test_bytes_are_scaled_exactly() -> None:
    x = np.arange(256, dtype=np.uint8).reshape(2, 128)
    layout = layout_for(None, "q-{kind}.cfg", RAM, (1,))
    expected = x.astype(np.float32) * np.float32(1 / 255)
    np.testing.assert_array_equal(networks.scaled_inputs(layout, x), expected)
