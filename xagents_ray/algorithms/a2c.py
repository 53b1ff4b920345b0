"""Advantage actor-critic."""

from dataclasses import dataclass
from typing import ClassVar

from xagents_ray.algorithms.families import ACTOR_CRITIC, ActorCriticConfig
from xagents_ray.algorithms.row import Algorithm, add
from xagents_ray.settings.algorithm import OneModel


@dataclass(frozen=True, kw_only=True)
class A2CConfig(OneModel, ActorCriticConfig):
    """Advantage actor-critic, arXiv:1602.01783."""

    reads_values: ClassVar[bool] = False  # it computes newer ones


add(
    Algorithm(
        name="a2c",
        config=A2CConfig,
        learner="xagents_ray.learners.a2c:A2C",
        policy="xagents_ray.actors.policies.actor_critic:ActorCriticPolicy",
        models=(ACTOR_CRITIC,),
        on_policy=True,
        multi_discrete=True,
    )
)
