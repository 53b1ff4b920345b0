"""Networks that compute in bfloat16, and the machines that are fast at it."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from learner_cases import Case, assert_finite, batch, cases, score, slow_ones
from learner_support import publish

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.learners import precision
from xagents_ray.networks import keras as networks
from xagents_ray.run.learner_access import make_learner
from xagents_ray.run.prepare import build_run
from xagents_ray.settings.config import Config

VECTORS, IMAGES = (
    {each.values[0].row.name: each for each in cases([name])}
    for name in ("vector", "grey")
)
ZEN_4 = "vendor_id\t: AuthenticAMD\nflags\t\t: fpu avx512f avx512_bf16\n"
GRANITE_RAPIDS = (
    "vendor_id\t: GenuineIntel\n"
    "flags\t\t: fpu avx512_bf16 avx512_fp16 amx_bf16 amx_tile\n"
)
COOPER_LAKE = "vendor_id\t: GenuineIntel\nflags\t\t: fpu avx512f avx512_bf16\n"


def config(**settings: Any) -> Config:
    given = {"env": "CartPole-v1", "max_steps": 1, "precision": "bfloat16", **settings}
    return Config.of(find_algorithm("ppo").config, given)


@pytest.mark.parametrize("cpuinfo", [ZEN_4, COOPER_LAKE, GRANITE_RAPIDS])
def test_fast_cpus(cpuinfo: str) -> None:
    assert precision.has_fast_cpu(cpuinfo)
    assert precision.has_fast_cpu(2 * f"{cpuinfo}\n")


def test_slow_cpus() -> None:
    hidden_amx = GRANITE_RAPIDS.replace(" amx_bf16", "")
    older = COOPER_LAKE.replace(" avx512_bf16", "")
    arm = "Features\t: fp asimd bf16 i8mm\n"
    assert not any(map(precision.has_fast_cpu, (hidden_amx, older, arm, "")))


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="has a GPU")
def test_a_slow_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "has_fast_cpu", lambda cpuinfo: False)
    run = build_run(find_algorithm("ppo"), config(), EnvSpec((4,), "float32", 1, 2))
    with pytest.raises(UserError, match="add --allow-slow-precision"):
        make_learner(run)
    precision.check_precision(config(allow_slow_precision=True))
    precision.check_precision(config(precision="float32"))
    monkeypatch.setattr(precision, "has_fast_cpu", lambda cpuinfo: True)
    precision.check_precision(config())


@pytest.mark.parametrize(("capability", "is_fast"), [((8, 0), True), ((7, 5), False)])
def test_gpus_since_ampere_are_fast(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], is_fast: bool
) -> None:
    details = {"compute_capability": capability}
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [kind])
    monkeypatch.setattr(
        tf.config.experimental, "get_device_details", lambda gpu: details
    )
    if is_fast:
        precision.check_precision(config())
        return
    with pytest.raises(UserError, match=r"GPU is of compute capability 7\.5, less"):
        precision.check_precision(config())


def test_only_layers_before_the_outputs_compute_in_bfloat16() -> None:
    case: Case = IMAGES["ppo"].values[0]
    layout = case.row.layout(None, case.spec)
    model = networks.build_model(layout, 0, "policy", "bfloat16")
    outputs = {layout.layers[i].name for i in layout.outputs}
    for layer in model.layers[1:]:
        expected = "float32" if layer.name in outputs else "bfloat16"
        assert layer.compute_dtype == expected
    assert all(weight.dtype == "float32" for weight in model.weights)
    x = np.random.default_rng(0).random((5, *layout.input_shape), np.float32)
    exact = networks.build_model(layout, 0, "policy")(x)
    for got, wanted in zip(model(x), exact, strict=True):
        assert got.dtype == tf.float32
        assert 0 < np.abs(got - wanted).max() < 0.02 * np.abs(wanted).max()


@pytest.mark.parametrize(
    "case",
    [
        *slow_ones(VECTORS.values(), "(?!sac|ppo).*|ppo-continuous.*"),
        IMAGES["dqn"],
        *slow_ones([IMAGES["trpo"]], ".*"),
    ],
)
def test_every_agent_learns_in_bfloat16(case: Case) -> None:
    """TRPO by second derivatives, ACER by ratios to what acted in float32."""
    learner = case.learner(seed=3, precision="bfloat16")
    before, updates, step = publish(learner), 0.0, 0
    while step < 40 or updates < 50:
        data = batch(case, publish(learner), seed=step)
        metrics = learner.update(data, step)
        updates, step = updates + metrics["updates"], step + 1
    after = publish(learner)
    assert_finite(metrics, after)
    assert all(array.dtype != "bfloat16" for array in learner.state.arrays().values())
    best = 1.0 if case.spec.is_discrete else 0.0
    gaps = [best - score(case, weights) for weights in (before, after)]
    assert gaps[1] < 0.9 * gaps[0]
