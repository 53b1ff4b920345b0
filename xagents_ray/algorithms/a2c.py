"""Advantage actor-critic."""

from dataclasses import dataclass

from xagents_ray.algorithms import (
    critic_inputs,
    noisy_layers,
    policy_gradient,
    recurrent_layers,
    state_dependent,
    trajectory_replay,
)
from xagents_ray.algorithms.definition import Algorithm, add_algorithm
from xagents_ray.algorithms.policy_gradient import ACTOR_CRITIC
from xagents_ray.settings import learning, models, replay
from xagents_ray.settings.algorithm import AlgorithmConfig


@dataclass(frozen=True, kw_only=True)
class A2CConfig(AlgorithmConfig):
    """Advantage actor-critic, arXiv:1602.01783."""

    replaced = trajectory_replay.OPTIONAL_REPLACED
    reads_values = False  # the learner recomputes them

    gamma: float = learning.gamma(0.99)
    optimizer: str = learning.optimizer("adam")
    lr: float | str = learning.lr(7e-4)
    beta1: float = learning.beta1(0.9)
    beta2: float = learning.beta2(0.999)
    opt_epsilon: float = learning.opt_epsilon(1e-7)
    precision: str = learning.precision("float32")
    lr_decay: bool = learning.lr_decay(False)
    normalize_observations: bool = learning.normalize_observations(False)
    normalize_rewards: bool = learning.normalize_rewards(False)

    feature_maker: str | None = models.feature_maker(None)
    model: str | None = models.model(None)
    separate_networks: bool = policy_gradient.separate_networks(False)
    critic_inputs: str | None = critic_inputs.critic_inputs(None)
    memory: str | None = recurrent_layers.memory(None)

    n_steps: int = policy_gradient.n_steps(5)
    entropy_coef: float | str = policy_gradient.entropy_coef(0.01)
    grad_norm: float = policy_gradient.grad_norm(0.5)
    value_loss_coef: float = policy_gradient.value_loss_coef(0.5)
    lam: float = policy_gradient.lam(1.0)
    normalize_advantages: bool = policy_gradient.normalize_advantages(False)
    advantage_epsilon: float = policy_gradient.advantage_epsilon(1e-8)
    action_scaling: bool = policy_gradient.action_scaling(True)
    init_log_std: float = state_dependent.init_log_std(0.0)
    sde_frequency: int | None = state_dependent.sde_frequency(None)
    noisy: str | None = noisy_layers.noisy(None)
    noisy_sigma: float | None = noisy_layers.noisy_sigma(None)

    buffer_max_size: int = trajectory_replay.max_trajectories(1_000)
    buffer_initial_size: int | None = trajectory_replay.initial_trajectories(None)
    replay_shards: int = replay.replay_shards(1)
    replay_ratio: float = trajectory_replay.optional_replay_ratio(0.0)
    online_learning: bool = trajectory_replay.online_learning(True)


add_algorithm(
    Algorithm(
        name="a2c",
        config=A2CConfig,
        learner="xagents_ray.learners.a2c:A2C",
        policy="xagents_ray.actors.policies.actor_critic:ActorCriticPolicy",
        models=(ACTOR_CRITIC,),
        on_policy=True,
        action_masks=True,
        recurrent=True,
        replay="xagents_ray.replay.trajectories:TrajectoryReplay",
        multi_discrete=True,
    )
)
