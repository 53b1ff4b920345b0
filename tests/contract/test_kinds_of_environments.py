"""Every algorithm on 1, 3 and 16 environments, on every kind of vector and action."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from xagents_ray import UserError, train
from xagents_ray.actors.envs.make import make_envs
from xagents_ray.algorithms.table import all_algorithms
from xagents_ray.settings.training import EnvConfig

RUN: dict[str, Any] = {"local": True, "quiet": True, "tensorboard": False}
# Each kind with each number, shared out over discrete and continuous actions; one
# case of each algorithm is quick, and each of the six pairs is quick for one or two.
ODD = [(1, "float64", False), (3, "uint8", True), (16, "float32", False)]
EVEN = [(1, "uint8", True), (3, "float32", False), (16, "float64", True)]
CASES = [
    pytest.param(
        name,
        n_envs,
        dtype,
        id=f"{name}-{n_envs}-{dtype}-{wants_discrete}",
        marks=[] if (i // 2 - j) % 3 == 0 else pytest.mark.slow,
    )
    for i, (name, row) in enumerate(all_algorithms().items())
    for j, (n_envs, dtype, prefers) in enumerate((ODD, EVEN)[i % 2])
    for wants_discrete in [prefers if row.discrete and row.continuous else row.discrete]
    for dtype in [dtype + "_discrete" * wants_discrete]
]


@pytest.mark.parametrize(("agent", "n_envs", "factory"), CASES)
def test_it_learns_something(agent: str, n_envs: int, factory: str) -> None:
    config = all_algorithms()[agent].config
    known = {field.name for field in fields(config)}
    small = {"n_steps": 8, "mini_batches": 2, "buffer_initial_size": 40}
    if "n_steps" in known and config().replay is None:  # by default
        del small["buffer_initial_size"]
    settings: dict[str, Any] = {k: v for k, v in small.items() if k in known}
    settings["jit"] = "off"  # compiling takes longer than the rest
    run = {"n_envs": n_envs, "max_steps": 400, "seed": 1, **settings, **RUN}
    result = train(agent, env=f"places:{factory}", **run)
    assert result.env_steps >= 400
    assert result.games >= 400 // 5 - n_envs
    assert result.updates >= 3
    if agent == "acer":  # a round each, and replayed ones beside the last rounds
        assert result.updates > 1 + result.env_steps / (8 * n_envs)


OFF_POLICY = [
    n for n, row in all_algorithms().items() if not row.on_policy and row.discrete
]


@pytest.mark.parametrize("agent", OFF_POLICY)
def test_a_replay_that_must_be_full_fills(agent: str) -> None:
    """CartPole's first episodes have about 22 steps: many rows only reset."""
    sizes: dict[str, Any] = {"buffer_max_size": 1000, "buffer_initial_size": 1000}
    run = {"n_envs": 2, "max_steps": 3000, **sizes, **RUN}
    assert train(agent, env="CartPole-v1", **run).updates > 0


@pytest.mark.parametrize("more", [{}, {"eval_every": 64, "eval_episodes": 50}])
def test_a_crash_in_mid_run_names_their_line(more: dict[str, Any]) -> None:
    """Without Ray, where nothing could be replaced; of an evaluation too."""
    run = {"env": "places:crashing", "n_steps": 64, "max_steps": 400, **RUN, **more}
    with pytest.raises(UserError, match=r"crashed \(.*places\.py, line \d+\)"):
        train("ppo", **run)


@pytest.mark.parametrize("vectorization", ["auto", "async"])
@pytest.mark.parametrize(
    ("name", "sizes"),
    [("discrete", (3, 2, 4)), ("matrix", (2, 3, 4, 1)), ("binary", (2,) * 4)],
)
def test_several_actions_are_of_their_space(
    name: str, sizes: Any, vectorization: str
) -> None:
    """The environment checks that; the last of each part is paid."""
    config = EnvConfig(env=f"several:{name}", vectorization=vectorization)
    envs = make_envs(config, 2, 1)
    assert (envs.spec.action_sizes, envs.spec.action_units) == (sizes, sum(sizes))
    assert envs.spec.action_shape == (len(sizes),) and envs.spec.is_discrete
    envs.reset(0)
    first, best = np.zeros(len(sizes), np.int32), np.array(sizes, np.int32) - 1
    step = envs.step(np.stack([best, first]))
    expected = [1, np.mean(best == first)]
    np.testing.assert_allclose(step.raw_rewards, expected)
    envs.close()


@pytest.mark.parametrize(
    ("agent", "name", "settings"),
    [
        ("a2c", "binary", {"lr": 0.01}),
        pytest.param(
            "ppo",
            "discrete",
            {"lr": 0.01, "mini_batches": 2, "max_steps": 8000},
            marks=pytest.mark.slow,
        ),
        ("trpo", "matrix", {"max_kl": 0.05, "jit": "off"}),
    ],
)
def test_several_actions_are_learned(agent: str, name: str, settings: Any) -> None:
    """At random the mean reward is 2 to 4 of 6."""
    if agent != "a2c":
        settings = {"n_steps": 32, **settings}
    run = {"n_envs": 8, "max_steps": 4000, "reward_buffer_size": 50, **settings}
    result = train(agent, env=f"several:{name}", seed=1, **RUN, **run)
    assert result.mean_reward is not None and result.mean_reward > 4.8


@pytest.mark.parametrize("agent", ["dqn", "acer", "td3"])
def test_others_say_who_takes_several_actions(agent: str) -> None:
    words = "actions.* of this environment|several actions at once.*; use a2c, a3c"
    with pytest.raises(UserError, match=words) as raised:
        train(agent, env="several:discrete", max_steps=10, **RUN)
    assert str(raised.value).endswith("; use a2c, a3c, impala, ppo or trpo.")
