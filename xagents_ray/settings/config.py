"""Every setting of a run but for the algorithm's own. Defaults are written once."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from xagents_ray.core.errors import UserError
from xagents_ray.settings.algorithm import AlgorithmConfig
from xagents_ray.settings.options import (
    Checked,
    Option,
    check_directory,
    option,
    options,
    suggestion,
)


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
    )
    preprocess: bool = option(
        False,
        help="If specified, observations are treated as Atari frames: every 4th "
        "frame, grey, 84x84; rewards are clipped for learning and reported raw",
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
    )


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(Checked):
    """When training ends, and what is random in it."""

    target_reward: float | None = option(
        None,
        help="Target mean reward over a full reward buffer when reached, "
        "training is stopped",
    )
    max_steps: int | None = option(
        None,
        low=1,
        unit="env steps",
        help="Maximum number of environment steps, when reached, training is stopped",
        known_as=("total_timesteps", "max_timesteps", "total_steps", "timesteps"),
    )
    reward_buffer_size: int = option(
        100,
        low=1,
        unit="games",
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
        "per --n-envs games",
    )
    early_stop_patience: int = option(
        3, low=1, unit="reduces", help="Minimum plateau reduces to stop training"
    )
    seed: int | None = option(
        None,
        low=0,
        high=2**31 - 1,
        help="Random seed; makes the run reproducible on this machine",
    )


@dataclass(frozen=True, kw_only=True)
class RunConfig(Checked):
    """What is kept of a run, and what it starts from."""

    preset: str | None = option(
        None,
        help="Alone, settings that are known to learn this environment; else a file "
        "of settings. Other flags override it",
        bare="auto",
    )
    run_dir: str = option(
        "runs",
        help="Directory in which runs get a directory each",
        known_as=("log_dir", "logdir", "output_dir", "save_dir"),
    )
    name: str | None = option(
        None, help="Name of the run's own directory; default: time and seed"
    )
    resume: str | None = option(
        None,
        help="Directory of a run to go on with from its newest checkpoint, or last",
    )
    weights: tuple[str, ...] | None = option(
        None,
        help="Path(s) to model(s) weight(s) to start from: .tf, .weights.h5 or .npz",
    )
    checkpoints: tuple[str, ...] | None = option(
        None,
        help="Path(s) to new model(s) to which weights will be saved at each new best "
        "mean reward over a full reward buffer, or evaluation with --eval-every: .tf, "
        ".weights.h5 or .npz",
    )
    checkpoint_every: int = option(
        100_000,
        low=1,
        unit="env steps",
        help="Write a checkpoint of the whole run every n steps",
        known_as=("checkpoint_freq", "save_freq", "save_every"),
    )
    keep_checkpoints: int = option(
        3, low=1, help="Newest checkpoints that are kept, beside the best"
    )
    checkpoint_replay: bool = option(
        False, help="If specified, the newest checkpoint holds the replay buffer too"
    )
    history_checkpoint: str | None = option(
        None, help="Path to .parquet file to save training history"
    )
    tensorboard: bool = option(
        True, help="Write TensorBoard events; --no-tensorboard leaves them out"
    )
    monitor_session: str | None = option(None, help="Wandb session name")
    eval_every: int | None = option(
        None,
        low=1,
        unit="env steps",
        help="Evaluate greedily every n steps, and let that say which weights are best",
        known_as=("eval_freq", "eval_frequency"),
    )
    eval_episodes: int = option(
        10,
        low=1,
        unit="games",
        help="Games of one evaluation during training",
        known_as=("n_eval_episodes",),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_directory("--name", self.name)
        if self.resume is not None:
            for flag in ("weights", "name", "preset"):
                if getattr(self, flag) is not None:
                    raise UserError(
                        f"--{flag} begins a new run and --resume goes on with one: "
                        "drop one of the two."
                    )


@dataclass(frozen=True, kw_only=True)
class DisplayConfig(Checked):
    """What is printed."""

    quiet: bool = option(
        False,
        help="If specified, no messages by the agent will be displayed to the console",
    )
    log_frequency: int | None = option(
        None, low=1, unit="games", help="Log progress every n games"
    )
    profile: bool = option(
        False,
        help="If specified, progress says where the time goes, and what limits the run",
    )
    display_precision: int = option(
        2, low=0, high=10, help="Number of decimals to be displayed"
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
    )
    round_deadline: float | None = option(
        None,
        low=0,
        exclusive=True,
        unit="seconds",
        help="Learn without env actors that take longer for a rollout, which counts "
        "for the next round within --policy-lag; default: wait for all",
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


@dataclass(frozen=True, kw_only=True)
class PlacementConfig(Checked):
    """Where the parts of a run live, and how often they may fail."""

    local: bool = option(
        False, help="If specified, everything runs in this process, without Ray"
    )
    address: str | None = option(
        None, help="host:port of a running Ray cluster to train on"
    )
    n_actors: int | None = option(
        None,
        low=1,
        help="Env actors that share out the environments; "
        "default: one per core, at most one per environment",
        known_as=("num_actors", "num_workers", "n_workers", "num_env_runners"),
    )
    dashboard: bool = option(
        False,
        help="If specified, Ray's dashboard is served on 127.0.0.1, and a link that "
        "opens it is printed",
    )
    learner_gpus: float | None = option(
        None,
        low=0,
        help="GPUs of the learner; default: 1 where there is one. Nothing else sees "
        "them",
        known_as=("num_gpus", "n_gpus", "gpus"),
    )
    actor_cpus: float | None = option(
        None,
        low=0,
        exclusive=True,
        help="Cores that each env actor claims; default: an even share of those that "
        "the learner leaves",
    )
    actor_timeout: float | None = option(
        None,
        low=0,
        exclusive=True,
        unit="seconds",
        help="Replace an env actor whose rollout takes longer; default: the larger of "
        "60 and 10 median rollouts, and 600 before the first one has ended",
    )
    max_actor_restarts: int = option(
        3,
        low=0,
        help="Failures of an env actor in a row, without a finished rollout, after "
        "which it is not replaced any more; errors at the same line count until an "
        "episode ends",
    )


@dataclass(frozen=True, kw_only=True)
class Config:
    """All settings of one run."""

    algorithm: AlgorithmConfig
    env: EnvConfig = field(default_factory=EnvConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    run: RunConfig = field(default_factory=RunConfig)
    display: DisplayConfig = field(default_factory=DisplayConfig)
    pipeline: PipelineConfig = field(default_factory=PipelineConfig)
    placement: PlacementConfig = field(default_factory=PlacementConfig)

    def __post_init__(self) -> None:
        if self.env.env is None:
            raise UserError("--env is missing: name one, as in --env CartPole-v1.")
        if self.training.target_reward is None and self.training.max_steps is None:
            raise UserError(
                "Training needs an end: give --target-reward, --max-steps or both."
            )
        actors, envs = self.placement.n_actors, self.env.n_envs
        if actors is not None and actors > envs:
            raise UserError(
                f"--n-actors {actors} is more than --n-envs {envs}: each env actor "
                "needs an environment, so lower the one or raise the other."
            )
        if self.placement.local:
            self._check_local()
        for name in ("lr_decay", "clip_decay"):
            decays = getattr(self.algorithm, name, False)
            if decays and self.training.max_steps is None:
                raise UserError(
                    f"--{name.replace('_', '-')} falls to 0 over --max-steps: give it."
                )
        self.algorithm.check_batch(envs)

    def _check_local(self) -> None:
        """Raise UserError when a flag asks for what only Ray has."""
        shards = vars(self.algorithm).get("replay_shards")
        ray = {name: getattr(self.placement, name) for name in _NEED_RAY}
        ray |= {
            "asynchronous": self.pipeline.asynchronous,
            "round_deadline": self.pipeline.round_deadline,
            "replay_shards": shards is not None and shards > 1,
        }
        for name, value in ray.items():
            if value:
                raise UserError(
                    f"--{name.replace('_', '-')} is for Ray and --local runs "
                    "without it: drop one of the two."
                )

    @classmethod
    def of(
        cls, algorithm: type[AlgorithmConfig], values: Mapping[str, Any]
    ) -> "Config":
        """Return the config with these field values, by their flat names.

        Raises:
            UserError: a name is unknown, or a value is not allowed.
        """
        rest = dict(values)
        algorithm.check_names(rest)

        def make(config: type) -> Any:
            names = [f.name for f in dataclasses.fields(config)]
            return config(**{n: rest.pop(n) for n in names if n in rest})

        parts = {name: make(config) for name, config in GROUPS.items()}
        made = make(algorithm)
        if rest:
            name = next(iter(rest))
            hint = suggestion(name, train_options(algorithm)) or "."
            raise UserError(f"There is no setting {name!r}{hint}")
        return cls(algorithm=made, **parts)


_NEED_RAY = ("address", "n_actors", "dashboard", "actor_cpus", "actor_timeout")
GROUPS: dict[str, type] = {
    "env": EnvConfig,
    "training": TrainingConfig,
    "run": RunConfig,
    "display": DisplayConfig,
    "pipeline": PipelineConfig,
    "placement": PlacementConfig,
}
"""The fields of `Config` that every algorithm shares."""


def train_options(algorithm: type[AlgorithmConfig]) -> list[Option]:
    """Return the options of `train` for an algorithm."""
    return [o for group in (*GROUPS.values(), algorithm) for o in options(group)]
