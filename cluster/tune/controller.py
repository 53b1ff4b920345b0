"""A sweep on Ray Tune: Optuna chooses the trials, Tune's processes train."""

import contextlib
import operator
import os
import tempfile
from collections.abc import Callable
from typing import Any, TypeVar

import cloudpickle
from optuna.trial import Trial
from ray import tune
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher

from xagents_ray.actors.envs.registry import export_definitions
from xagents_ray.cluster.ray.calls import RayCalls
from xagents_ray.cluster.ray.user_folder import export_folder
from xagents_ray.cluster.run.claims import (
    Labels,
    NoRoomError,
    check_claims,
    label_selectors,
    run_claims,
    single_claim,
)
from xagents_ray.cluster.run.nodes import Bundle, amount_of, nodes_of
from xagents_ray.cluster.run.reservation import FIXED_CLAIMS, settled, with_holders
from xagents_ray.cluster.tune.trial import Trial as TuneTrial
from xagents_ray.core.errors import UserError
from xagents_ray.core.signals import Signals
from xagents_ray.run.worker_variables import worker_variables
from xagents_ray.settings.config import Config
from xagents_ray.tuning.plan import Plan
from xagents_ray.tuning.study import Study
from xagents_ray.tuning.sweep_display import SweepDisplay

_T = TypeVar("_T")
_MEASURED = ("began", "ended", "env_steps", "memory")
"""Fields of `Report` that the study stores for a trial."""


class SweepController(tune.Callback, tune.Stopper):
    """Supplies Tune with the study's trials, and the study with their results."""

    def __init__(
        self,
        ray: Any,
        plan: Plan,
        study: Study,
        display: SweepDisplay,
        signals: Signals,
        definitions: tuple[bytes, ...],
    ) -> None:
        self._ray, self._plan, self._study = ray, plan, study
        self._display, self._signals = display, signals
        # Of what the networks are made of, and of the working directory.
        self._definitions = (*export_folder(ray), *definitions)
        self._variables = worker_variables(plan.ray, os.environ)
        self._running: dict[str, Trial] = {}
        self._failure: BaseException | None = None
        self._free: dict[str, Bundle] = {}  # by node, without trials of this sweep

    def __reduce__(self) -> tuple[type, tuple[str]]:
        # Tune saves this object to a file that is never read; the study is the state.
        return str, ("a sweep",)

    def run(self) -> None:
        name = operator.attrgetter("trial_id")
        with tempfile.TemporaryDirectory(prefix="xagents-ray-") as scratch:
            tuner = tune.Tuner(
                tune.with_resources(
                    TuneTrial,
                    lambda each: tune.PlacementGroupFactory(
                        each["claims"], bundle_label_selector=each["labels"]
                    ),
                ),
                tune_config=tune.TuneConfig(
                    search_alg=_Search(self),
                    scheduler=_Scheduler(self),
                    num_samples=-1,
                    reuse_actors=True,
                    trial_name_creator=name,  # short enough for a directory
                    trial_dirname_creator=name,
                ),
                run_config=tune.RunConfig(
                    storage_path=scratch,
                    verbose=0,
                    checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                    callbacks=[self],
                    stop=self,
                ),
            )
            tuner.fit()
        if self._failure is not None:
            raise self._failure

    @property
    def is_over(self) -> bool:
        """Whether every trial must end now."""
        return self._signals.received is not None or self._failure is not None

    def guarded(self, otherwise: _T, call: Callable[..., _T], *arguments: Any) -> _T:
        """Return the result of a call; if it fails, end the sweep."""
        try:
            return call(*arguments)
        except BaseException as error:
            self._failure = self._failure or error
            return otherwise

    def ask(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return the config of Tune's next trial; None if there is none yet."""
        if self.is_over or len(self._running) >= self._plan.config.n_jobs:
            return None
        while True:
            trial = self._study.ask()
            if trial is None:
                return None if self._running else Searcher.FINISHED
            number, seed = trial.number, trial.user_attrs.get("seed")
            settings = self._plan.settings(trial.params, seed)
            self._study.note(trial, settings=settings)
            self._display.began(number, trial.params)
            try:
                config = self._plan.checked(settings)
                claims, labels = self.claims(config)
            except UserError as error:
                self._study.fail(trial, str(error))
                self._display.ended(number, "failed", reason=str(error))
                continue
            self._running[trial_id] = trial
            return {
                "algorithm": cloudpickle.dumps(self._plan.algorithm),
                "settings": self._plan.run(settings, number),
                "points": list(self._plan.points),
                "claims": claims,
                "labels": labels,
                "variables": self._variables,
                "definitions": (*self._definitions, *export_definitions(config.env)),
            }

    def claims(self, config: Config) -> tuple[list[Bundle], Labels]:
        """Return a trial's resource claims, its process first, and node labels.

        If the learner is a separate actor, the trial's process claims nothing and runs
        on the learner's node.

        Raises:
            UserError: the cluster lacks the resources, or others hold them.
            Stopped: a shutdown was requested.
        """
        if self._free:
            with contextlib.suppress(NoRoomError):
                return self._claims(config)
        self._look_up()  # others may have released something
        try:
            return self._claims(config)
        except NoRoomError as error:
            raise with_holders(self._ray, error) from None

    def _look_up(self) -> None:
        """Record what is free, with what was free before trials of this sweep."""
        calls = RayCalls(self._ray, self._signals)
        for node in settled(calls, lambda: nodes_of(self._ray)):
            before = self._free.get(node.id, {})
            kinds = {**before, **node.free}
            self._free[node.id] = {
                kind: max(amount_of(before, kind), amount_of(node.free, kind))
                for kind in kinds
            }

    def _claims(self, config: Config) -> tuple[list[Bundle], Labels]:
        nodes = [
            node._replace(free=self._free.get(node.id, node.has))
            for node in nodes_of(self._ray)
        ]
        share, is_local = 1 / self._plan.config.n_jobs, config.placement.local
        if config.placement.follows_nodes:
            raise UserError(FIXED_CLAIMS)
        if is_local:
            claims = [single_claim(nodes, config, share)]
        else:
            claims = run_claims(nodes, config, share)
        check_claims(nodes, claims)
        labels = label_selectors(nodes, len(claims))
        return (claims if is_local else [{}, *claims]), labels

    def take(self, trial_id: str, report: dict[str, Any]) -> bool:
        """Record a trial's report; return whether the trial must end."""
        trial = self._running.get(trial_id)
        if trial is None or self.is_over:
            return True
        number, point = trial.number, report.get("point")
        self._display.progress(number, report["env_steps"], report["mean_reward"])
        is_last = "value" in report
        is_worse = point is not None and self._study.report(
            trial, point, report["mean_reward"], report["is_full"]
        )
        if not (is_last or is_worse):
            return False
        del self._running[trial_id]
        self._study.note(trial, **{name: report[name] for name in _MEASURED})
        reason = report.get("failure", "")
        if is_worse:
            state = self._study.prune(trial)
        elif report["value"] is not None:
            state = self._study.complete(trial, report["value"])
        else:
            steps = self._plan.config.trial_steps
            reason = reason or f"no episode ended: raise --trial-steps {steps}"
            state = self._study.fail(trial, reason, report.get("traceback", ""))
        seconds = report["ended"] - report["began"] if report["began"] else None
        self._display.ended(number, state, seconds, reason)
        return True

    def lose(self, trial_id: str, reason: str) -> None:
        """Record a trial as failed because its process died."""
        trial = self._running.pop(trial_id, None)
        if trial is not None and not self.is_over:
            state = self._study.fail(trial, reason)
            self._display.ended(trial.number, state, reason=reason)

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Update the display, and refresh the ownership heartbeat if due."""
        self.guarded(None, self._display.show)
        self.guarded(None, self._study.beat)

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Return False; the scheduler ends individual trials."""
        return False

    def stop_all(self) -> bool:
        """Return whether every trial must end."""
        return self.is_over


class _Search(Searcher):
    """Asks the study for Tune's next trial."""

    def __init__(self, sweep: SweepController) -> None:
        super().__init__()
        self._sweep = sweep

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return a trial's config; None if there is none yet."""
        return self._sweep.guarded(None, self._sweep.ask, trial_id)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Do nothing, because the study already has the result."""

    def save(self, checkpoint_path: str) -> None:
        """Do nothing, because the study is the only state."""


class _Scheduler(FIFOScheduler):
    """Ends trials that the study prunes, and those that have ended."""

    def __init__(self, sweep: SweepController) -> None:
        super().__init__()
        self._sweep = sweep

    def on_trial_result(
        self, controller: Any, trial: Any, report: dict[str, Any]
    ) -> str:
        """Return whether a trial continues after its report."""
        ends = self._sweep.guarded(True, self._sweep.take, trial.trial_id, report)
        return str(self.STOP if ends else self.CONTINUE)

    def on_trial_error(self, controller: Any, trial: Any) -> None:
        error = trial.get_pickled_error() or trial.get_error()
        reason = str(error).strip().splitlines()[-1] if error else ""
        reason = f"the trial's process died ({reason.strip() or 'unknown'})"
        self._sweep.guarded(None, self._sweep.lose, trial.trial_id, reason)
