"""Settings for storage of runs."""

from dataclasses import dataclass

from xagents_ray.settings import from_python
from xagents_ray.settings.console import DisplayConfig
from xagents_ray.settings.episodes import EPISODE_LIMIT
from xagents_ray.settings.options import Checked, count, option
from xagents_ray.settings.resources import PlacementConfig

_IN_SEEDS = "every run writes its own in its directory: leave it out"
_IN_TRIALS = "every trial has its own in a directory of its own, below the sweep's"


@dataclass(frozen=True, kw_only=True)
class RunConfig(Checked):
    """Initial state and stored results of a run."""

    preset: str | None = option(
        None,
        "Without a value, tuned settings for this environment, of which `xagents-ray "
        "presets` says what they reached; or the name of others, such as rainbow of "
        "dqn and gpu of ppo, or a file. Other flags override it",
        new_run=True,
        of_one_run=True,
        own_loop=True,
        bare="auto",
        common=True,
    )
    config: str | None = option(
        None,
        "YAML file of settings, which may name the agent, too; the config.yaml of a "
        "run gives a new run all of its settings, but not its name, directory and "
        "output files. It overrides a preset, and flags override it",
        new_run=True,
        of_one_run=True,
        in_presets=False,
        common=True,
    )
    run_dir: str = option(
        "runs",
        "Directory that holds a directory for each run",
        is_folder=True,
        of_one_run=True,
        known_as=("log_dir", "logdir", "output_dir", "save_dir"),
    )
    name: str | None = option(
        None,
        "Name of the run's own directory; default: time and seed",
        names_directory=True,
        new_run=True,
        of_one_run=True,
        instead="--study names the sweep",
        common=True,
    )
    resume: str | None = option(
        None,
        "Directory of a run to resume from its newest valid checkpoint, or last",
        is_folder=True,
        of_one_run=True,
        instead="the same command with the same --study resumes a sweep",
        not_with_seeds="the same command with the same --name resumes all of its runs",
        not_launched="resumes a run on this machine",
        common=True,
    )
    weights: tuple[str, ...] | None = option(
        None,
        "Path(s) to model(s) weight(s) to start from: .tf, .weights.h5, .npz, or whole "
        "Keras models, .keras or .h5",
        is_path=True,
        new_run=True,
        own_loop=True,
    )
    checkpoints: tuple[str, ...] | None = option(
        None,
        "Path(s) to new model(s) to which weights will be saved at each new best "
        "mean reward over a full reward buffer, or evaluation with --eval-every: .tf, "
        ".weights.h5, .npz, or .keras for whole Keras models",
        is_written=True,
        of_one_run=True,
        instead=_IN_TRIALS,
        not_with_seeds=_IN_SEEDS,
    )
    checkpoint_every: int = count(
        100_000,
        "Write a checkpoint of the whole run every n steps",
        unit="env steps",
        known_as=("checkpoint_freq", "save_freq", "save_every"),
    )
    keep_checkpoints: int = count(
        3, "Newest checkpoints that are kept, in addition to the best"
    )
    checkpoint_replay: bool = option(
        False, "If specified, the newest checkpoint holds the replay buffer too"
    )
    history_checkpoint: str | None = option(
        None,
        "Path to .parquet file to save training history",
        is_written=True,
        of_one_run=True,
        instead=_IN_TRIALS,
        not_with_seeds=_IN_SEEDS,
    )
    tensorboard: bool = option(
        True, "Write TensorBoard events; --no-tensorboard leaves them out"
    )
    tensorboard_names: str = option(
        "xagents",
        "Names of the scalars in TensorBoard: xagents-ray's, or those of "
        "Stable-Baselines3, with its signs",
        choices=("xagents", "sb3"),
        needs=("tensorboard",),
    )
    monitor_session: str | None = option(
        None, "Wandb session name", instead="train the best settings with it"
    )
    callbacks: tuple[str, ...] | None = option(
        None,
        "Own code that is called during the run: package.module:name of an "
        "xagents_ray.Callback, of another object with methods such as on_episode, or "
        "of a function that is called after each rollout; from Python also the "
        "objects themselves",
        known_as=("callback",),
        expected="callbacks: objects with methods such as on_episode, functions of the "
        "run's context, or package.module:name of one",
        takes="OwnCallbacks",
        to_plain=from_python.callbacks,
        in_presets=False,
        instead="trials run in processes of their own, which have none",
    )
    eval_every: int | None = count(
        None,
        "Evaluate greedily every n steps, and choose the best weights by that",
        unit="env steps",
        known_as=("eval_freq", "eval_frequency"),
        common=True,
    )
    eval_episodes: int = count(
        10,
        "Episodes of one evaluation during training",
        unit="episodes",
        needs=("eval_every",),
        known_as=("n_eval_episodes",),
    )
    eval_max_steps: int | None = count(
        None,
        f"An evaluation or film gives up when an episode is longer; {EPISODE_LIMIT}",
        unit="env steps",
        needs=("eval_every", "monitor_session"),
    )


SESSION_GROUPS = (RunConfig, DisplayConfig, PlacementConfig)
"""Groups whose settings may change between sessions of a run."""
