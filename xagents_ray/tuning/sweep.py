"""A sweep from its settings to its result."""

import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xagents_ray.algorithms import presets
from xagents_ray.algorithms.row import Algorithm
from xagents_ray.core.errors import Broken, UserError
from xagents_ray.core.signals import Signals
from xagents_ray.run.driver import Run
from xagents_ray.run.prepare import prepare
from xagents_ray.settings.config import DisplayConfig, PlacementConfig, RunConfig
from xagents_ray.settings.options import options
from xagents_ray.storage.weights import check_paths
from xagents_ray.tuning.config import LEFT_OUT, TuneConfig, tune_options
from xagents_ray.tuning.display import SweepDisplay
from xagents_ray.tuning.plan import Plan, placed
from xagents_ray.tuning.space import split

if TYPE_CHECKING:
    import pandas as pd

    from xagents_ray.tuning.study import Study

_NOTHING_TO_TUNE = (
    "Nothing varies and there is one trial, as with `train`: give a setting several "
    "values, as in --lr 1e-5 1e-2, and raise --n-trials."
)
RunTrials = Callable[[Plan, "Study", Sequence[Run], SweepDisplay, Signals], None]
"""Runs the trials of a sweep, each like one of the runs."""
_OF_RAY = ("address", "dashboard")
"""Settings of the sweep's Ray: a trial with --local may be on a cluster too."""


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
    for name in LEFT_OUT.keys() & given.keys():
        flag = name.replace("_", "-")
        raise UserError(f"--{flag} is no setting of tune: {LEFT_OUT[name]}.")
    algorithm.config.check_names(given)
    fixed, spaces = split(tune_options(algorithm.config), given)
    own = {o.name: fixed.pop(o.name) for o in options(TuneConfig) if o.name in fixed}
    config = TuneConfig(**own)
    whole = presets.apply(algorithm, fixed)
    kept = {k: v for k, v in whole.items() if k not in (*LEFT_OUT, *spaces, "preset")}
    study = config.study or f"{algorithm.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    above = Path(kept.pop("run_dir", None) or RunConfig().run_dir)
    directory = above.resolve() / "tune" / study
    ray = PlacementConfig(**{n: kept.pop(n) for n in _OF_RAY if n in kept})
    plan = Plan(algorithm, config, placed(kept), spaces, study, directory, ray)
    return plan, DisplayConfig(
        **{o.name: kept[o.name] for o in options(DisplayConfig) if o.name in kept}
    )


def _examples(plan: Plan) -> list[Run]:
    """Return trials at the ends of what varies; UserError when none can work."""
    runs: list[Run] = []
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
