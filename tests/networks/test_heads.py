"""Streams, distributions and noisy layers: NumPy, Keras, and sums by hand."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import psutil
import pytest
import tensorflow as tf
from naive import random_arrays
from network_cases import model_of, observations

from xagents_ray.algorithms.dqn import DQNConfig
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.networks import keras as networks
from xagents_ray.networks.forward import bind_network
from xagents_ray.networks.keras_models import model_bytes
from xagents_ray.networks.layers import Dense
from xagents_ray.networks.layout import Layout
from xagents_ray.networks.noisy import Noisy, with_noise

VECTOR = EnvSpec((4,), "float32", 1, 3)
RAM = EnvSpec((8,), "uint8", 1, 3)
GREY = EnvSpec((36, 36), "uint8", 3, 3)
SEPARATE = str(
    Path(__file__).parents[2] / "xagents_ray/algorithms/presets/separate-64.cfg"
)
EVERYTHING = {"dueling": True, "noisy": "factorised", "distributional": True}
PARTS: list[dict[str, Any]] = [
    {"dueling": True},
    {"noisy": "factorised"},
    {"noisy": "independent"},
    {"distributional": True, "atoms": 5},
    EVERYTHING,
]


def layout_of(spec: EnvSpec = VECTOR, **parts: Any) -> Layout:
    (layout,) = find_algorithm("dqn").layouts(DQNConfig(**parts), spec)
    return layout


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("spec", [VECTOR, RAM, GREY], ids="vector ram grey".split())
@pytest.mark.parametrize("parts", PARTS, ids=lambda parts: "-".join(parts))
def test_numpy_computes_what_keras_does(parts: Any, spec: EnvSpec) -> None:
    """With noise for each row, with the same for all, and without."""
    layout = layout_of(spec, **parts)
    arrays, x = random_arrays(layout, 2), observations(spec)
    model, forward = model_of(layout, arrays), bind_network(layout, arrays)
    inputs = networks.scaled_inputs(layout, x)
    noises = [None]
    if layout.noise_units:
        noises = [normal(n, layout.noise_units, seed=7) for n in (5, 1)]
        zeros = tf.zeros([1, layout.noise_units])
        found = forward(x)[0], forward(x, noises[0])[0]
        assert np.abs(found[0] - found[1]).min() > 1e-4
        first = tf.nest.flatten(model([inputs, zeros]))[0]
        np.testing.assert_allclose(found[0], first, atol=1e-5)
    for noise in noises:
        given = inputs if noise is None else [inputs, tf.constant(noise)]
        expected = tf.nest.flatten(model(given))
        got = forward(x, noise)
        assert len(got) == len(expected) == len(layout.outputs)
        for mine, theirs in zip(got, expected, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=2e-5)
            assert mine.dtype == np.float32


def test_dueling_by_hand() -> None:
    """Advantages less their mean, plus the value, of streams with their own layers."""
    layout = layout_of(dueling=True)
    names = [layer.name for layer in layout.layers]
    assert names == [
        "dense-0",
        "scaled-gradient",
        *("dense-1", "dense-2", "dense-1-value", "dense-2-value"),
        "dueling",
    ]
    arrays, x = random_arrays(layout, 2), observations(VECTOR)

    def dense(name: str, x: Any) -> Any:
        return x @ arrays[f"{name}/kernel"] + arrays[f"{name}/bias"]

    trunk = np.maximum(dense("dense-0", x), 0)
    streams = [
        dense(f"dense-2{end}", np.maximum(dense(f"dense-1{end}", trunk), 0))
        for end in ("", "-value")
    ]
    advantages, values = streams
    assert (advantages.shape, values.shape) == ((5, 3), (5, 1))
    for i, row in enumerate(bind_network(layout, arrays)(x)[0]):
        for j, value in enumerate(row):
            expected = values[i, 0] + advantages[i, j] - sum(advantages[i]) / 3
            assert value == pytest.approx(expected, abs=1e-5)


def test_streams_of_images_begin_behind_the_convolutions() -> None:
    layout = layout_of(EnvSpec((84, 84), "uint8", 4, 6), dueling=True)
    shapes = layout.shapes
    assert shapes["dense-0/kernel"] == shapes["dense-0-value/kernel"] == (3136, 512)
    assert shapes["dense-1/kernel"] == (512, 6)
    assert shapes["dense-1-value/kernel"] == (512, 1)


def test_one_layer_has_streams_without_a_trunk() -> None:
    Path("linear.cfg").write_text("[dense-0]\noutput=1\n")
    layout = layout_of(dueling=True, model="linear.cfg")
    assert [layer.source for layer in layout.layers] == [-1, -1, 0]
    np.testing.assert_allclose(
        bind_network(layout, arrays := random_arrays(layout, 2))(observations(VECTOR))[
            0
        ],
        model_of(layout, arrays)(observations(VECTOR)),
        atol=1e-5,
    )


def test_the_gradient_into_the_trunk_is_scaled() -> None:
    """By 1/√2; that of the streams is not."""
    layout = layout_of(dueling=True)
    plain = [layer for layer in layout.layers if layer.name != "scaled-gradient"]
    sources = (-1, 0, 1, 0, 3, 2)
    plain = [replace(x, source=i) for x, i in zip(plain, sources, strict=True)]
    plain[-1] = replace(plain[-1], more_sources=(4,))
    other = replace(layout, layers=tuple(plain), outputs=(5,))
    arrays, found = random_arrays(layout, 2), []
    for each in (layout, other):
        model = model_of(each, arrays)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(model(observations(VECTOR))))
        variables = networks.named_weights(model)
        values = [v.value for v in variables.values()]
        found.append(dict(zip(variables, tape.gradient(loss, values), strict=True)))
    for name, gradient in found[0].items():
        factor = np.sqrt(0.5) if name.startswith("dense-0/") else 1
        np.testing.assert_allclose(gradient, factor * found[1][name], 1e-4, 1e-5)


def test_values_are_the_means_of_distributions() -> None:
    layout = layout_of(distributional=True, atoms=3, v_min=-1, v_max=5)
    arrays = random_arrays(layout, 2)
    values, logits = bind_network(layout, arrays)(observations(VECTOR))
    assert (values.shape, logits.shape) == ((5, 3), (5, 9))
    for row, own in zip(values, logits.reshape(5, 3, 3).astype(float), strict=True):
        for value, (a, b, c) in zip(row, own, strict=True):
            low, middle, high = np.exp([a, b, c]) / np.exp([a, b, c]).sum()
            assert value == pytest.approx(-low + 2 * middle + 5 * high, abs=1e-5)


def noisy_layer(noise: str, activation: str = "tanh") -> tuple[Noisy, dict[str, Any]]:
    layer = Noisy(
        name="n",
        source=-1,
        output_shape=(2,),
        activation=activation,
        kernel_shape=(3, 2),
        initializer="zeros",
        gain=1.0,
        noise=noise,
        sigma=0.5,
    )
    layout = Layout((layer,), (0,), (3,), 1.0)
    return layer, random_arrays(layout, 4)


def test_factorised_noise_by_hand() -> None:
    """Weight i, j has the noise f(noise i) f(noise j), bias j has f(noise j)."""
    layer, arrays = noisy_layer("factorised")
    x, noise = normal(4, 3), normal(4, 5, seed=1)
    got = layer.bind(arrays, 0.5)(x, noise)

    def f(x: float) -> float:
        return float(np.sign(x) * np.sqrt(abs(x)))

    for row, given, own in zip(got, x, noise, strict=True):
        for j in range(2):
            out = f(own[3 + j])
            total = arrays["n/bias"][j] + arrays["n/bias_sigma"][j] * out
            for i in range(3):
                sigma = arrays["n/kernel_sigma"][i, j] * f(own[i]) * out
                total += 0.5 * given[i] * (arrays["n/kernel"][i, j] + sigma)
            assert row[j] == pytest.approx(np.tanh(total), abs=1e-5)


def test_independent_noise_has_the_distribution_of_noisy_weights() -> None:
    """Means, variances and independence of units, against noise on every weight."""
    layer, arrays = noisy_layer("independent", "linear")
    draws = 200_000
    x = np.repeat(normal(1, 3), draws, axis=0)
    got = layer.bind(arrays, 1.0)(x, normal(draws, 2, seed=1))
    variance = np.square(arrays["n/bias_sigma"])
    for i in range(3):
        variance = variance + np.square(x[0, i] * arrays["n/kernel_sigma"][i])
    mean = layer.bind(arrays, 1.0)(x[:1])[0]
    error = 5 / np.sqrt(draws)
    np.testing.assert_allclose(got.mean(0), mean, atol=error * np.sqrt(variance.max()))
    np.testing.assert_allclose(got.var(0), variance, rtol=error * np.sqrt(2))
    assert abs(np.corrcoef(got.T)[0, 1]) < error


@pytest.mark.parametrize(
    ("noise", "given", "bound", "sigma"),
    [
        ("factorised", None, 1 / 8, 0.5 / 8),
        ("factorised", 2.0, 1 / 8, 2 / 8),
        ("independent", None, np.sqrt(3 / 64), 0.017),
    ],
)
def test_initial_weights_of_noisy_layers(
    noise: str, given: float | None, bound: float, sigma: float
) -> None:
    """Of 64 inputs; every array has numbers of its own."""
    layout = layout_of(noisy=noise, noisy_sigma=given)
    arrays = networks.weight_arrays(networks.build_model(layout, 3, "q"))
    kernel, bias = arrays["dense-1/kernel"], arrays["dense-1/bias"]
    for array in (kernel, bias):
        assert 0.9 * bound < np.abs(array).max() <= bound
        assert abs(array.mean()) < 0.2 * bound
    assert np.abs(kernel[0] - bias).max() > 0.1 * bound
    for end in ("kernel", "bias"):
        np.testing.assert_allclose(arrays[f"dense-1/{end}_sigma"], sigma, rtol=1e-6)


def test_noise_is_behind_the_features() -> None:
    """Of vectors in the first layer of each branch, of images in convolutions."""

    def noisy(**settings: Any) -> list[str]:
        layout = layout_of(**settings, noisy="factorised")
        return [layer.name for layer in layout.layers if isinstance(layer, Noisy)]

    assert noisy() == ["dense-1", "dense-2"]
    assert noisy(spec=GREY) == ["dense-0", "dense-1"]
    Path("linear.cfg").write_text("[dense-0]\noutput=1\n")
    assert noisy(model="linear.cfg") == ["dense-0"]
    layout = with_noise(find_algorithm("ppo").layout(SEPARATE, VECTOR), "factorised")
    own = [layer.name for layer in layout.layers if isinstance(layer, Noisy)]
    assert own == ["dense-1", "dense-2", "dense-4", "dense-5"]
    assert noisy(model="linear.cfg", dueling=True) == ["dense-0", "dense-0-value"]

    class Own(Dense):
        """Takes no noise, as any kind of a user's."""

    own_layers = tuple(Own(**vars(layer)) for layer in layout_of().layers)
    with pytest.raises(UserError, match=r"changes dense layers .* network has none"):
        with_noise(replace(layout_of(), layers=own_layers), "factorised")


def test_heads_compute_in_float32() -> None:
    model = networks.build_model(layout_of(**EVERYTHING), 0, "q", "bfloat16", True)
    types = {layer.name: layer.compute_dtype for layer in model.layers}
    assert types["dense-0"] == types["dense-1-value"] == "bfloat16"
    for name in ("dense-2", "dense-2-value", "dueling", "expectation"):
        assert types[name] == "float32"


def test_without_parts_the_network_is_the_same() -> None:
    assert layout_of() == find_algorithm("dqn").layout(None, VECTOR)


def test_layers_that_settings_add_fit_into_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file or a run's settings can ask for as many as they like."""
    heads = "[dense-{}]\noutput=1\n"
    text = "[dense-0]\nunits=64\ncommon=1\n" + heads.format(1)
    Path("q.cfg").write_text(text)
    Path("both.cfg").write_text(text + heads.format(2))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=10_000))
    ppo = find_algorithm("ppo")
    assert layout_of(model="q.cfg").n_weights == 515
    assert ppo.layouts(ppo.config(model="both.cfg"), VECTOR)[0].n_weights == 580
    with pytest.raises(UserError, match=r"q\.cfg: its layers have 710 weights"):
        layout_of(model="q.cfg", noisy="factorised")
    with pytest.raises(UserError, match=r"both\.cfg: its layers have 840 weights"):
        ppo.layouts(ppo.config(model="both.cfg", noisy="independent"), VECTOR)
    with pytest.raises(UserError, match=r"q\.cfg: .* fewer units or atoms\.$"):
        layout_of(model="q.cfg", distributional=True, atoms=2 * 10**9)


def test_keras_files_are_refused() -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    Path("own.keras").write_bytes(model_bytes(model, "own"))
    assert layout_of(model="own.keras").layers
    with pytest.raises(UserError, match=r"own.keras is a Keras model: .* \.cfg file"):
        layout_of(model="own.keras", dueling=True)
    row = find_algorithm("trpo")
    config = row.config(actor_model="own.keras", noisy="factorised")
    with pytest.raises(UserError, match=r"own.keras is a Keras model: give a \.cfg"):
        row.layouts(config, VECTOR)
