"""Forbidden actions are never taken; the environment raises at the first one."""

from typing import Any

import pytest

import xagents_ray
from xagents_ray.core.errors import UserError

_STEPS = 100_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "settings"),
    [
        ("ppo", {"n_envs": 16}),
        ("dqn", {"n_envs": 16, "buffer_initial_size": 9_000}),
    ],
)
def test_no_forbidden_action_in_100_000(agent: str, settings: dict[str, Any]) -> None:
    train: Any = xagents_ray.train
    usual = {"env": "masked_envs:Locks", "max_steps": _STEPS, "seed": 711}
    result = train(agent, **usual, **settings, local=True, quiet=True)
    assert result.env_steps >= _STEPS
    assert not result.failures


def test_without_masks_one_is_taken_at_once() -> None:
    with pytest.raises(UserError, match="is not allowed"):
        xagents_ray.train(
            "ppo",
            env="masked_envs:Locks",
            action_masks=False,
            n_envs=4,
            max_steps=1_000,
            seed=711,
            local=True,
            quiet=True,
        )
