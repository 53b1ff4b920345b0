"""Twin delayed deep deterministic policy gradient."""

from dataclasses import dataclass, replace

from xagents_ray.algorithms import critic_inputs, off_policy
from xagents_ray.algorithms.definition import Algorithm, add_algorithm
from xagents_ray.algorithms.off_policy import DETERMINISTIC_MODELS, with_critics
from xagents_ray.settings import learning, models, replay
from xagents_ray.settings.algorithm import AlgorithmConfig
from xagents_ray.settings.options import coefficient


@dataclass(frozen=True, kw_only=True)
class TD3Config(AlgorithmConfig):
    """Twin delayed DDPG, arXiv:1802.09477."""

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
    actor_model: str | None = models.actor_model(None)
    critic_model: str | None = models.critic_model(None)
    critic_lr: float | None = models.critic_lr(None)
    critic_inputs: str | None = critic_inputs.critic_inputs(None)
    layer_norm: bool = off_policy.layer_norm(False)
    critics: int = off_policy.critics(2)

    random_steps: int | None = off_policy.random_steps(None)
    tau: float = off_policy.tau(0.005)
    step_noise_coef: float = off_policy.step_noise_coef(0.1)
    noise: str = off_policy.noise("normal")

    rollout_length: int = off_policy.rollout_length(16)
    train_frequency: int = off_policy.train_frequency(1)
    gradient_steps: int = off_policy.gradient_steps(1)
    n_step: int = off_policy.n_step(1)
    grad_norm: float | None = off_policy.network_grad_norm(None)

    buffer_max_size: int = replay.buffer_max_size(10_000)
    buffer_initial_size: int | None = replay.buffer_initial_size(None)
    buffer_batch_size: int = replay.buffer_batch_size(32)
    replay_shards: int = replay.replay_shards(1)
    prioritized: bool = off_policy.prioritized(False)
    priority_alpha: float = off_policy.priority_alpha(0.6)
    priority_beta: float = off_policy.priority_beta(0.4)
    her: str | None = off_policy.her(None)
    her_goals: int = off_policy.her_goals(4)

    policy_noise_coef: float = coefficient(
        0.2, "Standard deviation of the noise added to target actions"
    )
    noise_clip: float = coefficient(0.5, "Target noise clipping value")
    policy_delay: int = off_policy.policy_delay(2)


add_algorithm(
    Algorithm(
        name="td3",
        config=TD3Config,
        learner="xagents_ray.learners.td3:TD3",
        policy="xagents_ray.actors.policies.exploring:DeterministicPolicy",
        models=(
            *DETERMINISTIC_MODELS,
            replace(DETERMINISTIC_MODELS[1], name="critic-2"),
        ),
        on_policy=False,
        replay="xagents_ray.replay.transitions:TransitionReplay",
        discrete=False,
        adapt=with_critics,
    )
)
