"""Proximal policy optimization."""

from dataclasses import dataclass

from xagents_ray.algorithms.families import ACTOR_CRITIC, AdvantageConfig
from xagents_ray.algorithms.row import Algorithm, register
from xagents_ray.settings.algorithm import OneModel
from xagents_ray.settings.options import changed, option


@dataclass(frozen=True, kw_only=True)
class PPOConfig(OneModel, AdvantageConfig):
    """Proximal policy optimization, arXiv:1707.06347."""

    n_steps: int = changed(AdvantageConfig, "n_steps", 128)
    ppo_epochs: int = option(
        4,
        low=1,
        hp_type="categorical",
        help="Passes over the batch per training step",
        known_as=("n_epochs", "num_epochs", "epochs", "update_epochs"),
        remedy_for="learning",
    )
    clip_norm: float = option(
        0.1,
        low=0,
        exclusive=True,
        hp_type="log_uniform",
        help="Clipping of the importance ratio",
        known_as=("clip_range", "clip_coef", "clip_param", "clip_ratio"),
    )
    clip_decay: bool = option(
        False,
        help="If specified, --clip-norm falls linearly to 0 over --max-steps",
        needs_max_steps=True,
    )
    clip_value: float | None = option(
        None,
        low=0,
        unit="reward",
        hp_type="log_uniform",
        help="Clipping of the value's change, in units of the rewards learned from; 0 "
        "for none; default: that of --clip-norm, with its decay",
        known_as=("clip_range_vf", "vf_clip_param"),
    )


register(
    Algorithm(
        name="ppo",
        config=PPOConfig,
        learner="xagents_ray.learners.ppo:PPO",
        policy="xagents_ray.actors.policies.actor_critic:ActorCriticPolicy",
        models=(ACTOR_CRITIC,),
        on_policy=True,
    )
)
