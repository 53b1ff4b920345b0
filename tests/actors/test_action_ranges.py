"""From what a policy chooses to the environment's range, of numbers and of integers."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from naive import random_arrays
from policies import policy_of
from ranges import SPACES

from xagents_ray import Policy
from xagents_ray.actors.envs.specs import action_facts
from xagents_ray.actors.envs.wrapping import action_converter
from xagents_ray.algorithms.acer import ACERConfig
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.plugins import resolve_class
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Weights
from xagents_ray.policy.loading import LoadedPolicy

ON_POLICY = ["a2c", "a3c", "impala", "ppo", "trpo"]
OFF_POLICY = ["ddpg", "sac", "td3"]
INTEGERS = [
    *(SPACES["bits"], SPACES["signs"]),
    gym.spaces.Box(np.array([0, 250]), np.array([5, 255]), dtype=np.uint8),
    gym.spaces.Box(-128, -125, (1,), np.int8),
    gym.spaces.Box(0, 1, (1,), np.bool_),
]


def policy_for(agent: str, space: gym.spaces.Box, config: Any = None) -> Any:
    """Return a policy of `actors/` with random weights for actions of a space."""
    spec = EnvSpec((3,), "float32", 1, **action_facts(space, "env"))
    row = find_algorithm(agent)
    layout = row.layouts(config or row.config(), spec)[0]
    log_std = np.full(spec.action_units, 0.5, np.float32)
    policy = resolve_class("policy", row.policy)(config or row.config(), spec, layout)
    policy.load(Weights(1, {**random_arrays(layout, 2), "log_std": log_std}))
    return policy


def observations(rows: int) -> Any:
    return np.random.default_rng(1).normal(size=(rows, 3)).astype(np.float32)


def noise_of(policy: Any, rows: int) -> Any:
    return policy.noise([np.random.default_rng(0)], rows)[:, 0]


@pytest.mark.parametrize("space", INTEGERS, ids=str)
@pytest.mark.parametrize("agent", OFF_POLICY)
def test_each_integer_is_equally_likely_at_random(agent: str, space: Any) -> None:
    policy, count = policy_for(agent, space), 20_000
    chosen = policy.act(observations(count), noise_of(policy, count), 0)
    actions = action_converter(space)(chosen.stepped)
    assert actions.dtype == space.dtype
    for column, low, high in zip(actions.T, space.low, space.high, strict=True):
        found, counts = np.unique(column, return_counts=True)
        assert found.tolist() == [*range(int(low), int(high) + 1)]
        chance = 1 / len(found)
        deviation = (count * chance * (1 - chance)) ** 0.5
        assert (np.abs(counts - count * chance) < 5 * deviation).all()


def certain(agent: str, env: str, output: float) -> Policy:
    """Return a policy whose network gives a number, before a tanh, in every state."""
    policy = policy_of(agent, env=env)
    run, weights, source, *_ = vars(policy._trained).values()
    name = run.layout.layers[run.layout.outputs[0]].name
    arrays = {
        k: 0 * x if k == f"{name}/kernel" else x for k, x in weights.arrays.items()
    }
    arrays[f"{name}/bias"] = np.full_like(arrays[f"{name}/bias"], output)
    return Policy(LoadedPolicy(run, weights._replace(arrays=arrays), source))


@pytest.mark.parametrize(
    ("agent", "kind"),
    [
        *(
            (agent, kind)
            for agent in ("ppo", *OFF_POLICY)
            for kind in ("bits", "signs")
        ),
        *(("ppo", kind) for kind in ("far", "wide", "narrow")),
    ],
)
def test_a_policy_reaches_both_ends(agent: str, kind: str) -> None:
    """Integers before it is at its bound: the last one has a part of the range."""
    for end, bound in ((-1, SPACES[kind].low), (1, SPACES[kind].high)):
        action = certain(agent, f"ranges:{kind}", end).act(np.zeros(3))
        assert action.dtype == bound.dtype
        np.testing.assert_allclose(action, bound, rtol=1e-6)


def test_the_ends_of_64_bits() -> None:
    for kind in (np.int64, np.uint64):
        limits = np.iinfo(kind)
        convert = action_converter(gym.spaces.Box(limits.min, limits.max, (1,), kind))
        found = convert(np.array([[-1e30], [7.4], [1e30]], np.float32))
        assert found[:, 0].tolist() == [limits.min, 7, limits.max]


def test_integers_without_bounds_are_not_scaled() -> None:
    facts = action_facts(gym.spaces.Box(-np.inf, np.inf, (1,), np.int32), "env")
    assert (facts["action_low"], facts["action_high"]) == ((-np.inf,), (np.inf,))


@pytest.mark.parametrize("settings", [{}, {"sde_frequency": 4}], ids=str)
@pytest.mark.parametrize("agent", ON_POLICY)
def test_only_what_has_two_bounds_is_scaled(
    agent: str, settings: dict[str, Any]
) -> None:
    """Drawn actions, which are learned from, are the same either way."""
    config, space = find_algorithm(agent).config, SPACES["mixed"]
    scaled, unscaled = (
        policy_for(agent, space, config(action_scaling=scales, **settings))
        for scales in (True, False)
    )
    x, noise = observations(500), noise_of(scaled, 500)
    chosen, raw = (each.act(x, noise, 0) for each in (scaled, unscaled))
    np.testing.assert_array_equal(chosen.stored, raw.stored)
    np.testing.assert_array_equal(raw.stepped, raw.stored.clip(space.low, space.high))
    first, *others = chosen.stepped.T
    np.testing.assert_array_equal(others, raw.stepped.T[1:])
    expected = 20 + 15 * raw.stored[:, 0].clip(-1, 1)
    np.testing.assert_allclose(first, expected, 1e-5)
    assert chosen.stepped.dtype == np.float32
    assert {5, 35} < {*first.tolist()}
    means, greedy = unscaled._forward(x)[0], scaled.greedy(x)
    np.testing.assert_allclose(greedy[:, 0], 20 + 15 * means[:, 0].clip(-1, 1), 1e-5)
    np.testing.assert_array_equal(greedy[:, 1:], unscaled.greedy(x)[:, 1:])


def test_bounds_of_1_change_nothing() -> None:
    """Bit for bit, so that what was learned before is learned again."""
    policy = policy_for("ppo", gym.spaces.Box(-1, 1, (2,), np.float32))
    x, noise = observations(500), noise_of(policy, 500)
    chosen = policy.act(x, noise, 0)
    np.testing.assert_array_equal(chosen.stepped, chosen.stored.clip(-1, 1))


def test_an_algorithm_without_the_setting_acts_in_the_units_of_the_environment() -> (
    None
):
    """One of a user's own that names this policy, as that of `examples`."""
    policy = policy_for("ppo", SPACES["wide"], ACERConfig())
    chosen = policy.act(observations(50), noise_of(policy, 50), 0)
    np.testing.assert_array_equal(chosen.stepped, chosen.stored)
