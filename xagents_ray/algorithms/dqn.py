"""Deep Q-learning."""

from dataclasses import dataclass

from xagents_ray.algorithms.families import OffPolicyConfig
from xagents_ray.algorithms.row import Algorithm, Model, register
from xagents_ray.settings.algorithm import OneModel
from xagents_ray.settings.options import option


@dataclass(frozen=True, kw_only=True)
class DQNConfig(OneModel, OffPolicyConfig):
    """Deep Q-learning, doi:10.1038/nature14236; double, arXiv:1509.06461."""

    double: bool = option(False, help="If specified, DDQN will be used")
    epsilon_start: float = option(
        1.0,
        low=0,
        high=1,
        hp_type="log_uniform",
        help="Starting epsilon value which is used to control random exploration",
        known_as=("exploration_initial_eps",),
    )
    epsilon_end: float = option(
        0.02,
        low=0,
        high=1,
        hp_type="log_uniform",
        help="Epsilon end value (minimum exploration rate)",
        explores=True,
        known_as=("exploration_final_eps",),
    )
    epsilon_decay_steps: int = option(
        150_000,
        low=1,
        unit="env steps",
        hp_type="int",
        help="Number of steps for `epsilon-start` to reach `epsilon-end`",
    )
    target_sync_steps: int = option(
        1_000,
        low=1,
        unit="env steps",
        hp_type="int",
        help="Sync target models every n steps",
        known_as=("target_update_interval", "target_network_frequency"),
    )
    tau: float = option(
        1.0,
        low=0,
        high=1,
        exclusive=True,
        hp_type="log_uniform",
        help="Part of its way to the online model that the target model moves at each "
        "sync; 1 copies it",
    )


register(
    Algorithm(
        name="dqn",
        config=DQNConfig,
        learner="xagents_ray.learners.dqn:DQN",
        policy="xagents_ray.actors.policies.epsilon_greedy:EpsilonGreedyPolicy",
        models=(Model("q", "q-{kind}.cfg", ("actions",)),),
        on_policy=False,
        replay="xagents_ray.replay.transitions:TransitionReplay",
        continuous=False,
    )
)
