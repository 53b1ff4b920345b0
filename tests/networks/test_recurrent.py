"""Recurrent layers: NumPy's steps, Keras' sequences and gradients, and sections."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx.reference
import pytest
import tensorflow as tf
from naive import random_arrays
from network_cases import model_of

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.networks import keras as networks
from xagents_ray.networks.forward import bind_network
from xagents_ray.networks.inputs import NetworkInputs
from xagents_ray.networks.keras_files import read_keras_layers
from xagents_ray.networks.keras_layers import WholeModel
from xagents_ray.networks.keras_models import model_bytes, weights_of
from xagents_ray.networks.layout import Layout
from xagents_ray.networks.onnx import OnnxGraph
from xagents_ray.networks.reading import read_layout
from xagents_ray.networks.recurrent import Recurrent
from xagents_ray.run.user_networks import network_notes

ROWS, ENVS, INPUTS, UNITS = 6, 4, 3, 5
KINDS = ["lstm", "gru"]
SPEC = EnvSpec((4,), "float32", 1, 2)


def layout_of(*sections: str, outputs: tuple[int, ...] = (2, 1)) -> Layout:
    path = Path("net.cfg")
    path.write_text("\n".join(sections), encoding="utf-8")
    return read_layout(path, (INPUTS,), outputs, 1.0)


def one_layer(kind: str) -> Layout:
    sections = f"[{kind}-0]\nunits={UNITS}", "[dense-0]\noutput=1"
    return layout_of(*sections, outputs=(1,))


def network(kind: str) -> Layout:
    """Return a network with two recurrent layers; the second one is a branch's own."""
    return layout_of(
        "[dense-0]\nunits=7\nactivation=tanh",
        f"[{kind}-0]\nunits={UNITS}\ncommon=1",
        "[dense-1]\noutput=1",
        "[gru-1]\nunits=4",
        "[dense-2]\noutput=1",
    )


def sequences(state_units: int) -> tuple[Any, Any, Any]:
    """Return inputs [T, B, D], a state and starts, not only of whole sequences."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(ROWS, ENVS, INPUTS)).astype(np.float32)
    state = rng.normal(size=(ENVS, state_units)).astype(np.float32)
    starts = rng.random((ROWS, ENVS)) < 0.2
    assert starts.any() and not starts[:, 0].all() and starts[1:].any()
    return x, state, starts


@pytest.mark.parametrize("kind", KINDS)
def test_an_output_shares_no_memory_with_the_state(kind: str) -> None:
    layout = one_layer(kind)
    step: Any = layout.layers[0].bind(random_arrays(layout, 2), 1.0)
    state = np.zeros((ENVS, layout.state_units), np.float32)
    output, after = step(np.ones((ENVS, INPUTS), np.float32), state)
    assert not np.shares_memory(output, after)


@pytest.mark.parametrize("kind", KINDS)
def test_steps_of_numpy_are_the_sequence_of_keras(kind: str) -> None:
    layout = network(kind)
    states = {"lstm": 2 * UNITS, "gru": UNITS}[kind]
    assert layout.state_units == states + 4
    assert layout.state_places[1] == slice(0, states)
    arrays = random_arrays(layout, 2, 1.0)
    model = model_of(layout, arrays)
    final = networks.final_state_model(layout, model)
    x, state, starts = sequences(layout.state_units)
    seen = x.reshape(-1, INPUTS)
    expected = model([seen, state, starts])
    last = final([seen, state, starts])

    forward, rows = bind_network(layout, arrays), []
    for row, begins in zip(x, starts, strict=True):
        state = np.where(begins[:, None], np.float32(0), state)
        outputs, state = forward(row, state=state)
        rows.append(outputs)
    for found, theirs in zip(zip(*rows, strict=True), expected, strict=True):
        np.testing.assert_allclose(np.concatenate(found), theirs, atol=1e-5)
    np.testing.assert_allclose(state, last, atol=1e-5)
    assert np.ptp(state, axis=0).min() > 0.01

    # Two halves with the state in between are the whole.
    half = [seen[: 4 * ENVS], sequences(layout.state_units)[1], starts[:4]]
    rest = model([seen[4 * ENVS :], final(half).numpy(), starts[4:]])
    for found, theirs in zip(rest, expected, strict=True):
        np.testing.assert_allclose(found, theirs[4 * ENVS :], atol=1e-5)


class Plain:
    """Keras' own cell, one step after the other."""

    def __init__(self, kind: str, weights: list[Any]) -> None:
        cells = {"lstm": keras.layers.LSTMCell, "gru": keras.layers.GRUCell}
        self._cell = cells[kind](UNITS)
        self._cell.build((None, INPUTS))
        self._cell.set_weights(weights)
        self.weights = self._cell.weights

    def __call__(self, x: Any, state: Any, starts: Any) -> tuple[Any, Any]:
        rows, states = [], tf.split(state, state.shape[1] // UNITS, axis=-1)
        kept = 1 - tf.cast(starts, tf.float32)[..., None]
        for t in range(ROWS):
            states = [each * kept[t] for each in states]
            y, states = self._cell(x[t * ENVS : (t + 1) * ENVS], states)
            states = list(states) if isinstance(states, list | tuple) else [states]
            rows.append(y)
        return tf.concat(rows, axis=0), tf.concat(states, axis=-1)


def derivatives(layer: Any, given: Any, starts: Any, jit: bool | None = None) -> Any:
    """Return gradients of a loss, and without `jit` products with its Hessian.

    If `jit` is given, the numbers of rows and environments are unknown when the layer
    is traced.
    """
    rng = np.random.default_rng(7)
    variables = [*layer.weights]
    forms = [each.shape for each in (*given, *variables)]
    vectors = [tf.constant(rng.normal(size=form), tf.float32) for form in forms]
    weights = tf.constant(rng.normal(size=(ROWS * ENVS, UNITS)), tf.float32)

    def of_both(x: Any, state: Any, starts: Any) -> Any:
        sources = [x, state, *variables]
        with tf.GradientTape() as outer:
            outer.watch(sources[:2])
            with tf.GradientTape() as tape:
                tape.watch(sources[:2])
                y, last = layer(x, state, starts)
                loss = tf.reduce_sum(tf.sin(y * weights)) + tf.reduce_sum(last**2)
            found = tape.gradient(loss, sources)
            if jit:  # XLA would compile second derivatives for 10 s
                return found
            pairs = zip(found, vectors, strict=True)
            product = tf.add_n([tf.reduce_sum(a * b) for a, b in pairs])
        return found + outer.gradient(product, sources)

    if jit is None:
        return tf.function(of_both)(*given, starts)
    signature = [
        tf.TensorSpec([None, INPUTS]),
        tf.TensorSpec([None, given[1].shape[1]]),
        tf.TensorSpec([None, None], tf.bool),
    ]
    traced = tf.function(of_both, input_signature=signature, jit_compile=jit)
    return traced(*given, starts)


@pytest.mark.parametrize(
    ("kind", "jit"),
    [
        ("lstm", False),
        pytest.param("gru", False, marks=pytest.mark.slow),
        pytest.param("lstm", True, marks=pytest.mark.slow),  # A2C's test compiles one
        ("gru", True),
    ],
)
def test_first_and_second_derivatives_are_those_of_keras(kind: str, jit: bool) -> None:
    layout = one_layer(kind)
    model = model_of(layout, random_arrays(layout, 2, 1.0))
    own = model.get_layer(f"{kind}-0")
    plain = Plain(kind, [each.numpy() for each in own.weights])
    x, state, starts = sequences(layout.state_units)
    given = tf.constant(x.reshape(-1, INPUTS)), tf.constant(state)
    expected = derivatives(plain, given, tf.constant(starts))
    assert len(expected) == 2 * 5
    found = derivatives(own, given, tf.constant(starts), jit)
    for mine, theirs in zip(found, expected, strict=not jit):
        assert np.abs(theirs).max() > 0.1
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_recurrent_layers_of_a_keras_model_have_memory(kind: str) -> None:
    """Its sequences have one step; the next one follows where it ended."""
    given = keras.Input((INPUTS,))
    recurrent = getattr(keras.layers, kind)(UNITS)
    memory = recurrent(keras.layers.Reshape((1, -1))(given))
    own = keras.Model(given, [keras.layers.Dense(n)(memory) for n in (2, 1)])
    file = model_bytes(own, "own")
    inputs = NetworkInputs.one((INPUTS,), 1.0)
    layers, ends = read_keras_layers("own", file, inputs, [2, 1])
    layout = Layout(layers, ends, (INPUTS,), 1.0)
    assert layout.state_units == UNITS * (2 if kind == "LSTM" else 1)
    forward = bind_network(layout, weights_of("own", file, layout))
    state = np.zeros((ENVS, layout.state_units), np.float32)
    x, _, _ = sequences(layout.state_units)
    for row in x:
        outputs, state = forward(row, state=state)
    last = recurrent(x.swapaxes(0, 1))
    for found, dense in zip(outputs, own.layers[-2:], strict=True):
        np.testing.assert_allclose(found, dense(last), atol=1e-5)
    assert not layout.is_keras_model


@pytest.mark.parametrize("settings", [{"activation": "relu"}, {"dropout": 0.1}])
def test_other_recurrent_layers_stay_with_keras(settings: dict[str, Any]) -> None:
    given = keras.Input((INPUTS,))
    sequence = keras.layers.Reshape((1, -1))(given)
    own = keras.Model(given, keras.layers.LSTM(UNITS, **settings)(sequence))
    inputs = NetworkInputs.one((INPUTS,), 1.0)
    layers, _ = read_keras_layers("own", model_bytes(own, "own"), inputs, [UNITS])
    assert isinstance(layers[0], WholeModel)


def test_what_is_not_a_vector_stays_with_keras() -> None:
    """An embedding of one number has rows of (1, n), which no reshape made."""
    given = keras.Input((1,))
    sequence = keras.layers.Embedding(9, 4)(given)
    own = keras.Model(given, keras.layers.LSTM(UNITS)(sequence))
    inputs = NetworkInputs.one((1,), 1.0)
    file = model_bytes(own, "own")
    layers, ends = read_keras_layers("own", file, inputs, [UNITS])
    layout = Layout(layers, ends, (1,), 1.0)
    x = np.array([[3.0], [5.0]], np.float32)
    (found,) = bind_network(layout, weights_of("own", file, layout))(x)
    np.testing.assert_allclose(found, own(x), atol=1e-5)
    (*_, note) = network_notes([layout])
    assert "that remember nothing from one step to the next, LSTM: for" in note


def test_initial_weights_are_those_of_keras() -> None:
    layout = layout_of("[lstm-0]\nunits=5", "[dense-0]\noutput=1", outputs=(1,))
    weights = networks.weight_arrays(networks.build_model(layout, 3, "net"))
    assert {k: v.shape for k, v in weights.items()} == layout.shapes
    kernel = weights["lstm-0/recurrent_kernel"]
    np.testing.assert_allclose(kernel @ kernel.T, np.eye(5), atol=1e-5)
    assert weights["lstm-0/bias"].tolist() == [0] * 5 + [1] * 5 + [0] * 10


def test_bfloat16_keeps_the_state_in_float32() -> None:
    layout = network("lstm")
    arrays = random_arrays(layout, 2, 1.0)
    exact = model_of(layout, arrays)
    model = networks.build_model(layout, 3, "net", "bfloat16")
    for name, variable in networks.named_weights(model).items():
        variable.assign(arrays[name])
    x, state, starts = sequences(layout.state_units)
    given = [x.reshape(-1, INPUTS), state, starts]
    for found, expected in zip(model(given), exact(given), strict=True):
        assert found.dtype == tf.float32
        assert 0 < np.abs(found - expected).max() < 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_in_onnx_is_that_of_numpy(kind: str) -> None:
    layout = layout_of(
        f"[{kind}-0]\nunits={UNITS}", "[dense-0]\noutput=1", outputs=(1,)
    )
    layer, graph = layout.layers[0], OnnxGraph()
    assert isinstance(layer, Recurrent)
    arrays, (x, state, _) = random_arrays(layout, 2, 1.0), sequences(layout.state_units)
    names = layer.onnx_step(graph, "x", "state", arrays)
    forms = [(UNITS,), (layout.state_units,)]
    model = graph.model(
        [("x", np.float32, (INPUTS,)), ("state", np.float32, forms[1])],
        {
            key: (name, np.float32, form)
            for key, name, form in zip(("y", "next"), names, forms, strict=True)
        },
    )
    given = {"x": x[0], "state": state}
    found = onnx.reference.ReferenceEvaluator(model).run(["y", "next"], given)
    for mine, theirs in zip(found, layer.bind(arrays, 1.0)(x[0], state), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-6)


def test_each_branch_has_a_state_of_its_own() -> None:
    layout = layout_of(
        "[lstm-0]\nunits=5\ncommon=1", "[dense-0]\noutput=1", "[dense-1]\noutput=1"
    ).separated()
    assert [x.name for x in layout.layers if x.state_units] == ["lstm-0", "lstm-0-2"]
    places = [place for place in layout.state_places if place]
    assert places == [slice(0, 10), slice(10, 20)]


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ("[lstm-0]\nunits=5\nactivation=relu", "lstm takes units, initializer, gain"),
        ("[gru-0]\nunits=5\noutput=1", r"\[gru-0\] output: unknown key"),
        ("[lstm-0]", r"\[lstm-0\] units: missing"),
        ("[lstm-0]\nunits=5\ninitializer=identity", "identity is for dense layers"),
    ],
)
def test_sections_that_are_refused(sections: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        layout_of(sections, "[dense-0]\noutput=1", outputs=(1,))


def test_images_are_flattened_before() -> None:
    path = Path("net.cfg")
    path.write_text("[lstm-0]\nunits=5\n[dense-0]\noutput=1", encoding="utf-8")
    with pytest.raises(UserError, match=r"needs a \[flatten-0\] before it"):
        read_layout(path, (8, 8, 1), [1], 1.0)


@pytest.mark.parametrize("agent", ["a2c", "acer", "dqn", "impala", "ppo", "trpo"])
def test_default_networks_with_memory(agent: str) -> None:
    algorithm = find_algorithm(agent)
    config: Any = algorithm.config
    for layout in algorithm.layouts(config(memory="gru:32"), SPEC):
        names = [layer.name for layer in layout.layers]
        assert names[:3] == ["dense-0", "dense-1", "gru-0"]
        assert {layout.layers[i].source for i in layout.outputs} == {2}
        assert layout.state_units == 32
    for layout in algorithm.layouts(config(), SPEC):
        assert layout.state_units == 0


def test_separate_networks_have_two_memories() -> None:
    algorithm = find_algorithm("ppo")
    config: Any = algorithm.config
    [layout] = algorithm.layouts(config(memory="lstm:8", separate_networks=True), SPEC)
    assert layout.state_units == 2 * 16


def test_dueling_and_noisy_networks_have_memory_before_them() -> None:
    algorithm = find_algorithm("dqn")
    config: Any = algorithm.config
    settings = {"dueling": True, "noisy": "factorised"}
    [layout] = algorithm.layouts(config(memory="lstm:8", **settings), SPEC)
    names = [layer.name for layer in layout.layers]
    assert names.index("lstm-0") < names.index("dense-2-value")
    assert layout.noise_units and layout.state_units == 16


@pytest.mark.parametrize("agent", ["ddpg", "sac", "td3"])
def test_agents_that_cannot_learn_with_memory_say_so(agent: str) -> None:
    Path("net.cfg").write_text(
        "[gru-0]\nunits=5\n[dense-0]\noutput=1", encoding="utf-8"
    )
    algorithm = find_algorithm(agent)
    config: Any = algorithm.config
    spec = EnvSpec((3,), "float32", 1, 0, (-1.0,), (1.0,))
    said = rf"net.cfg: \[gru-0\]: {agent} can't learn with memory; remove the section"
    with pytest.raises(UserError, match=said):
        algorithm.layouts(config(critic_model="net.cfg"), spec)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"memory": "lstm"}, "such as lstm:128 or gru:64, got 'lstm'"),
        ({"memory": "rnn:8"}, "--memory takes a kind of layer and its units"),
        ({"memory": "gru:0"}, "--memory takes a kind of layer and its units"),
        (
            {"memory": "gru:8", "model": "a.cfg"},
            r"add a section \[gru-0\] with units=8",
        ),
        ({"memory": "gru:8", "feature_maker": "a:b"}, "--feature-maker replaces one"),
    ],
)
def test_settings_that_are_refused(settings: dict[str, Any], said: str) -> None:
    config: Any = find_algorithm("ppo").config
    with pytest.raises(UserError, match=said):
        config(**settings)
