"""Proximal policy optimization."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

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
from xagents_ray.core.errors import UserError
from xagents_ray.settings import learning, models, replay, schedules
from xagents_ray.settings.algorithm import AlgorithmConfig
from xagents_ray.settings.options import coefficient, count, option, positive


@dataclass(frozen=True, kw_only=True)
class PPOConfig(AlgorithmConfig):
    """Proximal policy optimization, arXiv:1707.06347."""

    replaced: ClassVar[Mapping[str, str]] = {
        **trajectory_replay.OPTIONAL_REPLACED,
        "batch_size": "a round has one trajectory of --n-steps of each of --n-envs "
        "environments; set into how many batches it is divided with --mini-batches",
        "vf_clip_param": "in RLlib it bounds the squared error of a value, and here "
        "--clip-value bounds the change of a value",
    }

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

    n_steps: int = policy_gradient.n_steps(128)
    entropy_coef: float | str = policy_gradient.entropy_coef(0.01)
    grad_norm: float = policy_gradient.grad_norm(0.5)
    value_loss_coef: float = policy_gradient.value_loss_coef(0.5)
    lam: float = policy_gradient.lam(0.95)
    mini_batches: int = policy_gradient.mini_batches(4)
    normalize_advantages: bool = policy_gradient.normalize_advantages(
        True, help=policy_gradient.NORMALIZED
    )
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

    ppo_epochs: int = count(
        4,
        "Passes over the batch per training step",
        hp_type="categorical",
        known_as=("n_epochs", "num_epochs", "epochs", "update_epochs"),
        remedy_for="learning",
        common=True,
    )
    clip_norm: float | str = positive(
        0.1,
        "Clipping of the importance ratio, or a schedule as --lr takes it",
        known_as=("clip_range", "clip_coef", "clip_param", "clip_ratio"),
        scheduled=True,
        to_plain=schedules.plain_schedule,
        takes="ScheduleLike",
        common=True,
    )
    clip_decay: bool = option(
        False,
        "If specified, --clip-norm falls linearly to 0 over --max-steps",
        needs_max_steps=True,
    )
    clip_value: float | None = coefficient(
        None,
        "Clipping of the value's change, in units of the rewards learned from; 0 "
        "for none; default: that of --clip-norm, with its decay",
        unit="reward",
        known_as=("clip_range_vf",),
    )
    target_kl: float | None = positive(
        None,
        "No more updates from a batch once the policy's KL divergence from the one "
        "that acted, or with --decoupled-loss or --replay-ratio from the newest "
        "weights before the updates, is above 1.5 times this; default: no limit",
        unit="nats",
    )
    desired_kl: float | None = positive(
        None,
        "KL divergence that the learning rate adapts to: before each update it is "
        "divided by 1.5 if the policy's divergence, as for --target-kl, is above twice "
        "this, multiplied by 1.5 if it is below half, and stays from 1e-5 to 1e-2; "
        "default: it isn't adapted",
        unit="nats",
        known_as=("kl_threshold", "adaptive_lr", "adaptive_kl"),
    )
    decoupled_loss: bool = option(
        False,
        "If specified, older weights that acted are corrected for by importance "
        "weights, and ratios are clipped about the newest weights before the updates; "
        "for --policy-lag and --asynchronous",
        known_as=("use_decoupled_loss", "decoupled_objective"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clip_decay:
            schedules.check_constant("--clip-norm", self.clip_norm, "--clip-decay")
        if self.desired_kl and (self.lr_decay or isinstance(self.lr, str)):
            raise UserError(
                "--desired-kl adapts the learning rate, which --lr-decay or a schedule "
                "of --lr sets: drop one."
            )


add_algorithm(
    Algorithm(
        name="ppo",
        config=PPOConfig,
        learner="xagents_ray.learners.ppo:PPO",
        policy="xagents_ray.actors.policies.actor_critic:ActorCriticPolicy",
        models=(ACTOR_CRITIC,),
        on_policy=True,
        action_masks=True,
        recurrent=True,
        replay="xagents_ray.replay.trajectories:TrajectoryReplay",
        multi_discrete=True,
    )
)
