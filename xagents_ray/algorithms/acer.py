"""Actor-critic with experience replay."""

from dataclasses import dataclass

from xagents_ray.algorithms import (
    critic_inputs,
    noisy_layers,
    policy_gradient,
    recurrent_layers,
    trajectory_replay,
)
from xagents_ray.algorithms.definition import Algorithm, Model, add_algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.settings import learning, models, replay
from xagents_ray.settings.algorithm import AlgorithmConfig
from xagents_ray.settings.options import coefficient, fraction, option, positive


@dataclass(frozen=True, kw_only=True)
class ACERConfig(AlgorithmConfig):
    """Actor-critic with experience replay, arXiv:1611.01224."""

    replaced = trajectory_replay.REPLACED

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
    critic_inputs: str | None = critic_inputs.critic_inputs(None)
    memory: str | None = recurrent_layers.memory(None)

    n_steps: int = policy_gradient.n_steps(20)
    entropy_coef: float | str = policy_gradient.entropy_coef(0.01)
    grad_norm: float = policy_gradient.grad_norm(10.0)
    value_loss_coef: float = policy_gradient.value_loss_coef(0.5)
    noisy: str | None = noisy_layers.noisy(None)
    noisy_sigma: float | None = noisy_layers.noisy_sigma(None)

    buffer_max_size: int = trajectory_replay.max_trajectories(10_000)
    buffer_initial_size: int | None = trajectory_replay.initial_trajectories(None)
    buffer_batch_size: int = replay.buffer_batch_size(
        1,
        unit="trajectories",
        help="Trajectories of each environment per update; only 1",
        common=False,
    )
    replay_shards: int = replay.replay_shards(1)
    replay_ratio: float = trajectory_replay.replay_ratio(4.0)
    online_learning: bool = trajectory_replay.online_learning(True)

    importance_c: float = coefficient(10.0, "Importance weight truncation parameter")
    epsilon: float = positive(
        1e-6,
        "Value added to what importance ratios and the trust region divide by, "
        "and to probabilities within logarithms",
    )
    trust_region: bool = option(
        True,
        "Keep the policy near an average of its past ones",
        common=True,
    )
    delta: float = coefficient(
        1.0,
        "Trust region's bound on how fast the policy leaves the average one",
        needs=("trust_region",),
    )
    kl_weight: float = coefficient(
        0.0,
        "Weight of the KL divergence from the average policy in the loss, in place of "
        "the trust region; 0 for the trust region",
        known_as=("acer_kl_weight",),
        replaces=("delta",),
    )
    ema_alpha: float = fraction(
        0.99,
        "Decay of the average network, which moves after each update",
        needs=("trust_region", "kl_weight"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.buffer_batch_size != 1:
            raise UserError(
                f"--buffer-batch-size {self.buffer_batch_size}: ACER replays one "
                "trajectory of each environment per update, so leave it at 1 and set "
                "the number of updates with --replay-ratio."
            )


add_algorithm(
    Algorithm(
        name="acer",
        config=ACERConfig,
        learner="xagents_ray.learners.acer:ACER",
        policy="xagents_ray.actors.policies.actor_critic:CategoricalPolicy",
        models=(
            Model(
                "policy",
                "acer-{kind}.cfg",
                ("actions", "action_values"),
                gives_logits=True,
                adapt=noisy_layers.add_noise,
            ),
        ),
        on_policy=True,
        action_masks=True,
        recurrent=True,
        replay="xagents_ray.replay.trajectories:TrajectoryReplay",
        continuous=False,
    )
)
