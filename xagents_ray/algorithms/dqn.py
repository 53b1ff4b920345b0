"""Deep Q-learning."""

from dataclasses import dataclass

from xagents_ray.algorithms.families import OffPolicyConfig
from xagents_ray.algorithms.row import Algorithm, Model, add
from xagents_ray.settings.algorithm import OneModel
from xagents_ray.settings.options import count, fraction, option


@dataclass(frozen=True, kw_only=True)
class DQNConfig(OneModel, OffPolicyConfig):
    """Deep Q-learning, doi:10.1038/nature14236; double, arXiv:1509.06461."""

    double: bool = option(False, "If specified, DDQN will be used")
    epsilon_start: float = fraction(
        1.0,
        "Starting epsilon value which is used to control random exploration",
        known_as=("exploration_initial_eps",),
    )
    epsilon_end: float = fraction(
        0.02,
        "Epsilon end value (minimum exploration rate)",
        explores=True,
        known_as=("exploration_final_eps",),
    )
    epsilon_decay_steps: int = count(
        150_000,
        "Number of steps for `epsilon-start` to reach `epsilon-end`",
        unit="env steps",
        hp_type="int",
    )
    target_sync_steps: int = count(
        1_000,
        "Sync target models every n steps",
        unit="env steps",
        hp_type="int",
        known_as=("target_update_interval", "target_network_frequency"),
    )
    tau: float = fraction(
        1.0,
        "Part of its way to the online model that the target model moves at each "
        "sync; 1 copies it",
        exclusive=True,
    )


add(
    Algorithm(
        name="dqn",
        config=DQNConfig,
        learner="xagents_ray.learners.dqn:DQN",
        policy="xagents_ray.actors.policies.exploring:EpsilonGreedyPolicy",
        models=(Model("q", "q-{kind}.cfg", ("actions",)),),
        on_policy=False,
        replay="xagents_ray.replay.transitions:TransitionReplay",
        continuous=False,
    )
)
