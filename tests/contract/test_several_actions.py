"""Several discrete actions at once, as MultiDiscrete and MultiBinary spaces have."""

from typing import Any

import numpy as np
import pytest

from xagents_ray import UserError, train
from xagents_ray.actors.envs.make import make_envs
from xagents_ray.settings.training import EnvConfig

RUN: dict[str, Any] = {"local": True, "quiet": True, "tensorboard": False, "seed": 1}


@pytest.mark.parametrize("vectorization", ["auto", "async"])
@pytest.mark.parametrize(
    ("name", "sizes"),
    [("discrete", (3, 2, 4)), ("matrix", (2, 3, 4, 1)), ("binary", (2,) * 4)],
)
def test_actions_are_of_their_space(name: str, sizes: Any, vectorization: str) -> None:
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
        ("ppo", "discrete", {"lr": 0.01, "mini_batches": 2, "max_steps": 8000}),
        ("trpo", "matrix", {"max_kl": 0.05, "jit": "off"}),
    ],
)
def test_they_are_learned(agent: str, name: str, settings: Any) -> None:
    """At random the mean reward is 2 to 4 of 6."""
    if agent != "a2c":
        settings = {"n_steps": 32, **settings}
    run = {**RUN, "n_envs": 8, "max_steps": 4000, "reward_buffer_size": 50, **settings}
    result = train(agent, env=f"several:{name}", **run)
    assert result.mean_reward is not None and result.mean_reward > 4.8


@pytest.mark.parametrize("agent", ["dqn", "acer", "td3"])
def test_others_say_who_can(agent: str) -> None:
    words = "actions.* of this environment|several actions at once.*; use a2c, a3c"
    with pytest.raises(UserError, match=words) as raised:
        train(agent, env="several:discrete", max_steps=10, **RUN)
    assert str(raised.value).endswith("; use a2c, a3c, impala, ppo or trpo.")
