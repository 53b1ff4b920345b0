"""Keras models of a user's act as Keras computes them, with the weights they have."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from network_cases import model_of

from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.learners.optimizer import regularization_loss
from xagents_ray.networks import keras as networks
from xagents_ray.networks import keras_conversion, keras_files, keras_models
from xagents_ray.networks.forward import bind_network
from xagents_ray.networks.keras_layers import WholeModel
from xagents_ray.networks.layout import Layout
from xagents_ray.networks.reading import layout_for
from xagents_ray.run.user_networks import network_notes

VECTOR = EnvSpec((4,), "float32", 1, 3)
IMAGE = EnvSpec((36, 36), "uint8", 2, 3)
OUTPUTS = (3, 1)
layers = keras.layers


@keras.saving.register_keras_serializable("test")
class Doubled(layers.Layer):  # type: ignore[misc]
    def call(self, x: Any) -> Any:
        return 2 * x


def heads(given: Any, x: Any, activation: str = "linear") -> Any:
    policy = layers.Dense(3, activation=activation, name="policy")(x)
    return keras.Model(given, [policy, layers.Dense(1)(x)])


def chain(*between: Any, spec: EnvSpec = VECTOR) -> Any:
    x = given = keras.Input(spec.input_shape)
    for each in between:
        x = each(x)
    return heads(given, x)


def branches() -> Any:
    given = keras.Input((4,))
    x = layers.Dense(8, activation="gelu")(given)
    one, other = layers.Activation("relu")(x), layers.LayerNormalization()(x)
    return keras.Model(given, [layers.Dense(3)(one), layers.Dense(1)(other)])


def skipping() -> Any:
    given = keras.Input((4,))
    x = layers.Dense(8, activation="tanh")(given)
    return heads(given, layers.Concatenate()([x, given]))


def layout_of(model: Any, spec: EnvSpec = VECTOR) -> Layout:
    Path("own.keras").write_bytes(keras_models.model_bytes(model, "own"))
    return layout_for("own.keras", "", spec, OUTPUTS)


def weights_of(layout: Layout) -> dict[str, Any]:
    """Return those of the file that `layout_of` has written."""
    return keras_models.weights_of("own", Path("own.keras").read_bytes(), layout)


KNOWN: dict[str, Callable[[], Any]] = {
    "chain": lambda: chain(layers.Dense(8, "tanh"), layers.LayerNormalization()),
    "activation": lambda: chain(layers.Dense(8), layers.ReLU(), layers.Dense(5, "elu")),
    "branches": branches,
    "embedding": lambda: chain(layers.Embedding(9, 3), layers.Flatten()),
}
IMAGES: dict[str, Callable[[], Any]] = {
    "convolutions": lambda: chain(
        layers.Conv2D(5, 4, 2, activation="relu"),
        layers.Conv2D(3, 3),
        layers.LayerNormalization(epsilon=0.1),
        layers.Flatten(),
        spec=IMAGE,
    ),
}
UNKNOWN: dict[str, Callable[[], Any]] = {
    "skipping": skipping,
    "custom": lambda: chain(layers.Dense(8), Doubled()),
    "recurrent": lambda: chain(layers.Reshape((2, 2)), layers.LSTM(5)),
    "no bias": lambda: chain(layers.Dense(8, use_bias=False)),
    "statistics": lambda: chain(layers.Dense(8), layers.BatchNormalization()),
}


# Layers that would read bytes as they are, or scale what has been scaled.
UNSCALED: dict[str, Callable[[], Any]] = {
    "flat activation": lambda: chain(layers.Flatten(), layers.ReLU(), spec=IMAGE),
    "flat embedding": lambda: chain(
        layers.Flatten(), layers.Embedding(256, 1), layers.Flatten(), spec=IMAGE
    ),
}


@pytest.mark.parametrize(
    ("make", "spec", "is_known"),
    [
        *(pytest.param(each, VECTOR, True, id=name) for name, each in KNOWN.items()),
        *(pytest.param(each, IMAGE, True, id=name) for name, each in IMAGES.items()),
        *(pytest.param(each, VECTOR, False, id=name) for name, each in UNKNOWN.items()),
        *(pytest.param(each, IMAGE, False, id=name) for name, each in UNSCALED.items()),
    ],
)
def test_models_act_and_learn_as_keras_has_them(
    make: Callable[[], Any], spec: EnvSpec, is_known: bool
) -> None:
    model, rng = make(), np.random.default_rng(1)
    model.set_weights([rng.normal(size=w.shape) ** 2 for w in model.get_weights()])
    layout = layout_of(model, spec)
    assert isinstance(layout.layers[0], WholeModel) != is_known
    said = "".join(network_notes([layout]))
    assert ("no statistics change: BatchNormalization" in said) == (
        "batch_normalization" in str([layer.name for layer in model.layers])
    )
    arrays = weights_of(layout)
    assert {k: a.shape for k, a in arrays.items()} == layout.shapes
    shape = (5, *spec.input_shape)
    x = np.abs(rng.normal(size=shape)).astype(np.float32)
    if spec.is_image:
        x = rng.integers(0, 256, shape).astype(np.uint8)
    expected = model(x.astype(np.float32) * layout.scale)
    ours = model_of(layout, arrays)
    acting, learning = (
        bind_network(layout, arrays)(x),
        ours(networks.scaled_inputs(layout, x)),
    )
    assert len(acting) == len(learning) == 2
    for one, other, each in zip(acting, learning, expected, strict=True):
        np.testing.assert_allclose(one, each, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(other, each, rtol=1e-4, atol=1e-5)
    count = sum(np.prod(w.shape) for w in model.trainable_weights)
    assert sum(np.prod(w.shape) for w in ours.trainable_weights) == count


@pytest.mark.parametrize("unknown", [(), (Doubled(),)], ids=["known", "unknown"])
def test_a_softmax_is_left_out_where_logits_are_learned(unknown: Any) -> None:
    x = given = keras.Input((4,))
    for each in unknown:
        x = each(x)
    model = heads(given, x, "softmax")
    layout = layout_of(model)
    arrays = weights_of(layout)
    x = np.ones((2, 4), np.float32)
    probabilities = bind_network(layout, arrays)(x)[0]
    np.testing.assert_allclose(probabilities, model(x)[0], rtol=1e-5)
    logits = bind_network(layout.without_softmax(), arrays)(x)[0]
    exp = np.exp(logits)
    np.testing.assert_allclose(exp / exp.sum(1, keepdims=True), probabilities, 1e-5)
    assert np.abs(logits.sum(1) - 1).min() > 1e-3


@pytest.mark.parametrize("unknown", [(), (Doubled(),)], ids=["known", "unknown"])
def test_so_is_a_layer_of_softmax(unknown: tuple[Any, ...]) -> None:
    x = given = keras.Input((4,))
    for each in unknown:
        x = each(x)
    # Without the softmax, the value is the deeper output.
    logits, value = layers.Dense(3)(x), layers.Dense(1)(layers.Dense(3)(x))
    model = keras.Model(given, [layers.Softmax()(logits), value])
    layout = layout_of(model)
    assert isinstance(layout.layers[0], WholeModel) == bool(unknown)
    arrays = weights_of(layout)
    x = np.ones((2, 4), np.float32)
    expected = keras.Model(given, [logits, value])(x)
    found = bind_network(layout.without_softmax(), arrays)(x)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-4, atol=1e-6)
    shares = bind_network(layout, arrays)(x)[0]
    np.testing.assert_allclose(shares, model(x)[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("activation", ["linear", "tanh", "sigmoid"])
def test_a_linear_end_is_bounded(activation: str, is_known: bool) -> None:
    x = given = keras.Input((4,))
    x = x if is_known else Doubled()(x)
    model = heads(given, x, activation)
    model.set_weights([9 * w for w in model.get_weights()])
    layout = layout_of(model).bounded()
    arrays = weights_of(layout)
    x = np.ones((2, 4), np.float32)
    plain = np.array(model(x)[0])
    expected = np.tanh(plain) if activation == "linear" else plain
    np.testing.assert_allclose(
        bind_network(layout, arrays)(x)[0], expected, rtol=1e-4, atol=1e-6
    )
    ours = model_of(layout, arrays)
    np.testing.assert_allclose(ours(x)[0], expected, rtol=1e-4, atol=1e-6)


def test_an_end_that_may_be_bounded_stays() -> None:
    given = keras.Input((4,))
    x = layers.Dense(3, activation="tanh")(given)
    model = keras.Model(given, [Doubled()(x), layers.Dense(1)(given)])
    layout = layout_of(model)
    ends = [layer.activation for layer in layout.bounded().layers[1:]]
    assert ends == ["linear", "tanh"]


def test_weights_keep_their_regularizers() -> None:
    """Of which `optimizer.regularization_loss` makes a part of the loss."""
    model = chain(layers.Dense(2, kernel_regularizer=keras.regularizers.L2(0.5)))
    ours = networks.build_model(layout_of(model), 1, "net")
    kernel = networks.named_weights(ours)["model-0/0-kernel"]
    penalty = regularization_loss(ours.trainable_variables)
    np.testing.assert_allclose(penalty, 0.5 * np.square(kernel).sum(), rtol=1e-5)
    plain = networks.build_model(layout_of(chain()), 1, "net")
    assert regularization_loss(plain.trainable_variables) is None


def test_names_depend_on_kinds_and_order_only() -> None:
    """A maker that is called again gives layers other names in Keras."""
    one, other = (layout_of(KNOWN["branches"]()) for _ in "12")
    assert one == other
    assert {"dense-0/kernel", "layernormalization-0/gamma"} < one.shapes.keys()
    one, other = (layout_of(UNKNOWN["skipping"]()) for _ in "12")
    assert one.shapes == other.shapes


def sequential(*shape: int) -> Any:
    return keras.Sequential([keras.Input(shape), layers.Dense(3)])


def half() -> Any:
    return keras.Sequential([keras.Input((4,)), layers.Dense(3, dtype="float16")])


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: sequential(4), "outputs are 3 and this agent needs 2"),
        (
            lambda: chain(layers.Dense(2), spec=EnvSpec((5,), "float32", 1, 3)),
            "reads 5",
        ),
        (lambda: sequential(2, 4), r"outputs of the form \(None, units\)"),
        (lambda: keras.Sequential([layers.Dense(3)]), "not built: begin it with"),
        (half, "float16: make it in float32"),
        (lambda: "text", "is no keras.Model"),
        (
            lambda: chain(layers.Dense(2, name="wide", activity_regularizer="l1")),
            "the activity_regularizer of wide has no part in an agent's loss",
        ),
    ],
)
def test_what_does_not_fit(make: Callable[[], Any], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        layout_of(make())


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", json.dumps({}).encode()])
def test_damaged_files(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "own.keras"
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"own\.keras: not a Keras model"):
        layout_for(str(path), "", VECTOR, OUTPUTS)
    path.unlink()
    with pytest.raises(UserError, match="No such file"):
        keras_files.content(str(path))


def test_features_get_the_heads() -> None:
    features = keras.Sequential([keras.Input((6, 6, 2)), layers.Conv2D(3, 3)])
    model = keras_conversion.with_heads(features, OUTPUTS, "own")
    assert [tuple(x.shape) for x in model.outputs] == [(None, 3), (None, 1)]
    with pytest.raises(UserError, match="one output, the features"):
        keras_conversion.with_heads(skipping(), OUTPUTS, "own")
