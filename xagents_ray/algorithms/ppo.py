"""Proximal policy optimization."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from xagents_ray.algorithms.policy_gradient import (
    ACTOR_CRITIC,
    AdvantageConfig,
    PolicyAndValue,
)
from xagents_ray.algorithms.row import Algorithm, add
from xagents_ray.algorithms.trajectory_replay import OptionalReplayConfig
from xagents_ray.settings.options import changed, coefficient, count, option, positive


@dataclass(frozen=True, kw_only=True)
class PPOConfig(OptionalReplayConfig, PolicyAndValue, AdvantageConfig):
    """Proximal policy optimization, arXiv:1707.06347."""

    replaced: ClassVar[Mapping[str, str]] = {
        **OptionalReplayConfig.replaced,
        "vf_clip_param": "in RLlib it bounds the squared error of a value, and here "
        "--clip-value bounds the change of a value",
    }
    n_steps: int = changed(AdvantageConfig, "n_steps", 128)
    ppo_epochs: int = count(
        4,
        "Passes over the batch per training step",
        hp_type="categorical",
        known_as=("n_epochs", "num_epochs", "epochs", "update_epochs"),
        remedy_for="learning",
    )
    clip_norm: float = positive(
        0.1,
        "Clipping of the importance ratio",
        known_as=("clip_range", "clip_coef", "clip_param", "clip_ratio"),
    )
    clip_decay: bool = option(
        False,
        "If specified, --clip-norm falls linearly to 0 over --max-steps",
        needs_max_steps=True,
    )
    clip_value: float | None = coefficient(
        None,
        "Clipping of the value's change, in units of the rewards learned from; 0 "
        "for none; default: that of --clip-norm, with its decay",
        unit="reward",
        known_as=("clip_range_vf",),
    )
    target_kl: float | None = positive(
        None,
        "No more updates from a batch once the policy's KL divergence from the one "
        "that acted, or with --decoupled-loss or --replay-ratio from the newest "
        "weights before the updates, is above 1.5 times this; default: no limit",
        unit="nats",
    )
    decoupled_loss: bool = option(
        False,
        "If specified, older weights that acted are corrected for by importance "
        "weights, and ratios are clipped about the newest weights before the updates; "
        "for --policy-lag and --asynchronous",
        known_as=("use_decoupled_loss", "decoupled_objective"),
    )


add(
    Algorithm(
        name="ppo",
        config=PPOConfig,
        learner="xagents_ray.learners.ppo:PPO",
        policy="xagents_ray.actors.policies.actor_critic:ActorCriticPolicy",
        models=(ACTOR_CRITIC,),
        on_policy=True,
        replay="xagents_ray.replay.trajectories:TrajectoryReplay",
        multi_discrete=True,
    )
)
