"""Networks that give the deviations of actions: NumPy, Keras, and slow loops."""

import math
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from naive import random_arrays
from network_cases import model_of, observations

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.networks import keras as networks
from xagents_ray.networks.forward import bind_network
from xagents_ray.networks.keras_models import model_bytes
from xagents_ray.networks.state_dependent import with_drawn_noise

BOUNDS = {"action_low": (-1.0, -1.0), "action_high": (1.0, 1.0)}
VECTOR = EnvSpec((4,), "float32", 1, 0, **BOUNDS)
RAM = EnvSpec((8,), "uint8", 1, 0, **BOUNDS)
GREY = EnvSpec((36, 36), "uint8", 3, 0, **BOUNDS)
LINEAR = "[dense-0]\noutput=1\n[dense-1]\noutput=1\n"
ROWS = 5


def layout_of(agent: str, spec: EnvSpec, **settings: Any) -> Any:
    row = find_algorithm(agent)
    return row.layouts(row.config(sde_frequency=3, **settings), spec)[0]


@pytest.mark.parametrize(
    ("agent", "spec"),
    [
        ("ppo", VECTOR),
        ("a2c", RAM),
        ("trpo", GREY),
        ("sac", RAM),
        ("linear", VECTOR),
        ("linear", RAM),
    ],
    ids=lambda x: x if isinstance(x, str) else x.observation_dtype,
)
def test_deviations_and_noise_slowly(agent: str, spec: EnvSpec, tmp_path: Path) -> None:
    """Of matrices, and without them as Keras computes them."""
    settings = {}
    if agent == "linear":
        agent, path = "ppo", tmp_path / "linear.cfg"
        path.write_text(LINEAR)
        settings = {"model": str(path)}
    layout, x = layout_of(agent, spec, **settings), observations(spec)
    arrays = random_arrays(layout, 2)
    model = model_of(layout, arrays)
    expected = model(networks.scaled_inputs(layout, x))
    for found, other in zip(bind_network(layout, arrays)(x), expected, strict=True):
        np.testing.assert_allclose(found, other, atol=1e-4, rtol=1e-4)

    acting, place = with_drawn_noise(layout)
    inputs = layout.layers[layout.outputs[place]].source
    features = x * layout.scale
    if inputs >= 0:
        seen = keras.Model(
            model.input, model.get_layer(layout.layers[inputs].name).output
        )
        features = seen(networks.scaled_inputs(layout, x)).numpy()
    sigma = np.exp(arrays["sde/log_std"].astype(np.float64))
    count = len(sigma)
    matrices = np.random.default_rng(4).normal(size=(ROWS, count, 2)).astype(np.float32)
    outputs = bind_network(acting, arrays)(x, matrices.reshape(ROWS, -1))
    drawn = outputs[place]
    assert drawn.dtype == np.float32
    for i, j in np.ndindex(ROWS, 2):
        variance = sum((features[i, k] * sigma[k, j]) ** 2 for k in range(count))
        deviation = math.sqrt(variance + 1e-6)
        theta = [sigma[k, j] * matrices[i, k, j] for k in range(count)]
        noise = sum(features[i, k] * theta[k] for k in range(count))
        assert drawn[i, j] == pytest.approx(math.log(deviation), abs=1e-4)
        assert drawn[i, 2 + j] == pytest.approx(noise / deviation, abs=1e-3)


@pytest.mark.parametrize(("agent", "learns"), [("ppo", False), ("sac", True)])
def test_gradients_into_the_features(agent: str, learns: bool) -> None:
    model = networks.build_model(layout_of(agent, VECTOR), 3, "policy")
    with tf.GradientTape() as tape:
        log_std = tf.reduce_sum(model(observations(VECTOR))[-1])
    weights = networks.named_weights(model)
    names = "dense-0/kernel", "sde/log_std", "dense-2/kernel"
    found = tape.gradient(log_std, [weights[name] for name in names])
    assert [x is not None for x in found] == [learns, True, False]


def test_what_it_replaces() -> None:
    """SAC's layer of deviations goes; the others keep their names and order."""
    plain = find_algorithm("sac").layout(None, VECTOR)
    layout = layout_of("sac", VECTOR, init_log_std=-1.5)
    names = [x.name for x in layout.layers]
    assert [x.name for x in plain.layers] == [f"dense-{i}" for i in range(4)]
    assert names == ["dense-0", "dense-1", "dense-2", "sde", "clip"]
    assert layout.outputs == (4, 3)
    assert layout.shapes["sde/log_std"] == (256, 2)
    weights = networks.weight_arrays(networks.build_model(layout, 0, "actor"))[
        "sde/log_std"
    ]
    np.testing.assert_array_equal(weights, np.full((256, 2), -1.5, np.float32))
    separate = layout_of("ppo", VECTOR, separate_networks=True)
    assert [separate.layers[i].name for i in separate.outputs] == [
        "dense-2",
        "dense-3",
        "sde",
    ]
    assert separate.layers[-1].source == 1


def test_layers_of_the_deviations_alone_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "deep.cfg"
    path.write_text(
        "[dense-0]\nunits=5\ncommon=1\n[dense-1]\nunits=7\n[dense-2]\noutput=1\n"
        "[dense-3]\nunits=6\n[dense-4]\noutput=1\n"
    )
    layout = layout_of("sac", VECTOR, actor_model=str(path))
    assert [(x.name, x.source) for x in layout.layers] == [
        ("dense-0", -1),
        ("dense-1", 0),
        ("dense-2", 1),
        ("sde", 1),
        ("clip", 2),
    ]
    assert layout.shapes["sde/log_std"] == (7, 2)


@pytest.mark.parametrize("share", [0.3, 0.6])
def test_means_of_sac_are_bounded(share: float) -> None:
    """In NumPy and Keras, whose gradient is 0 beyond; 0 leaves them as they are."""
    free = layout_of("sac", VECTOR, clip_mean=0.0)
    x, arrays = observations(VECTOR), random_arrays(free, 2)
    means = bind_network(free, arrays)(x)[0]
    largest = float(np.quantile(np.abs(means), share))
    bounded = layout_of("sac", VECTOR, clip_mean=largest)
    assert bounded.shapes == free.shapes
    found = bind_network(bounded, arrays)(x)[0]
    is_beyond = np.abs(means) > largest
    assert is_beyond.any() and not is_beyond.all()
    np.testing.assert_array_equal(found, means.clip(-largest, largest))
    model = model_of(bounded, arrays)
    bias = networks.named_weights(model)["dense-2/bias"]
    with tf.GradientTape() as tape:
        outputs = model(x)[0]
    np.testing.assert_allclose(outputs, found, atol=1e-4)
    inside = np.float32(~is_beyond).sum(0)
    np.testing.assert_array_equal(tape.gradient(outputs, bias), inside)
    assert all(layout_of(x, VECTOR).outputs[0] == 2 for x in ("ppo", "a2c"))


def test_keras_models_are_refused() -> None:
    inputs = keras.Input((4,))
    hidden = keras.layers.Dense(3)(inputs)
    model = keras.Model(inputs, [keras.layers.Dense(n)(hidden) for n in (2, 1)])
    Path("own.keras").write_bytes(model_bytes(model, "own"))
    with pytest.raises(UserError, match=r"own.keras is a Keras model: give a .cfg"):
        layout_of("ppo", VECTOR, model="own.keras")
