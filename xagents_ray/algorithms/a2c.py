"""Advantage actor-critic."""

from dataclasses import dataclass

from xagents_ray.algorithms.policy_gradient import ACTOR_CRITIC, OneStepConfig
from xagents_ray.algorithms.row import Algorithm, add
from xagents_ray.algorithms.trajectory_replay import OptionalReplayConfig


@dataclass(frozen=True, kw_only=True)
class A2CConfig(OptionalReplayConfig, OneStepConfig):
    """Advantage actor-critic, arXiv:1602.01783."""


add(
    Algorithm(
        name="a2c",
        config=A2CConfig,
        learner="xagents_ray.learners.a2c:A2C",
        policy="xagents_ray.actors.policies.actor_critic:ActorCriticPolicy",
        models=(ACTOR_CRITIC,),
        on_policy=True,
        replay="xagents_ray.replay.trajectories:TrajectoryReplay",
        multi_discrete=True,
    )
)
