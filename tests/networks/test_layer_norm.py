"""Critics with layer norm: Keras against sums by hand, and what is refused."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from naive import random_arrays
from network_cases import model_of

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.networks.forward import bind_network
from xagents_ray.networks.keras_models import model_bytes
from xagents_ray.networks.layout import Layout

SPEC = EnvSpec((3,), "float32", 1, 0, (-1.0, -1.0), (1.0, 1.0))


def layouts_of(agent: str, **settings: Any) -> tuple[Layout, ...]:
    row = find_algorithm(agent)
    return row.layouts(row.config(layer_norm=True, **settings), SPEC)


def by_hand(arrays: dict[str, Any], x: list[float], hidden: int) -> float:
    """Return the value of one input: dense, normalized, then relu."""
    for i in range(hidden):
        kernel, bias = arrays[f"dense-{i}/kernel"], arrays[f"dense-{i}/bias"]
        sums = [
            float(bias[j]) + sum(float(kernel[k, j]) * x[k] for k in range(len(x)))
            for j in range(len(bias))
        ]
        mean = sum(sums) / len(sums)
        deviation = (sum((s - mean) ** 2 for s in sums) / len(sums) + 1e-5) ** 0.5
        gamma, beta = (arrays[f"dense-{i}-norm/{n}"] for n in ("gamma", "beta"))
        x = [
            max(0.0, float(g) * (s - mean) / deviation + float(b))
            for s, g, b in zip(sums, gamma, beta, strict=True)
        ]
    last = arrays[f"dense-{hidden}/kernel"][:, 0], arrays[f"dense-{hidden}/bias"][0]
    return float(last[1]) + sum(
        float(w) * own for w, own in zip(last[0], x, strict=True)
    )


def test_hidden_layers_are_normalized_before_they_are_activated() -> None:
    text = "[dense-0]\nunits=6\nactivation=relu\n[dense-1]\nunits=4\nactivation=relu\n"
    Path("critic.cfg").write_text(text + "[dense-2]\noutput=1\n")
    _, critic, other = layouts_of("td3", critic_model="critic.cfg")
    assert critic == other
    arrays = random_arrays(critic, 1)
    rng = np.random.default_rng(2)
    for name in list(arrays):
        if name.endswith("beta"):
            arrays[name] = rng.normal(size=arrays[name].shape).astype(np.float32)
    model = model_of(critic, arrays)
    x = rng.normal(size=(7, 5)).astype(np.float32)
    expected = [by_hand(arrays, row.tolist(), 2) for row in x]
    np.testing.assert_allclose(model(x)[:, 0], expected, rtol=1e-4, atol=1e-5)
    (numpy,) = bind_network(critic, arrays)(x)
    np.testing.assert_allclose(numpy[:, 0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("agent", ["ddpg", "td3", "sac"])
def test_only_critics_have_it(agent: str) -> None:
    actor, *critics = layouts_of(agent)
    assert (
        actor == find_algorithm(agent).layouts(find_algorithm(agent).config(), SPEC)[0]
    )
    for critic in critics:
        names = [layer.name for layer in critic.layers]
        assert [name for name in names if name.endswith("-norm")] == [
            "dense-0-norm",
            "dense-1-norm",
        ]
        assert critic.outputs == (len(names) - 1,)


def test_a_keras_critic_has_its_own_layers() -> None:
    x = keras.Input((5,))
    content = model_bytes(keras.Model(x, keras.layers.Dense(1)(x)), "critic")
    Path("critic.keras").write_bytes(content)
    with pytest.raises(UserError, match="is a Keras model: drop --layer-norm"):
        layouts_of("sac", critic_model="critic.keras")
