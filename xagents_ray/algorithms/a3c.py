"""Asynchronous advantage actor-critic."""

from dataclasses import dataclass
from typing import ClassVar

from xagents_ray.algorithms.policy_gradient import ACTOR_CRITIC, OneStepConfig
from xagents_ray.algorithms.row import Algorithm, add
from xagents_ray.algorithms.trajectory_replay import OptionalReplayConfig


@dataclass(frozen=True, kw_only=True)
class A3CConfig(OptionalReplayConfig, OneStepConfig):
    """Asynchronous advantage actor-critic, arXiv:1602.01783."""

    runs_free: ClassVar[bool] = True
    learns_each_rollout: ClassVar[bool] = True


add(
    Algorithm(
        name="a3c",
        config=A3CConfig,
        learner="xagents_ray.learners.a3c:A3C",
        policy="xagents_ray.actors.policies.actor_critic:ActorCriticPolicy",
        models=(ACTOR_CRITIC,),
        on_policy=True,
        replay="xagents_ray.replay.trajectories:TrajectoryReplay",
        multi_discrete=True,
    )
)
