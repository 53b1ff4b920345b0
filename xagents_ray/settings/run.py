"""What a run starts from, where it is kept and executed, and what it shows."""

from dataclasses import dataclass

from xagents_ray.core.errors import UserError
from xagents_ray.settings.options import Checked, check_directory, option, options

_IN_TRIALS = "every trial has its own in a directory of its own, below the sweep's"


@dataclass(frozen=True, kw_only=True)
class RunConfig(Checked):
    """What is kept of a run, and what it starts from."""

    preset: str | None = option(
        None,
        help="Alone, settings that are known to learn this environment; else a file "
        "of settings. Other flags override it",
        new_run=True,
        bare="auto",
    )
    run_dir: str = option(
        "runs",
        help="Directory in which runs get a directory each",
        known_as=("log_dir", "logdir", "output_dir", "save_dir"),
    )
    name: str | None = option(
        None,
        help="Name of the run's own directory; default: time and seed",
        new_run=True,
        instead="--study names the sweep",
    )
    resume: str | None = option(
        None,
        help="Directory of a run to resume from its newest checkpoint, or last",
        instead="the same command with the same --study resumes a sweep",
    )
    weights: tuple[str, ...] | None = option(
        None,
        help="Path(s) to model(s) weight(s) to start from: .tf, .weights.h5 or .npz",
        is_path=True,
        new_run=True,
    )
    checkpoints: tuple[str, ...] | None = option(
        None,
        help="Path(s) to new model(s) to which weights will be saved at each new best "
        "mean reward over a full reward buffer, or evaluation with --eval-every: .tf, "
        ".weights.h5 or .npz",
        instead=_IN_TRIALS,
    )
    checkpoint_every: int = option(
        100_000,
        low=1,
        unit="env steps",
        help="Write a checkpoint of the whole run every n steps",
        known_as=("checkpoint_freq", "save_freq", "save_every"),
    )
    keep_checkpoints: int = option(
        3, low=1, help="Newest checkpoints that are kept, in addition to the best"
    )
    checkpoint_replay: bool = option(
        False, help="If specified, the newest checkpoint holds the replay buffer too"
    )
    history_checkpoint: str | None = option(
        None,
        help="Path to .parquet file to save training history",
        instead=_IN_TRIALS,
    )
    tensorboard: bool = option(
        True, help="Write TensorBoard events; --no-tensorboard leaves them out"
    )
    monitor_session: str | None = option(
        None, help="Wandb session name", instead="train the best settings with it"
    )
    eval_every: int | None = option(
        None,
        low=1,
        unit="env steps",
        help="Evaluate greedily every n steps, and choose the best weights by that",
        known_as=("eval_freq", "eval_frequency"),
    )
    eval_episodes: int = option(
        10,
        low=1,
        unit="episodes",
        help="Episodes of one evaluation during training",
        known_as=("n_eval_episodes",),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_directory("--name", self.name)
        for each in options(RunConfig):
            given = getattr(self, each.name) is not None
            if each.new_run and given and self.resume is not None:
                raise UserError(
                    f"{each.flag} is for a new run and --resume continues one: "
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
        None, low=1, unit="episodes", help="Log progress every n episodes"
    )
    profile: bool = option(
        False,
        help="If specified, progress says where the time goes, and what limits the run",
    )
    display_precision: int = option(
        2, low=0, high=10, help="Number of decimals to be displayed"
    )


@dataclass(frozen=True, kw_only=True)
class ConnectionConfig(Checked):
    """Which Ray a run or a sweep uses."""

    address: str | None = option(
        None,
        help="host:port of a running Ray cluster to train on",
        needs_ray=True,
    )
    dashboard: bool = option(
        False,
        help="If specified, Ray's dashboard is served on 127.0.0.1, and a link that "
        "opens it is printed",
        needs_ray=True,
    )


@dataclass(frozen=True, kw_only=True)
class PlacementConfig(ConnectionConfig):
    """Where the parts of a run live, and how often they may fail."""

    local: bool = option(
        False, help="If specified, everything runs in this process, without Ray"
    )
    n_actors: int | None = option(
        None,
        low=1,
        help="Env actors that share out the environments; "
        "default: one per core, at most one per environment",
        known_as=("num_actors", "num_workers", "n_workers", "num_env_runners"),
        needs_ray=True,
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
        needs_ray=True,
    )
    actor_timeout: float | None = option(
        None,
        low=0,
        exclusive=True,
        unit="seconds",
        help="Replace an env actor whose rollout takes longer; default: the larger of "
        "60 and 10 median rollouts, and 600 before the first one has ended",
        needs_ray=True,
    )
    max_actor_restarts: int = option(
        3,
        low=0,
        help="Failures of an env actor in a row, without a finished rollout, after "
        "which it is not replaced any more; errors at the same line count until an "
        "episode ends",
    )


SESSION_GROUPS = (RunConfig, DisplayConfig, PlacementConfig)
"""Groups whose settings may change from one session of a run to the next."""
