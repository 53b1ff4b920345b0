"""Soft actor-critic."""

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

from xagents_ray.algorithms import critic_inputs, off_policy, state_dependent
from xagents_ray.algorithms.definition import Algorithm, Model, add_algorithm
from xagents_ray.algorithms.off_policy import critic_of_actions, with_critics
from xagents_ray.core.errors import UserError
from xagents_ray.networks import heads
from xagents_ray.networks.layout import Layout
from xagents_ray.settings import learning, models, replay
from xagents_ray.settings.algorithm import AlgorithmConfig
from xagents_ray.settings.options import option

AUTO_ALPHA = "auto"
"""Value of `--alpha` that makes the entropy coefficient learned."""
LOG_STD_BOUNDS = -20.0, 2.0
"""Clipping range of the actor's log standard deviation, as in the authors' code."""
_CRITIC = critic_of_actions("sac-critic-{kind}.cfg")


def _text(value: Any) -> Any:
    """Convert a number to the config's text; leave other values unchanged."""
    return str(value) if isinstance(value, Real) else value


@dataclass(frozen=True, kw_only=True)
class SACConfig(AlgorithmConfig):
    """Soft actor-critic, arXiv:1812.05905."""

    gamma: float = learning.gamma(0.99)
    optimizer: str = learning.optimizer("adam")
    lr: float | str = learning.lr(3e-4)
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
    init_log_std: float = state_dependent.init_log_std(
        -3.0,
        help="Logarithm of the standard deviation that the numbers in the matrices of "
        "--sde-frequency start with; it is learned from then on",
    )
    sde_frequency: int | None = state_dependent.sde_frequency(None)
    clip_mean: float = option(
        2.0,
        "Largest magnitude of the means with --sde-frequency, before the tanh; 0 for "
        "no bound, which runs and weights of earlier versions have",
        low=0,
        acts=True,
        needs=("sde_frequency",),
    )

    rollout_length: int = off_policy.rollout_length(16)
    train_frequency: int = off_policy.train_frequency(1)
    gradient_steps: int = off_policy.gradient_steps(1)
    n_step: int = off_policy.n_step(1)
    n_step_entropy: bool = option(
        True,
        "Include the entropy of the steps in between in targets of several steps "
        "(--n-step), from the log-densities stored with their actions; "
        "--no-n-step-entropy sums only their rewards",
    )
    grad_norm: float | None = off_policy.network_grad_norm(None)

    buffer_max_size: int = replay.buffer_max_size(1_000_000)
    buffer_initial_size: int | None = replay.buffer_initial_size(
        1_000, help="Replay buffer size at which learning starts"
    )
    buffer_batch_size: int = replay.buffer_batch_size(256)
    replay_shards: int = replay.replay_shards(1)
    prioritized: bool = off_policy.prioritized(False)
    priority_alpha: float = off_policy.priority_alpha(0.6)
    priority_beta: float = off_policy.priority_beta(0.4)
    her: str | None = off_policy.her(None)
    her_goals: int = off_policy.her_goals(4)

    alpha: str = option(
        AUTO_ALPHA,
        "Entropy coefficient, or auto: it starts at 1 and is learned, so that the "
        "policy's entropy meets --target-entropy",
        takes="float",
        to_plain=_text,
        hp_type="categorical",
        known_as=("ent_coef", "entropy_coef", "temperature", "initial_alpha"),
        common=True,
    )
    policy_delay: int | None = off_policy.policy_delay(
        None,
        help="Critic updates for each update of the actor and of alpha; default: 1, "
        "or with more than two critics, as in REDQ, all those of one env step: "
        "--gradient-steps divided by --train-frequency",
    )
    target_entropy: float | None = option(
        None,
        "Entropy of actions, which span -1 to 1, that --alpha auto aims at; default: "
        "minus the number of an action's components",
        unit="nats",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.not_default("init_log_std") and not self.uses_sde:
            raise UserError(
                f"--init-log-std {self.init_log_std:g} is for state-dependent "
                "exploration: add --sde-frequency, or leave it out."
            )
        if self.n_step == 1 and not self.n_step_entropy:
            raise UserError(
                "--no-n-step-entropy is for targets of several steps: add --n-step 3, "
                "or leave it out."
            )
        if self.alpha == AUTO_ALPHA:
            return
        if not 0 <= self.fixed_alpha < math.inf:
            raise UserError(
                f"--alpha takes auto or a number of 0 or more, got {self.alpha!r}."
            )
        if self.target_entropy is not None:
            raise UserError(
                f"--target-entropy is what --alpha auto aims at, and --alpha is "
                f"{self.alpha}: leave one of them out."
            )

    @property
    def actor_period(self) -> int:
        """Number of critic updates for each update of the actor and of alpha.

        Source: arXiv:2101.05982, algorithm 1.
        """
        if self.policy_delay is not None:
            return self.policy_delay
        if self.critics <= 2:
            return 1
        return max(1, self.gradient_steps // self.train_frequency)

    @property
    def fixed_alpha(self) -> float:
        """The entropy coefficient; NaN if it is learned."""
        with suppress(ValueError):
            return float(self.alpha)
        return math.nan


def _adapt(layout: Layout, config: SACConfig) -> Layout:
    """Return the actor, with deviations and bounded means if gSDE is enabled.

    Source: of the bound, the code of arXiv:2005.05719 in Stable-Baselines3.
    """
    layout = state_dependent.add_log_std(
        layout, config, config.actor_model, 1, learns_features=True
    )
    if config.uses_sde and config.clip_mean:
        layout = heads.with_clipped_output(layout, config.clip_mean)
    return layout


add_algorithm(
    Algorithm(
        name="sac",
        config=SACConfig,
        learner="xagents_ray.learners.sac:SAC",
        policy="xagents_ray.actors.policies.squashed:SquashedGaussianPolicy",
        models=(
            Model(
                "actor",
                "sac-actor-{kind}.cfg",
                ("actions", "actions"),
                "actor_model",
                adapt=_adapt,
            ),
            _CRITIC,
            replace(_CRITIC, name="critic-2"),
        ),
        on_policy=False,
        replay="xagents_ray.replay.transitions:TransitionReplay",
        discrete=False,
        adapt=with_critics,
    )
)
