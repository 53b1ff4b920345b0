"""A sweep, from its settings to the best settings and plots."""

import importlib
import os
import shlex
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, TypeVar

from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.algorithms.table import check_owners
from xagents_ray.core.errors import Broken, Mistakes, UserError
from xagents_ray.core.files import replace_bytes
from xagents_ray.core.signals import Signals
from xagents_ray.run.prepare import prepare_run
from xagents_ray.run.request import Request
from xagents_ray.run.worker_variables import worker_variables
from xagents_ray.settings.options import flag, options
from xagents_ray.settings.resources import ConnectionConfig
from xagents_ray.settings.run import RunConfig
from xagents_ray.tuning.plan import (
    UNSUPPORTED_OPTIONS,
    Plan,
    TuneConfig,
    preset_yaml,
    resolve_paths,
    train_command,
    tune_options,
)
from xagents_ray.tuning.space import Space, split_varied

if TYPE_CHECKING:
    import pandas as pd

    from xagents_ray.tuning.study import Study
    from xagents_ray.tuning.sweep_display import SweepDisplay

_T = TypeVar("_T")
_NOTHING_TO_TUNE = (
    "Nothing varies and there is one trial, as with `train`: give a setting several "
    "values, as in --lr 1e-5 1e-2, and raise --n-trials."
)
_PICTURES = {
    "optimization_history": "history.png",
    "param_importances": "importances.png",
    "parallel_coordinate": "parallel.png",
}
_FEWEST = 2
"""Number of complete trials that a plot of importances requires."""
RunTrials = Callable[[Plan, "Study", Sequence[RunSpec], "SweepDisplay", Signals], None]
"""Runs the trials of a sweep; the runs are examples of them."""


@dataclass(frozen=True)
class TuneResult:
    """The result of a sweep.

    Attributes:
        best: settings of the best complete trial, for `train`; None without one.
        best_reward: mean reward of the best complete trial; None without one.
        trials: one row per trial of the study, as Optuna gives them.
        counts: number of trials by state; "interrupted" ones were queued again.
        study: name of the study.
        storage: URL of its database, without a password.
        directory: directory of the sweep.
        signal: number of the signal that ended the sweep; None without one.

    >>> result = xagents_ray.tune(  # a study that is complete is only read
    ...     "ppo", env="CartPole-v1", lr=xagents_ray.log_uniform(1e-4, 1e-2),
    ...     n_trials=2, trial_steps=500, study="first", local=True, quiet=True)
    >>> result.counts
    {'complete': 2}
    >>> len(result.trials), result.best["env"]
    (2, 'CartPole-v1')
    """

    best: dict[str, Any] | None
    best_reward: float | None
    trials: "pd.DataFrame" = field(repr=False)
    counts: dict[str, int]
    study: str
    storage: str
    directory: str
    signal: int | None = None


def run_sweep(
    algorithm: Algorithm, given: Mapping[str, Any], run_trials: RunTrials
) -> TuneResult:
    """Run a sweep.

    Args:
        algorithm: the algorithm to tune.
        given: settings by their flat names; see `commands.tune`.
        run_trials: runs trials until the study has enough, or a signal is received.
    """
    plan, requests = plan_of(algorithm, given)
    _check_varies(plan)
    worker_variables(plan.ray, os.environ)  # raises if one is not set
    runs = _working(lambda each: prepare_run(algorithm, each.config), requests)
    display = requests[0].config.display
    with Signals() as signals:
        try:
            plan.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"--run-dir: {plan.directory} can't be made ({error.strerror}); name "
                "one that can be written."
            ) from None
        study: Study = resolve_name("xagents_ray.tuning.study:Study")(plan)
        kind = resolve_name("xagents_ray.tuning.sweep_display:SweepDisplay")
        with kind(plan.config, display, study.rows()) as shown:
            signals.note = shown.note
            shown.note(f"{plan.directory}: study {plan.study}")
            for note in runs[0].notes:
                shown.note(note)
            if not plan.spaces and plan.config.n_trials == 1:
                shown.note(_NOTHING_TO_TUNE)
            try:
                if study.ended() < plan.config.n_trials:
                    run_trials(plan, study, runs, shown, signals)
            finally:
                try:
                    for number in study.interrupt():
                        shown.ended(number, "interrupted")
                finally:
                    study.release()
        write_report(plan, study, shown.note)
        if signals.received is not None:
            shown.note(f"The same command with --study {plan.study} runs the rest")
        return _result(plan, study, signals.received)


def plan_of(
    algorithm: Algorithm, given: Mapping[str, Any]
) -> tuple[Plan, Sequence[Request]]:
    """Return the plan of a sweep, and trials at the ends of its search spaces.

    Raises:
        UserError: settings are wrong; the message has a line for each mistake.
    """
    for name in UNSUPPORTED_OPTIONS.keys() & given.keys():
        instead = UNSUPPORTED_OPTIONS[name]
        raise UserError(f"{flag(name)} isn't a setting of tune: {instead}.")
    config, requests, mistakes = TuneConfig(), list[Request](), Mistakes()
    fixed, spaces = dict[str, Any](), dict[str, Space]()
    known = tune_options(algorithm.config)
    for name, value in given.items():
        with mistakes:
            check_owners(algorithm, [name])
            one, varied = split_varied(known, {name: value})
            fixed, spaces = fixed | one, spaces | varied
    with mistakes:
        config = TuneConfig.of(fixed)
    of_ray = {each.name for each in options(ConnectionConfig)}
    not_of_trials = {*of_ray, *(each.name for each in options(TuneConfig))}
    of_trials = {n: value for n, value in fixed.items() if n not in not_of_trials}
    of_trials["max_steps"] = config.trial_steps
    with mistakes:
        requests = _requests(algorithm, of_trials, spaces)
    mistakes.report()
    if any(each.config.placement.follows_nodes for each in requests):
        raise UserError(
            "--n-actors auto gives a run what is free, and trials share it: give "
            "--n-actors a number, or leave it out."
        )
    whole = {name: value for each in requests for name, value in each.settings.items()}
    left_out = {*UNSUPPORTED_OPTIONS, *spaces, *of_ray, "preset", "config", "run_dir"}
    kept = {name: value for name, value in whole.items() if name not in left_out}
    study = config.study or f"{algorithm.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    directory = _directory(config, requests[0].config.run, study)
    ray = ConnectionConfig.of({**whole, **fixed})
    paths = resolve_paths(algorithm, kept)
    return Plan(algorithm, config, paths, spaces, study, directory, ray), requests


def _directory(config: TuneConfig, run: RunConfig, study: str) -> Path:
    """Return a sweep's directory; UserError if a database URL can't contain it."""
    directory = Path(run.run_dir).resolve() / "tune" / study
    if config.storage is None and set("{}?%") & set(str(directory)):
        raise UserError(
            f"The URL of a database can't name {directory}: give a --study and a "
            "--run-dir without {, }, ? and %, or a --storage."
        )
    return directory


def _check_varies(plan: Plan) -> None:
    """Raise UserError when several trials would have the same settings."""
    if not plan.spaces and plan.config.n_trials > 1:
        raise UserError(
            f"Nothing varies, so {plan.config.n_trials} trials would differ by their "
            "seeds only: give a setting several values, as in --lr 1e-5 1e-2, or "
            "train with several --seeds."
        )


def _requests(
    algorithm: Algorithm, fixed: Mapping[str, Any], spaces: Mapping[str, Space]
) -> list[Request]:
    """Return the valid trials at the ends of the search spaces.

    Raises:
        UserError: no such trial is valid.
    """

    def request(end: int) -> Request:
        values = {name: space.values[end] for name, space in spaces.items()}
        return Request.of(algorithm, {**fixed, **values})

    return _working(request, (0, -1) if spaces else (0,))


def _working(make: Callable[[Any], _T], given: Iterable[Any]) -> list[_T]:
    """Return the results of `make` without UserErrors; raise the first if all fail."""
    made: list[_T] = []
    errors: list[UserError] = []
    for each in given:
        try:
            made.append(make(each))
        except UserError as error:
            errors.append(error)
    if not made:
        raise errors[0]
    return made


def _result(plan: Plan, study: "Study", signal: int | None) -> TuneResult:
    """Return the result of a sweep; Broken if no trial completed without a signal."""
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


def write_report(plan: Plan, study: "Study", note: Callable[[str], None]) -> None:
    """Write the results of a sweep to its directory, and print each with `note`."""
    counts = study.counts()
    states = ", ".join(f"{n} {state}" for state, n in sorted(counts.items()))
    note(f"Study {plan.study} in {study.shown}: {states or 'no trials'}")
    best = study.best()
    if best is None:
        return
    settings, agent = best.user_attrs["settings"], plan.algorithm.name
    shown = {name: value for name, value in settings.items() if name != "quiet"}
    if not settings.get("local"):
        shown |= {"address": plan.ray.address, "worker_env": plan.ray.worker_env}
    note(f"Best: mean reward {best.value:.2f} of trial {best.number}; train with it:")
    note(f"  {shlex.join(train_command(plan.algorithm, shown))}")
    expected = f"{best.value:.2f} after {plan.config.trial_steps} env steps"
    source = f"trial {best.number} of {plan.study}"
    text = preset_yaml(plan.algorithm, settings, expected, source)
    path = plan.directory / "best.yaml"
    try:
        replace_bytes(path, text.encode())
    except OSError as error:
        note(f"{path} can't be written ({error.strerror}): copy the command.")
        return
    note(f"  xagents-ray train {agent} --preset {shlex.quote(str(path))}")
    if not study.varies or counts["complete"] < _FEWEST:
        note(f"Pictures need {_FEWEST} complete trials, and something that varies.")
        return
    for name, file in _PICTURES.items():
        path = plan.directory / file
        reason = _draw(study, name, path)
        note(f"{file} is not drawn: {reason}" if reason else f"  {path}")


def _draw(study: "Study", name: str, path: Path) -> str:
    """Draw a plot of a study; return why that failed, or ''."""
    pictures = importlib.import_module("optuna.visualization.matplotlib")
    pyplot = importlib.import_module("matplotlib.pyplot")
    more: dict[str, Any] = {}
    # Optuna sets a style, which would affect all later plots of this process.
    with warnings.catch_warnings(), pyplot.rc_context():
        warnings.simplefilter("ignore")  # they are all experimental
        if name == "param_importances":
            # The other evaluators need scikit-learn.
            importance = importlib.import_module("optuna.importance")
            more["evaluator"] = importance.PedAnovaImportanceEvaluator()
        try:
            axes = getattr(pictures, f"plot_{name}")(study.whole, **more)
            figure = axes.figure if hasattr(axes, "figure") else axes.flat[0].figure
            figure.set_size_inches(10, 6)
            figure.savefig(path, dpi=100, bbox_inches="tight")
            pyplot.close(figure)
        except (ValueError, RuntimeError, OSError) as error:
            return str(error).rstrip(".")
    return ""
