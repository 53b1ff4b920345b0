"""The layers that ONNX Runtime computes give what NumPy gives."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from acting import run_of
from naive import random_arrays
from network_cases import observations

from xagents_ray.actors.actor_setup import ActorSetup
from xagents_ray.actors.policies import base
from xagents_ray.commands.doctor import examination
from xagents_ray.core.env_shares import EnvShares
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import VECTOR, EnvSpec, InputSpec
from xagents_ray.networks.forward import bind_network
from xagents_ray.networks.layout import Layout
from xagents_ray.networks.noisy import FACTORISED, with_noise
from xagents_ray.networks.onnx_trunk import OnnxTrunk, trunk_gains, trunk_places
from xagents_ray.networks.reading import layout_for, read_layout
from xagents_ray.run import suitability

FRAMES = EnvSpec((20, 24), "uint8", 4, 6)
RGB = EnvSpec((84, 96, 3), "uint8", 1, 6)
PLAIN = EnvSpec((7,), "float32", 1, 5)
PARTS = InputSpec("camera", (20, 24, 3)), InputSpec("joints", (3,), 0)
BOTH = EnvSpec((3,), "float32", 1, 5, inputs=PARTS)
CONVOLUTIONS = """
[convolutional-0]
filters=6
size=5
stride=3
activation=relu
[convolutional-1]
filters=8
size=3
activation=tanh
"""
DENSE = "[flatten-0]\n[dense-0]\nunits=9\nactivation=relu\n"
HEADS = "[dense-{0}]\noutput=1\n[dense-{1}]\noutput=1\nfrom=dense-0\n"
IMAGE = {
    "dense": CONVOLUTIONS + DENSE + HEADS.format(1, 2),
    "recurrent": CONVOLUTIONS
    + "[flatten-0]\n[lstm-0]\nunits=5\n"
    + "[dense-0]\noutput=1\n[dense-1]\noutput=1\nfrom=lstm-0\n",
}
TWO_IMAGES = """
[input-map]
[flatten-0]
[dense-0]
units=9
[input-camera]
[convolutional-0]
filters=6
size=5
stride=3
activation=relu
[flatten-1]
[dense-1]
units=4
from=flatten-1,dense-0
[dense-2]
output=1
"""
PONG_ONLY = {"env": "ALE/Pong-v5", "preprocess": True}
PONG = {**PONG_ONLY, "n_envs": 8}


def read(name: str) -> Layout:
    path = Path("net.cfg")
    path.write_text(IMAGE[name], encoding="utf-8")
    return read_layout(path, FRAMES.input_shape, [6, 1], 1 / 255)


def assert_same(layout: Layout, x: Any, **more: Any) -> None:
    """Check two versions of the weights, of which the first is used again."""
    trunk, pairs = OnnxTrunk(layout, threads=1), []
    for seed in (2, 3):
        arrays = random_arrays(layout, seed)
        numpys = bind_network(layout, arrays)(x, **more)
        pairs.append((numpys, bind_network(layout, arrays, trunk)))
    assert not np.allclose(_flat(pairs[0][0])[-1], _flat(pairs[1][0])[-1])
    for numpys, forward in pairs:
        found = forward(x, **more)
        for one, other in zip(_flat(numpys), _flat(found), strict=True):
            assert other.dtype == np.float32
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def _flat(outputs: Any) -> list[Any]:
    values, state = outputs if isinstance(outputs, tuple) else (outputs, None)
    return values if state is None else [*values, state]


def test_all_layers_of_a_plain_network() -> None:
    layout = read("dense")
    assert trunk_places(layout) == [*range(len(layout.layers))]
    assert_same(layout, observations(FRAMES))
    assert_same(layout, observations(FRAMES, 10)[::2])  # not contiguous
    assert_same(layout, observations(FRAMES, 1))


def test_the_others_get_noise_and_state() -> None:
    rng = np.random.default_rng(1)
    noisy = with_noise(layout_for(None, "q-{kind}.cfg", RGB, (6,)), FACTORISED)
    noise = rng.normal(size=(3, noisy.noise_units)).astype(np.float32)
    assert len(trunk_places(noisy)) == len(noisy.layers) - 2
    assert_same(noisy, observations(RGB, 3), noise=noise)
    recurrent = read("recurrent")
    state = rng.normal(size=(3, recurrent.state_units)).astype(np.float32)
    assert trunk_places(recurrent) == [0, 1, 2]
    assert_same(recurrent, observations(FRAMES, 3), state=state)


def test_of_several_inputs_the_images() -> None:
    layout = layout_for(None, "actor-critic-{kind}.cfg", BOTH, (5, 1))
    assert 0 < len(trunk_places(layout)) < len(layout.layers)
    rng = np.random.default_rng(1)
    images = rng.integers(0, 256, (4, 20, 24, 3), np.uint8)
    vectors = rng.normal(size=(4, 3)).astype(np.float32)
    assert_same(layout, {"camera": images, VECTOR: vectors})


@pytest.mark.parametrize("rows", [20, math.inf])
def test_a_flattened_image_is_scaled_once(rows: float) -> None:
    """Beside a convolution of another one; NumPy scales what it passes on."""
    inputs = *PARTS, InputSpec("map", (6, 6, 1))
    spec = EnvSpec((3,), "float32", 1, 5, inputs=inputs)
    Path("two.cfg").write_text(TWO_IMAGES, encoding="utf-8")
    layout = layout_for("two.cfg", "q-{kind}.cfg", spec, (5,))
    rng, arrays = np.random.default_rng(1), random_arrays(layout, 2)
    x = {"camera": rng.integers(0, 256, (3, 20, 24, 3), np.uint8)}
    x |= {"map": rng.integers(0, 256, (3, 6, 6, 1), np.uint8)}
    x |= {VECTOR: rng.normal(size=(3, 3)).astype(np.float32)}
    trunk = OnnxTrunk(layout, threads=1, rows=rows)
    expected = bind_network(layout, arrays)(x)[0]
    found = bind_network(layout, arrays, trunk)(x)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_it_pays_off_with_convolutions_and_enough_rows() -> None:
    nature = layout_for(
        None, "actor-critic-{kind}.cfg", EnvSpec((84, 84), "uint8", 4, 6), (6, 1)
    )
    assert [trunk_gains(nature, rows) for rows in (8, 16, 256)] == [False, True, True]
    vector = layout_for(None, "actor-critic-{kind}.cfg", PLAIN, (5, 1))
    assert trunk_places(vector) == [] and not trunk_gains(vector, 10**9)


def test_weights_that_few_rows_read_are_not_packed() -> None:
    """A dense layer reads each of its weights once per row, and a convolution often."""
    nature = layout_for(None, "q-{kind}.cfg", EnvSpec((84, 84), "uint8", 4, 6), (6,))
    convolutions, everything = [0, 1, 2, 3], [*range(6)]  # with what flattens them
    assert trunk_places(nature, 64) == trunk_places(nature, 240) == convolutions
    assert trunk_places(nature, 260) == trunk_places(nature) == everything
    arrays, x = random_arrays(nature, 2), observations(EnvSpec((84, 84), "uint8", 4, 6))
    trunk = OnnxTrunk(nature, threads=1, rows=64)
    assert trunk.places == convolutions
    expected = bind_network(nature, arrays)(x)[0]
    found = bind_network(nature, arrays, trunk)(x)[0]
    np.testing.assert_allclose(expected, found, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("given", "rows"),
    [("auto", 8 * 128), ("onnx", math.inf), ("actor", 0), ("learner", 0)],
)
def test_who_uses_it(given: str, rows: float, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of("ppo", inference=given, n_steps=128, **PONG)
    assert run.onnx_rows(8) == rows
    setup = ActorSetup.of(run, 8, env_threads=1, onnx_rows=rows)
    policy = setup.make_policy(run.spec)
    assert policy.onnx_threads == 1
    assert (policy._trunk is None) == (rows == 0)
    monkeypatch.setattr(base, "is_installed", lambda: False)
    assert setup.make_policy(run.spec)._trunk is None
    assert (run.onnx_rows(1) > 0) == (given == "onnx" or given == "auto")


def test_env_actors_act_on_few_or_many_rows() -> None:
    dqn, few = (
        run_of("dqn", n_envs=4, **PONG_ONLY),
        run_of("a2c", n_envs=1, **PONG_ONLY),
    )
    policy = ActorSetup.of(dqn, 4, onnx_rows=dqn.onnx_rows(4)).make_policy(dqn.spec)
    assert policy._trunk is not None and policy._trunk.places == [0, 1, 2, 3]
    assert few.onnx_rows(1) == 0


def test_doctor_acts_as_a_run_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it times is what a run would take."""
    setups: list[ActorSetup] = []
    kind = examination._Examination
    monkeypatch.setattr(kind, "_shares", EnvShares.of(8, 2, 2.0))
    monkeypatch.setattr(
        kind, "_start", lambda _, path, setup, *more: setups.append(setup)
    )
    for given in ("onnx", "actor"):
        examined: Any = object.__new__(kind)
        examined._definitions = ()
        with pytest.raises(AttributeError):  # nothing has been started
            next(examined._trial(run_of("ppo", inference=given, **PONG), ""))
        assert (setups[-1].onnx_rows > 0) == (given == "onnx")


def test_packages_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suitability, "is_installed", lambda: False)
    with pytest.raises(UserError, match="--inference onnx needs onnx and onnxruntime"):
        run_of("ppo", inference="onnx", **PONG)
