"""Settings of a sweep, and the options of `tune`."""

from dataclasses import dataclass

from xagents_ray.core.errors import UserError
from xagents_ray.settings.algorithm import AlgorithmConfig
from xagents_ray.settings.config import GROUPS
from xagents_ray.settings.options import Checked, Option, count, option, options


@dataclass(frozen=True, kw_only=True)
class TuneConfig(Checked):
    """A sweep: how many trials, how long, and where they are kept."""

    study: str | None = option(
        None,
        "Name of the Optuna study; one that exists is resumed; default: agent and time",
        names_directory=True,
    )
    storage: str | None = option(
        None,
        "Database URL of the study, sqlite:///FILE, postgresql://… or mysql://…; "
        "default: sqlite in the sweep's directory",
    )
    n_trials: int = count(
        1, "Trials that the study has in the end: complete, pruned and failed ones"
    )
    n_jobs: int = count(1, "Parallel trials, which share out the cores and GPUs")
    trial_steps: int = count(500_000, "Maximum steps for a trial", unit="env steps")
    warmup_trials: int = option(
        5, "Complete trials before --scheduler median begins to prune", low=0
    )
    warmup_steps: int | None = option(
        None,
        "Steps of a trial before --scheduler median may prune it; default: a "
        "tenth of --trial-steps, and as many as fill --reward-buffer-size",
        low=0,
        unit="env steps",
    )
    scheduler: str = option(
        "median",
        "What ends bad trials early: the median of the others at the same step, "
        "successive halving, or nothing",
        choices=("median", "asha", "none"),
    )
    non_silent: bool = option(
        False,
        "If specified, the messages of trials and of Optuna are printed, in "
        "place of the table",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        steps = self.warmup_steps
        if steps is not None and steps >= self.trial_steps:
            raise UserError(
                f"--warmup-steps {steps} is not less than --trial-steps "
                f"{self.trial_steps}, so nothing would be pruned: lower it, or say so "
                "with --scheduler none."
            )


UNSUPPORTED_OPTIONS = {
    each.name: each.instead
    for group in GROUPS.values()
    for each in options(group)
    if each.instead
}
"""Options of `train` that `tune` lacks, and what it has in their place."""


def tune_options(algorithm: type[AlgorithmConfig] | None) -> list[Option]:
    """Return the options of `tune`, with an agent's own where there is one."""
    groups: list[type] = [TuneConfig, *GROUPS.values()]
    if algorithm is not None:
        groups.append(algorithm)
    return [each for group in groups for each in options(group) if not each.instead]
