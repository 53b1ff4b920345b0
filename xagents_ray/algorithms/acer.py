"""Actor-critic with experience replay."""

from dataclasses import dataclass

from xagents_ray.algorithms.policy_gradient import ActorCriticConfig
from xagents_ray.algorithms.row import Algorithm, Model, add
from xagents_ray.algorithms.trajectory_replay import TrajectoryReplayConfig
from xagents_ray.core.errors import UserError
from xagents_ray.settings.algorithm import OneModel, ReplayConfig
from xagents_ray.settings.options import (
    changed,
    coefficient,
    fraction,
    option,
    positive,
)


@dataclass(frozen=True, kw_only=True)
class ACERConfig(OneModel, TrajectoryReplayConfig, ActorCriticConfig):
    """Actor-critic with experience replay, arXiv:1611.01224."""

    buffer_batch_size: int = changed(
        ReplayConfig,
        "buffer_batch_size",
        1,
        unit="trajectories",
        help="Trajectories of each environment per update; only 1",
    )
    n_steps: int = changed(ActorCriticConfig, "n_steps", 20)
    grad_norm: float = changed(ActorCriticConfig, "grad_norm", 10.0)
    importance_c: float = coefficient(10.0, "Importance weight truncation parameter")
    epsilon: float = positive(
        1e-6,
        "Value added to what importance ratios and the trust region divide by, "
        "and to probabilities within logarithms",
    )
    trust_region: bool = option(
        True, "Keep the policy near an average of its past ones"
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


add(
    Algorithm(
        name="acer",
        config=ACERConfig,
        learner="xagents_ray.learners.acer:ACER",
        policy="xagents_ray.actors.policies.actor_critic:CategoricalPolicy",
        models=(
            Model(
                "policy", "acer-{kind}.cfg", ("actions", "actions"), gives_logits=True
            ),
        ),
        on_policy=True,
        replay="xagents_ray.replay.trajectories:TrajectoryReplay",
        continuous=False,
    )
)
