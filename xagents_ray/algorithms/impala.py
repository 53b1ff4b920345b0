"""Importance-weighted actor-learner architecture."""

from dataclasses import dataclass
from typing import ClassVar

from xagents_ray.algorithms.families import ACTOR_CRITIC, OneStepConfig
from xagents_ray.algorithms.row import Algorithm, add
from xagents_ray.settings.options import changed, positive


@dataclass(frozen=True, kw_only=True)
class IMPALAConfig(OneStepConfig):
    """Importance-weighted actor-learner architecture, arXiv:1802.01561."""

    runs_free: ClassVar[bool] = True
    n_steps: int = changed(OneStepConfig, "n_steps", 20)
    grad_norm: float = changed(OneStepConfig, "grad_norm", 40.0)
    rho_clip: float = positive(
        1.0,
        "Largest importance ratio that weights V-trace's errors and the policy's "
        "gradient; a lower one draws values towards those of the policy that acted",
        known_as=("vtrace_clip_rho_threshold", "impala_trunc_rho_max", "rho_bar"),
    )
    c_clip: float = positive(
        1.0,
        "Largest importance ratio that passes V-trace's later errors back; a lower "
        "one reduces the variance and slows the values down",
        known_as=("vtrace_clip_c_threshold", "impala_trunc_c_max", "c_bar"),
    )


add(
    Algorithm(
        name="impala",
        config=IMPALAConfig,
        learner="xagents_ray.learners.impala:IMPALA",
        policy="xagents_ray.actors.policies.actor_critic:ActorCriticPolicy",
        models=(ACTOR_CRITIC,),
        on_policy=True,
        multi_discrete=True,
    )
)
