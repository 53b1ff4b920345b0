"""Scalars under the names of Stable-Baselines3."""

from collections.abc import Mapping

import pytest

from xagents_ray.watch.scalar_names import sb3_scalars

LOSSES = {"train/policy_loss": 0.5, "train/value_loss": 3.0, "train/entropy": 0.25}


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        (
            "ppo",  # of which ours is half of the squared error
            {
                "train/policy_gradient_loss": 0.5,
                "train/value_loss": 6.0,
                "train/entropy_loss": -0.25,
            },
        ),
        (
            "a2c",
            {
                "train/policy_loss": 0.5,
                "train/value_loss": 3.0,
                "train/entropy_loss": -0.25,
            },
        ),
        (
            "sac",  # of which ours is the sum of the critics, theirs half of that
            {
                "train/actor_loss": 0.5,
                "train/critic_loss": 1.5,
                "train/entropy": 0.25,
            },
        ),
        (
            "td3",
            {
                "train/actor_loss": 0.5,
                "train/critic_loss": 3.0,
                "train/entropy_loss": -0.25,
            },
        ),
    ],
)
def test_losses_have_the_names_and_signs_of_sb3(
    agent: str, expected: Mapping[str, float]
) -> None:
    assert sb3_scalars(agent, LOSSES) == expected


def test_what_sb3_has_no_name_for_keeps_its_own() -> None:
    own = {"policy_lag/mean": 1.0, "train/grad_norm": 2.0, "train/kl": 3.0, "mine": 4.0}
    assert sb3_scalars("ppo", own) == own
    assert sb3_scalars("an-agent-of-mine", own) == own


def test_returns_lengths_and_speed() -> None:
    ours = {
        "reward/mean": 1.0,
        "reward/best": 2.0,
        "reward/evaluation": 3.0,
        "length/mean": 4.0,
        "length/evaluation": 5.0,
        "success/rate": 6.0,
        "success/evaluation": 7.0,
        "run/epsilon": 8.0,
        "run/steps_per_second": 9.0,
    }
    assert sb3_scalars("dqn", ours) == {
        "rollout/ep_rew_mean": 1.0,
        "reward/best": 2.0,
        "eval/mean_reward": 3.0,
        "rollout/ep_len_mean": 4.0,
        "eval/mean_ep_length": 5.0,
        "rollout/success_rate": 6.0,
        "eval/success_rate": 7.0,
        "rollout/exploration_rate": 8.0,
        "time/fps": 9.0,
    }
