"""What a run learns from, how it overlaps acting and learning, and when it ends."""

from dataclasses import dataclass

from xagents_ray.core.errors import UserError
from xagents_ray.settings.options import Checked, option


@dataclass(frozen=True, kw_only=True)
class EnvConfig(Checked):
    """The environments."""

    env: str | None = option(
        None,
        help="Gymnasium environment id, package.module:EnvId for one that importing "
        "the module registers, or package.module:factory for an own one",
        known_as=("env_id", "env_name", "environment"),
    )
    n_envs: int = option(
        1,
        low=1,
        hp_type="categorical",
        help="Number of environments to create",
        known_as=("num_envs",),
        free_with="--run",
    )
    preprocess: bool = option(
        False,
        help="If specified, observations are treated as Atari frames: every 4th "
        "frame, gray, 84x84; rewards are clipped for learning and reported raw",
    )
    max_frame: bool = option(
        False,
        hp_type="categorical",
        help="If specified, preprocessing takes the maximum of the last two frames",
    )
    frame_stack: int = option(
        4,
        low=1,
        high=16,
        unit="frames",
        hp_type="categorical",
        help="Newest frames that one image observation shows",
    )
    vectorization: str = option(
        "auto",
        choices=("auto", "vector", "sync", "async", "envpool"),
        help="How environments are stepped together; auto picks the fastest right one",
        free_with="--run",
    )


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(Checked):
    """When training ends, when it slows down, and its random seed."""

    target_reward: float | None = option(
        None,
        help="Target mean reward over a full reward buffer when reached, "
        "training is stopped",
        free_with="--resume",
        instead="a trial trains for --trial-steps, so that all can be compared",
    )
    max_steps: int | None = option(
        None,
        low=1,
        unit="env steps",
        help="Maximum number of environment steps, when reached, training is stopped",
        known_as=("total_timesteps", "max_timesteps", "total_steps", "timesteps"),
        free_with="--resume",
        instead="--trial-steps is how long a trial trains",
    )
    reward_buffer_size: int = option(
        100,
        low=1,
        unit="episodes",
        help="Size of the total reward buffer, used for calculating the mean reward",
    )
    divergence_monitoring_steps: int | None = option(
        None,
        low=1,
        unit="env steps",
        help="Steps after which, plateau and early stopping are active",
    )
    plateau_reduce_factor: float = option(
        0.9,
        low=0,
        high=1,
        exclusive=True,
        help="Factor multiplied by current learning rate when there is a plateau",
    )
    plateau_reduce_patience: int = option(
        10,
        low=1,
        unit="checks",
        help="Minimum non-improvements to reduce lr; the mean reward is checked once "
        "per --n-envs episodes",
    )
    early_stop_patience: int = option(
        3, low=1, unit="reduces", help="Minimum plateau reduces to stop training"
    )
    seed: int | None = option(
        None,
        low=0,
        high=2**31 - 1,
        help="Random seed; makes the run reproducible on this machine",
        in_presets=False,
    )


@dataclass(frozen=True, kw_only=True)
class PipelineConfig(Checked):
    """How far acting may be ahead of learning."""

    policy_lag: int = option(
        0,
        low=0,
        high=1_000,
        unit="weights versions",
        help="Each rollout acts with weights that many versions old, so that acting "
        "and learning overlap; 0 alternates them",
    )
    asynchronous: bool = option(
        False,
        help="If specified, env actors run free, each at its own pace; on-policy, what "
        "is older than --policy-lag is dropped; a replay buffer takes rollouts of any "
        "age; not reproducible",
        needs_ray=True,
    )
    round_deadline: float | None = option(
        None,
        low=0,
        exclusive=True,
        unit="seconds",
        help="Learn without env actors that take longer for a rollout, which counts "
        "for the next round within --policy-lag; default: wait for all",
        needs_ray=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.asynchronous and self.policy_lag == 0:
            raise UserError(
                "--asynchronous lets env actors run ahead of the learner and "
                "--policy-lag 0 doesn't: allow 1 or more."
            )
        if self.asynchronous and self.round_deadline is not None:
            raise UserError(
                "--round-deadline is for rounds and --asynchronous has none: drop one "
                "of the two."
            )
