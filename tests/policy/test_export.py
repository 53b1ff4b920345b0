"""Policies as ONNX models and as Keras models give what `predict` gives."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import onnxruntime
import pytest
from acting import run_of
from naive import random_arrays
from policies import KINDS, cases, policy_of

from xagents_ray import Policy, UserError
from xagents_ray.core.moments import OBSERVATION
from xagents_ray.core.trajectory import Weights
from xagents_ray.extend import Layer, Section, register_layer
from xagents_ray.networks.activations import ACTIVATIONS
from xagents_ray.networks.forward import bind_network
from xagents_ray.policy.loading import LoadedPolicy
from xagents_ray.run.weights_formats import decode_weights
from xagents_ray.storage.weights import read_file

pytestmark = pytest.mark.usefixtures("short_atari")


def outputs_of(policy: Policy, rows: Any) -> list[Any]:
    """Return what the network that acts gives, in NumPy."""
    trained = policy._trained
    x, _ = policy._conversion.rows(rows)
    return bind_network(trained.run.layout, trained.weights.arrays)(x)


def observations_of(policy: Policy, count: int = 16) -> Any:
    space = policy.observation_space
    space.seed(3)
    return np.stack([space.sample() for _ in range(count)])


def check_onnx(policy: Policy) -> None:
    policy.export("policy.onnx")
    onnx.checker.check_model("policy.onnx", full_check=True)
    session = onnxruntime.InferenceSession("policy.onnx")
    batch = observations_of(policy)
    actions, outputs = session.run(["action", "output"], {"observation": batch})
    expected = policy.act(batch)
    assert (actions.dtype, actions.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(outputs, outputs_of(policy, batch)[0], 1e-5, 1e-5)
    is_wide = policy.env_id == "ranges:wide"  # from -2000 to 2000
    np.testing.assert_allclose(actions, expected, 1e-5, 1e-2 if is_wide else 1e-5)
    assert np.ptp(outputs, axis=0).max() > 0.01


@pytest.mark.parametrize(("agent", "kind"), cases())
def test_onnx(agent: str, kind: str) -> None:
    check_onnx(policy_of(agent, **KINDS[kind]))


@pytest.mark.parametrize("frame_stack", [1, 3])
def test_onnx_of_colors(frame_stack: int) -> None:
    policy = policy_of("a2c", env="policy/Colored-v0", frame_stack=frame_stack)
    assert policy.observation_space.shape[:-3] == (() if frame_stack == 1 else (3,))
    check_onnx(policy)


RAINBOW = {"dueling": True, "noisy": "independent", "distributional": True}


def rainbow() -> Policy:
    return policy_of("dqn", **KINDS["discrete"], **RAINBOW)


def test_onnx_of_all_parts_of_dqn() -> None:
    check_onnx(rainbow())


def test_onnx_of_noisy_layers() -> None:
    check_onnx(policy_of("acer", **KINDS["discrete"], noisy="factorised"))


@pytest.mark.parametrize("agent", ["ppo", "sac"])
def test_onnx_of_state_dependent_noise(agent: str) -> None:
    policy = policy_of(agent, **KINDS["continuous"], sde_frequency=4)
    check_onnx(policy)


@pytest.mark.parametrize("kind", ["bits", "signs", "far", "wide", "mixed"])
@pytest.mark.parametrize("agent", ["ppo", "sac", "td3"])
def test_onnx_of_ranges(agent: str, kind: str) -> None:
    if kind != "mixed" or agent == "ppo":
        check_onnx(policy_of(agent, env=f"ranges:{kind}"))


def normalizing(
    mean: Sequence[float] = (0.5, -0.1, 2), variance: Sequence[float] = (0.5, 1e-9, 2)
) -> Policy:
    policy = policy_of("ppo", **KINDS["continuous"], normalize_observations=True)
    statistics = {
        f"{OBSERVATION}/size": np.array(9.0),
        f"{OBSERVATION}/mean": np.array(mean),
        f"{OBSERVATION}/variance": np.array(variance),
    }
    run, weights, source, *_ = vars(policy._trained).values()
    arrays = {**weights.arrays, **statistics}
    return Policy(LoadedPolicy(run, weights._replace(arrays=arrays), source))


def test_onnx_normalizes() -> None:
    policy = normalizing()
    batch = observations_of(policy)
    assert (np.abs((batch[:, 1] + 0.1) / 1e-4) > 10).any()  # is clipped
    check_onnx(policy)


def test_large_means_are_subtracted_exactly() -> None:
    """Float32 has no number between 16,384 and 16,384.002."""
    policy = normalizing([16384 + 7e-4] * 3, [1e-6] * 3)
    steps = np.linspace(-6, 6, 13)[:, None].repeat(3, axis=1)
    batch = (16384 + steps * 2**-9).astype(np.float32)
    arrays = policy._trained.weights.arrays
    rounded = arrays | {f"{OBSERVATION}/mean": np.full(3, 16384, np.float32)}
    layout, expected = policy._trained.run.layout, outputs_of(policy, batch)[0]
    different = bind_network(layout, rounded)(batch)[0]
    assert np.abs(different - expected).max() > 0.01
    policy.export("policy.onnx")
    session = onnxruntime.InferenceSession("policy.onnx")
    (outputs,) = session.run(["output"], {"observation": batch})
    np.testing.assert_allclose(outputs, expected, 1e-4, 1e-4)
    theirs, _ = policy.to_keras().predict(batch, verbose=0)
    np.testing.assert_allclose(theirs, expected, 1e-4, 1e-4)


def test_onnx_has_every_activation() -> None:
    # First, as the sparsemax of Keras is nearly constant between small numbers.
    names = sorted(ACTIVATIONS, key=lambda name: (name != "sparsemax", name))
    sections = [
        f"[dense-{i}]\nunits=16\nactivation={name}" for i, name in enumerate(names)
    ]
    n = len(sections)
    ends = f"common=1\n[dense-{n}]\noutput=1\n[dense-{n + 1}]\noutput=1\n"
    Path("all.cfg").write_text("\n".join([*sections, ends]))
    check_onnx(policy_of("a2c", **KINDS["discrete"], model="all.cfg"))


@pytest.mark.parametrize(
    "make",
    [lambda: policy_of("acer", env="policy/Colored-v0"), normalizing, rainbow],
    ids=["image", "normalizing", "rainbow"],
)
def test_keras(make: Any) -> None:
    policy = make()
    model, batch = policy.to_keras(), observations_of(policy)
    for theirs, ours in zip(model(batch), outputs_of(policy, batch), strict=True):
        np.testing.assert_allclose(theirs.numpy(), ours, 1e-5, 1e-5)


def test_what_export_refuses() -> None:
    other = policy_of("ppo", **KINDS["continuous"])
    other._actor.squashes_actions = True  # which is not how it acts
    with pytest.raises(UserError, match=r"ppo can't be exported: .*to_keras"):
        other.export("policy.onnx")
    assert not Path("policy.onnx").exists()
    policy = policy_of("dqn", **KINDS["discrete"])
    Path("file").touch()
    with pytest.raises(UserError, match=r"policy.onnx can't be written"):
        policy.export("file/policy.onnx")
    with pytest.raises(UserError, match=r"can't be written .*[Ii]s a directory"):
        policy.export(".")
    with pytest.raises(UserError, match=r"file/policy.npz can't be written"):
        policy.save("file/policy.npz")


class Doubled(Layer):
    """A layer that a user may add, without an ONNX form."""

    @classmethod
    def read(cls, section: Section, source: int, shape: Any, units: Any) -> Layer:
        return cls(name=section.name, source=source, output_shape=shape)

    def bind(self, arrays: Any, scale: float) -> Any:
        return lambda x: 2 * scale * x

    def keras(self, layers: Any, initializer: Any) -> Any:
        return layers.Rescaling(2, name=self.name)


class Exported(Doubled):
    def onnx(self, graph: Any, x: str, arrays: Any) -> str:
        return str(graph.add("Add", x, x))


def test_layers_of_the_users() -> None:
    register_layer("doubled", Doubled)
    register_layer("exported", Exported)
    for kind in ("doubled", "exported"):
        Path(f"{kind}.cfg").write_text(f"[{kind}-0]\n[dense-0]\noutput=1\n")
    policy = policy_of("dqn", **KINDS["discrete"], model="doubled.cfg")
    with pytest.raises(UserError, match=r"\[doubled-0\] can't be exported: Doubled"):
        policy.export("policy.onnx")
    check_onnx(policy_of("dqn", **KINDS["discrete"], model="exported.cfg"))


def with_model(agent: str, model: Any) -> Policy:
    run = run_of(agent, 1, env="CartPole-v1", model=model)
    weights = Weights(1, random_arrays(run.layout, 3))
    return Policy(LoadedPolicy(run, weights, "random weights"))


def test_networks_that_are_keras_models() -> None:
    """Translated to our layers where there are such, and refused where not."""
    x = given = keras.Input((4,))
    x = keras.layers.LayerNormalization()(keras.layers.Dense(8)(x))
    x = keras.layers.Activation("tanh")(x)
    heads = [keras.layers.Dense(n)(x) for n in (2, 1)]
    check_onnx(with_model("ppo", keras.Model(given, heads)))
    x = keras.layers.Embedding(9, 3)(keras.layers.ReLU()(given))
    x = keras.layers.Dense(2)(keras.layers.Flatten()(x))
    check_onnx(with_model("dqn", keras.Model(given, x)))
    unknown = keras.layers.Dropout(0.5)(keras.layers.Reshape((2, 2))(given))
    unknown = keras.layers.Dense(2)(keras.layers.LSTM(3)(unknown))
    policy = with_model("dqn", keras.Model(given, unknown))
    with pytest.raises(UserError, match="layers that only Keras knows"):
        policy.export("policy.onnx")
    model, batch = policy.to_keras(), observations_of(policy)
    (ours,) = outputs_of(policy, batch)
    np.testing.assert_allclose(model(batch).numpy(), ours, 1e-5, 1e-5)


def test_weights_files_of_keras() -> None:
    """The statistics of observations are in them."""
    policy = normalizing()
    policy.save("policy.weights.h5")
    run, weights, *_ = vars(policy._trained).values()
    extras = run.algorithm.extras(
        run.algorithm.models[0], run.config.algorithm, run.spec
    )
    arrays, _ = decode_weights(read_file("policy.weights.h5"), run.layout, extras)
    assert arrays.keys() == weights.arrays.keys()
    assert all((arrays[name] == weights.arrays[name]).all() for name in arrays)
