"""Settings of a sweep, and those of a run that a sweep has none of."""

from collections.abc import Mapping
from dataclasses import dataclass

from xagents_ray.core.errors import UserError
from xagents_ray.settings.algorithm import AlgorithmConfig
from xagents_ray.settings.config import GROUPS
from xagents_ray.settings.options import (
    Checked,
    Option,
    check_directory,
    option,
    options,
)


@dataclass(frozen=True, kw_only=True)
class TuneConfig(Checked):
    """A sweep: how many trials, how long, and where they are kept."""

    study: str | None = option(
        None,
        help="Name of the Optuna study; one that exists is gone on with; default: "
        "agent and time",
    )
    storage: str | None = option(
        None,
        help="Database URL of the study, sqlite:///FILE, postgresql://… or mysql://…; "
        "default: sqlite in the sweep's directory",
    )
    n_trials: int = option(
        1,
        low=1,
        help="Trials that the study has in the end: complete, pruned and failed ones",
    )
    n_jobs: int = option(
        1, low=1, help="Parallel trials, which share out the cores and GPUs"
    )
    trial_steps: int = option(
        500_000, low=1, unit="env steps", help="Maximum steps for a trial"
    )
    warmup_trials: int = option(
        5, low=0, help="Complete trials before --scheduler median begins to prune"
    )
    warmup_steps: int | None = option(
        None,
        low=0,
        unit="env steps",
        help="Steps of a trial before --scheduler median may prune it; default: a "
        "tenth of --trial-steps, and as many as fill --reward-buffer-size",
    )
    scheduler: str = option(
        "median",
        choices=("median", "asha", "none"),
        help="What ends bad trials early: the median of the others at the same step, "
        "successive halving, or nothing",
    )
    non_silent: bool = option(
        False,
        help="If specified, what trials and Optuna have to say is printed, in place "
        "of the table",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_directory("--study", self.study)
        steps = self.warmup_steps
        if steps is not None and steps >= self.trial_steps:
            raise UserError(
                f"--warmup-steps {steps} is not less than --trial-steps "
                f"{self.trial_steps}, so nothing would be pruned: lower it, or say so "
                "with --scheduler none."
            )


_IS_OWN = "every trial has its own in a directory of its own, below the sweep's"
LEFT_OUT: Mapping[str, str] = {
    "max_steps": "--trial-steps is how long a trial trains",
    "target_reward": "a trial trains for --trial-steps, so that all can be compared",
    "name": "--study names the sweep",
    "resume": "the same command with the same --study goes on with a sweep",
    "checkpoints": _IS_OWN,
    "history_checkpoint": _IS_OWN,
    "monitor_session": "train the best settings with it",
}
"""Settings of `train` that a sweep has none of, and what is in their place."""


def tune_options(algorithm: type[AlgorithmConfig] | None) -> list[Option]:
    """Return the options of `tune`, with an agent's own where there is one."""
    groups = [TuneConfig, *GROUPS.values(), *([algorithm] if algorithm else [])]
    return [o for group in groups for o in options(group) if o.name not in LEFT_OUT]
