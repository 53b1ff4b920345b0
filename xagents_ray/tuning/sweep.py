"""A sweep from its settings to its result."""

import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xagents_ray.algorithms import presets
from xagents_ray.algorithms.row import Algorithm
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.errors import Broken, UserError
from xagents_ray.core.signals import Signals
from xagents_ray.run.prepare import prepare
from xagents_ray.settings.options import flag, options
from xagents_ray.settings.run import ConnectionConfig, DisplayConfig, RunConfig
from xagents_ray.storage.weights import check_paths
from xagents_ray.tuning.config import UNSUPPORTED_OPTIONS, TuneConfig, tune_options
from xagents_ray.tuning.display import SweepDisplay
from xagents_ray.tuning.plan import Plan, resolve_paths
from xagents_ray.tuning.space import split

if TYPE_CHECKING:
    import pandas as pd

    from xagents_ray.tuning.study import Study

_NOTHING_TO_TUNE = (
    "Nothing varies and there is one trial, as with `train`: give a setting several "
    "values, as in --lr 1e-5 1e-2, and raise --n-trials."
)
RunTrials = Callable[[Plan, "Study", Sequence[RunSpec], SweepDisplay, Signals], None]
"""Runs the trials of a sweep, each like one of the runs."""


@dataclass(frozen=True)
class TuneResult:
    """How a sweep ended.

    Attributes:
        best: settings of the best complete trial, for `train`; None without one.
        best_reward: its mean reward.
        trials: one row per trial of the study, as Optuna gives them.
        counts: trials by state; "interrupted" ones were begun again.
        study: name of the study.
        storage: URL of its database, without a password.
        directory: of the sweep.
        signal: that ended it; None when it ended by itself.
    """

    best: dict[str, Any] | None
    best_reward: float | None
    trials: "pd.DataFrame"
    counts: dict[str, int]
    study: str
    storage: str
    directory: str
    signal: int | None = None


def sweep(
    algorithm: Algorithm, given: Mapping[str, Any], run_trials: RunTrials
) -> TuneResult:
    """Run a sweep.

    Args:
        algorithm: whose settings vary.
        given: settings by their flat names; see `commands.tune`.
        run_trials: runs trials until the study has enough, or a signal comes.
    """
    plan, display = plan_of(algorithm, given)
    runs = _examples(plan)
    study_module = importlib.import_module("xagents_ray.tuning.study")
    report = importlib.import_module("xagents_ray.tuning.report")
    with Signals() as signals:
        try:
            plan.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"--run-dir: {plan.directory} can't be made ({error.strerror}); name "
                "one that can be written."
            ) from None
        study = study_module.Study(plan)
        with SweepDisplay(plan.config, display, study.rows()) as shown:
            shown.note(f"{plan.directory}: study {plan.study}")
            for note in runs[0].notes:
                shown.note(note)
            if not plan.spaces and plan.config.n_trials == 1:
                shown.note(_NOTHING_TO_TUNE)
            try:
                if study.ended() < plan.config.n_trials:
                    run_trials(plan, study, runs, shown, signals)
            finally:
                for number in study.interrupt():
                    shown.ended(number, "interrupted")
                study.release()
        report.write(plan, study, shown.note)
        return _result(plan, study, signals.received)


def plan_of(
    algorithm: Algorithm, given: Mapping[str, Any]
) -> tuple[Plan, DisplayConfig]:
    """Return what a sweep is to do; refuse what makes no sense."""
    for name in UNSUPPORTED_OPTIONS.keys() & given.keys():
        instead = UNSUPPORTED_OPTIONS[name]
        raise UserError(f"{flag(name)} is no setting of tune: {instead}.")
    algorithm.config.check_names(given)
    fixed, spaces = split(tune_options(algorithm.config), given)
    config = TuneConfig.of(fixed)
    own = {each.name for each in options(TuneConfig)}
    fixed = {name: value for name, value in fixed.items() if name not in own}
    whole = presets.apply(algorithm, fixed)
    ray = {each.name for each in options(ConnectionConfig)}
    left_out = {*UNSUPPORTED_OPTIONS, *spaces, *ray, "preset", "run_dir"}
    kept = {name: value for name, value in whole.items() if name not in left_out}
    study = config.study or f"{algorithm.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    above = Path(whole.get("run_dir") or RunConfig().run_dir)
    directory = above.resolve() / "tune" / study
    plan = Plan(
        algorithm,
        config,
        resolve_paths(algorithm, kept),
        spaces,
        study,
        directory,
        ConnectionConfig.of(whole),
    )
    return plan, DisplayConfig.of(kept)


def _examples(plan: Plan) -> list[RunSpec]:
    """Return trials at the ends of what varies; UserError when none can work."""
    runs: list[RunSpec] = []
    errors: list[UserError] = []
    for settings in plan.examples():
        try:
            config = plan.checked(settings)
            check_paths(plan.algorithm, "--weights", config.run.weights)
            runs.append(prepare(plan.algorithm, config))
        except UserError as error:
            errors.append(error)
    if not runs:
        raise errors[0]
    return runs


def _result(plan: Plan, study: Any, signal: int | None) -> TuneResult:
    """Return how a sweep ended; Broken when it has nothing to show for it."""
    best, counts = study.best(), dict(study.counts())
    if best is None and signal is None:
        raise Broken(
            f"No trial completed; {counts.get('failed', 0)} failed, the last one: "
            f"{study.last_failure()}"
        )
    return TuneResult(
        best=None if best is None else dict(best.user_attrs["settings"]),
        best_reward=None if best is None else best.value,
        trials=study.frame(),
        counts=counts,
        study=plan.study,
        storage=study.shown,
        directory=str(plan.directory),
        signal=signal,
    )
