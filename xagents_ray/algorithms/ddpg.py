"""Deep deterministic policy gradient."""

from dataclasses import dataclass

from xagents_ray.algorithms.off_policy import DETERMINISTIC_MODELS, DeterministicConfig
from xagents_ray.algorithms.row import Algorithm, add


@dataclass(frozen=True, kw_only=True)
class DDPGConfig(DeterministicConfig):
    """Deep deterministic policy gradient, arXiv:1509.02971."""


add(
    Algorithm(
        name="ddpg",
        config=DDPGConfig,
        learner="xagents_ray.learners.ddpg:DDPG",
        policy="xagents_ray.actors.policies.exploring:DeterministicPolicy",
        models=DETERMINISTIC_MODELS,
        on_policy=False,
        replay="xagents_ray.replay.transitions:TransitionReplay",
        discrete=False,
    )
)
