"""The trials of a sweep: the Optuna study decides, processes of Ray Tune train."""

import tempfile
from collections.abc import Callable
from typing import Any, TypeVar

from optuna.trial import Trial
from ray import tune
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher

from xagents_ray.actors.envs.definitions import export
from xagents_ray.cluster.run.placement import (
    Bundle,
    as_one,
    check,
    demand,
)
from xagents_ray.cluster.tune.trial import Trial as TuneTrial
from xagents_ray.core.errors import UserError
from xagents_ray.core.signals import Signals
from xagents_ray.settings.config import Config
from xagents_ray.tuning.display import SweepDisplay
from xagents_ray.tuning.plan import Plan
from xagents_ray.tuning.study import Study

_T = TypeVar("_T")
_MEASURED = ("began", "ended", "env_steps", "memory")
"""What the study keeps of a trial beside its rewards; see `trainee.News`."""


class Trials:
    """What Tune asks for and is told, answered from the study."""

    def __init__(
        self,
        ray: Any,
        plan: Plan,
        study: Study,
        display: SweepDisplay,
        signals: Signals,
    ) -> None:
        self._ray, self._plan, self._study = ray, plan, study
        self._display, self._signals = display, signals
        self._running: dict[str, Trial] = {}
        self._failure: BaseException | None = None

    def __reduce__(self) -> tuple[type, tuple[str]]:
        # Tune writes all it has to a file, which nobody reads: the study is the state.
        return str, ("a sweep",)

    def run(self) -> None:
        """Let Tune run them all."""
        with tempfile.TemporaryDirectory(prefix="xagents-ray-") as scratch:
            tuner = tune.Tuner(
                tune.with_resources(TuneTrial, _claims),
                tune_config=tune.TuneConfig(
                    search_alg=_Asking(self),
                    scheduler=_Deciding(self),
                    num_samples=-1,
                    reuse_actors=True,
                    trial_name_creator=_name,
                    trial_dirname_creator=_name,
                ),
                run_config=tune.RunConfig(
                    storage_path=scratch,
                    verbose=0,
                    checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                    callbacks=[_Ticking(self)],
                    stop=_Stopping(self),
                ),
            )
            tuner.fit()
        if self._failure is not None:
            raise self._failure

    @property
    def is_over(self) -> bool:
        """Whether every trial is to end now."""
        return self._signals.received is not None or self._failure is not None

    def guarded(self, call: Callable[[], _T], otherwise: _T) -> _T:
        """Return what a call does; end the sweep if it fails, in Tune's own time."""
        try:
            return call()
        except BaseException as error:
            self._failure = self._failure or error
            return otherwise

    def ask(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return what Tune's next trial is to do; None for nothing yet."""
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
                claims = self.claims(self._plan.checked(settings))
            except UserError as error:
                self._study.fail(trial, str(error))
                self._display.ended(number, "failed", reason=str(error))
                continue
            self._running[trial_id] = trial
            return {
                "agent": self._plan.algorithm.name,
                "settings": self._plan.run(settings, number),
                "points": list(self._plan.points),
                "claims": claims,
                "definitions": export(str(settings["env"])),
            }

    def claims(self, config: Config) -> list[Bundle]:
        """Return what a trial claims: its own process first.

        Raises:
            UserError: no node has that.
        """
        share = 1 / self._plan.config.n_jobs
        if config.placement.local:
            whole = as_one(self._ray, config, share)
            check(self._ray, [whole])
            return [whole]
        parts = demand(self._ray, config, share)
        check(self._ray, parts)
        return [{}, *parts]

    def take(self, trial_id: str, news: dict[str, Any]) -> bool:
        """Keep what a trial tells; return whether it is to end."""
        trial = self._running.get(trial_id)
        if trial is None or self.is_over:
            return True
        number, point = trial.number, news.get("point")
        self._display.news(number, news["env_steps"], news["mean_reward"])
        is_last = "value" in news
        is_worse = point is not None and self._study.report(
            trial, point, news["mean_reward"], news["is_full"]
        )
        if not (is_last or is_worse):
            return False
        del self._running[trial_id]
        self._study.note(trial, **{name: news[name] for name in _MEASURED})
        reason = news.get("failure", "")
        if is_worse:
            state = self._study.prune(trial)
        elif news["value"] is not None:
            state = self._study.complete(trial, news["value"])
        else:
            steps = self._plan.config.trial_steps
            reason = reason or f"no game ended: raise --trial-steps {steps}"
            state = self._study.fail(trial, reason, news.get("traceback", ""))
        seconds = news["ended"] - news["began"] if news["began"] else None
        self._display.ended(number, state, seconds, reason)
        return True

    def lose(self, trial_id: str, reason: str) -> None:
        """Count a trial whose process is gone as failed."""
        trial = self._running.pop(trial_id, None)
        if trial is not None and not self.is_over:
            state = self._study.fail(trial, reason)
            self._display.ended(trial.number, state, reason=reason)

    def tick(self) -> None:
        """Show what is going on, and that this process is at work."""
        self._display.show()
        self._study.beat()


class _Asking(Searcher):
    """Asks the study for what Tune tries next."""

    def __init__(self, trials: Trials) -> None:
        super().__init__()
        self._trials = trials

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return a trial's config; None for not now."""
        return self._trials.guarded(lambda: self._trials.ask(trial_id), None)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Do nothing: the study knows already."""

    def save(self, checkpoint_path: str) -> None:
        """Do nothing: the study is the only state."""

    def restore(self, checkpoint_path: str) -> None:
        """Do nothing: the study is the only state."""


class _Deciding(FIFOScheduler):
    """Ends trials when the study says so, or when they have ended."""

    def __init__(self, trials: Trials) -> None:
        super().__init__()
        self._trials = trials

    def on_trial_result(self, controller: Any, trial: Any, news: dict[str, Any]) -> str:
        """Return whether a trial goes on after what it told."""
        take = self._trials.take
        ends = self._trials.guarded(lambda: take(trial.trial_id, news), True)
        return str(self.STOP if ends else self.CONTINUE)

    def on_trial_error(self, controller: Any, trial: Any) -> None:
        """Count it."""
        error = trial.get_pickled_error() or trial.get_error()
        reason = str(error).strip().splitlines()[-1] if error else ""
        reason = f"the trial's process died ({reason.strip() or 'unknown'})"
        lose = self._trials.lose
        self._trials.guarded(lambda: lose(trial.trial_id, reason), None)


class _Ticking(tune.Callback):
    """Lets the sweep show itself while Tune is at work."""

    def __init__(self, trials: Trials) -> None:
        self._trials = trials

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Show it."""
        self._trials.guarded(self._trials.tick, None)


class _Stopping(tune.Stopper):
    """Ends everything after a signal."""

    def __init__(self, trials: Trials) -> None:
        self._trials = trials

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Leave single trials to the scheduler."""
        return False

    def stop_all(self) -> bool:
        """Return whether every trial is to end."""
        return self._trials.is_over


def _claims(config: dict[str, Any]) -> Any:
    """Return what Tune is to claim for a trial."""
    return tune.PlacementGroupFactory(config["claims"])


def _name(trial: Any) -> str:
    """Return a name that is short enough for a directory."""
    return str(trial.trial_id)
