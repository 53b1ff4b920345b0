"""The Optuna study of a sweep, which is the sweep's only state."""

import contextlib
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
from optuna.distributions import check_distribution_compatibility
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from xagents_ray.core.errors import Broken, UserError
from xagents_ray.settings.options import flag
from xagents_ray.tuning import optuna_parts as parts
from xagents_ray.tuning.plan import Plan
from xagents_ray.tuning.sweep_display import TrialRow

if TYPE_CHECKING:
    import pandas as pd

_LONGEST = 10_000
"""Maximum length of a stored traceback; a MySQL column holds 65,535 bytes."""
_ABOUT = "xagents_ray"
_INTERRUPTED, _REPEATS = "interrupted", "repeats"


class Study:
    """An Optuna study that maximizes the mean reward.

    Args:
        plan: plan of the sweep.
    Attributes:
        shown: URL of its database, without a password.
        varies: search spaces of the varied settings, by name.
        whole: the Optuna study.
    Raises:
        UserError: the database can't be opened, the study has other settings or
            search spaces, or another process owns it.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan, self._config = plan, plan.config
        self._seed: int | None = plan.fixed.get("seed")
        optuna.logging.set_verbosity(
            optuna.logging.INFO if plan.config.non_silent else optuna.logging.ERROR
        )
        self.varies = {n: parts.distribution_of(s) for n, s in plan.spaces.items()}
        self.shown = parts.without_password(plan.storage)
        self.whole = parts.open_study(plan.study, plan.storage)
        self.whole.pruner = parts.make_pruner(plan.config, plan.points)
        with self._storage():
            self._check()
            self._owner = parts.Owner(self.whole)
            self.whole.set_user_attr(_ABOUT, plan.about)
        self.interrupt()

    @property
    def trials(self) -> list[FrozenTrial]:
        """All trials, in order."""
        with self._storage():
            return self.whole.get_trials(deepcopy=False)

    def counts(self) -> Counter[str]:
        """Count trials by state; interrupted ones have a separate state."""
        return Counter(state_of(trial) for trial in self.trials)

    def ended(self) -> int:
        """Return how many trials count towards --n-trials."""
        counts = self.counts()
        return counts["complete"] + counts["pruned"] + counts["failed"]

    def ask(self) -> Trial | None:
        """Begin a trial; return None if there are enough."""
        if self.ended() + self.counts()["running"] >= self._config.n_trials:
            return None
        with self._storage():
            self.whole.sampler = self._sampler()
            trial = self.whole.ask(self.varies)
            if self._seed is not None and "seed" not in trial.user_attrs:
                trial.set_user_attr("seed", (self._seed + trial.number) % 2**31)
            return trial

    def note(self, trial: Trial, **attributes: Any) -> None:
        """Store attributes of a trial in the study."""
        with self._storage():
            for name, value in attributes.items():
                trial.set_user_attr(name, value)

    def report(
        self, trial: Trial, step: int, value: float, is_full: bool = True
    ) -> bool:
        """Store an intermediate mean reward; return whether to prune the trial.

        Args:
            trial: the running trial.
            step: one of the points at which trials are compared.
            value: mean reward of the trial at that point.
            is_full: whether that is the mean over a full reward window.
        """
        is_median = isinstance(self.whole.pruner, optuna.pruners.MedianPruner)
        needs_full = is_median and self._config.warmup_steps is None
        with self._storage():
            trial.report(value, step)
            return (is_full or not needs_full) and trial.should_prune()

    def complete(self, trial: Trial, value: float) -> str:
        """End a trial that has completed all of its steps; return its state."""
        return self._finish(trial.number, TrialState.COMPLETE, value)

    def prune(self, trial: Trial) -> str:
        """End a trial that is worse than others; return its state."""
        return self._finish(trial.number, TrialState.PRUNED)

    def fail(self, trial: Trial, reason: str, traceback: str = "") -> str:
        """End a trial that failed; return its state."""
        self.note(trial, reason=reason, traceback=traceback[-_LONGEST:])
        return self._finish(trial.number, TrialState.FAIL)

    def interrupt(self) -> list[int]:
        """Queue running trials again with their parameters; return their numbers.

        The original ones remain, as failed and interrupted. If the process is killed
        meanwhile, the next call completes the work.
        """
        trials = self.trials
        queued = {trial.user_attrs.get(_REPEATS) for trial in trials}
        running = [trial for trial in trials if trial.state == TrialState.RUNNING]
        for trial in running:
            kept = {k: v for k, v in trial.user_attrs.items() if k == "seed"}
            with self._storage():
                if trial.number not in queued:
                    self.whole.enqueue_trial(
                        trial.params, user_attrs={**kept, _REPEATS: trial.number}
                    )
            why = "the sweep was ended; queued again with the same parameters"
            self.note(Trial(self.whole, trial._trial_id), **{_INTERRUPTED: why})
            self._finish(trial.number, TrialState.FAIL)
        return [trial.number for trial in running]

    def rows(self) -> list[TrialRow]:
        """Return the trials for display, without waiting ones."""
        return [_row(trial) for trial in self.trials if state_of(trial) != "waiting"]

    def frame(self) -> "pd.DataFrame":
        """Return a data frame of the trials, one row each."""
        with self._storage():
            return self.whole.trials_dataframe()

    def last_failure(self) -> str:
        """Return why the newest failed trial failed; "" without one."""
        failed = [t for t in self.trials if state_of(t) == "failed"]
        return str(failed[-1].user_attrs.get("reason", "")) if failed else ""

    def best(self) -> FrozenTrial | None:
        """Return the complete trial with the largest mean reward; None without one."""
        complete = [t for t in self.trials if t.state == TrialState.COMPLETE]
        return max(complete, key=lambda t: t.value or 0.0) if complete else None

    def beat(self) -> None:
        """Refresh the ownership heartbeat if due."""
        with self._storage():
            self._owner.beat()

    def release(self) -> None:
        """Release the study for other processes."""
        with self._storage():
            self._owner.release()

    def _finish(
        self, number: int, state: TrialState, value: float | None = None
    ) -> str:
        with self._storage():
            return state_of(self.whole.tell(number, value, state))

    def _sampler(self) -> optuna.samplers.BaseSampler:
        """Return a sampler for one trial, seeded by the sweep's seed and its number."""
        seed = None
        if self._seed is not None:
            sequence = np.random.SeedSequence([self._seed, len(self.trials)])
            seed = int(sequence.generate_state(1)[0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # constant_liar is called experimental
            return optuna.samplers.TPESampler(
                seed=seed, constant_liar=self._config.n_jobs > 1
            )

    def _check(self) -> None:
        """Raise UserError if the stored study differs from the plan."""
        study, name, remedy = self.whole, self._plan.study, "take another --study"
        stored, trials = study.user_attrs.get(_ABOUT), study.get_trials(deepcopy=False)
        is_maximum = study.direction == optuna.study.StudyDirection.MAXIMIZE
        if not is_maximum or (stored is None and trials):
            raise UserError(
                f"The study {name} in {self.shown} isn't one of xagents-ray: {remedy}."
            )
        for key, value in self._plan.about.items():
            if stored is not None and stored.get(key) != value:
                what = {"agent": "the agent"}.get(key, flag(key))
                raise UserError(
                    f"The study {name} has {stored.get(key)} for {what}, not {value}: "
                    f"its trials could not be compared, so {remedy}."
                )
        for trial in trials:
            for setting, space in self.varies.items():
                before = trial.distributions.get(setting, space)
                try:
                    check_distribution_compatibility(before, space)
                except ValueError:
                    old, new = (
                        parts.describe_values(before),
                        parts.describe_values(space),
                    )
                    raise UserError(
                        f"The study {name} varies {setting} over {old} and can't over "
                        f"{new}: keep the values, or {remedy}."
                    ) from None

    @contextlib.contextmanager
    def _storage(self) -> Iterator[None]:
        """Convert errors of the database to Broken, with one sentence."""
        try:
            yield
        except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
            why = parts.first_line(error)
            raise Broken(
                f"The study's database {self.shown} failed ({why}); once it is fixed, "
                "the same command with the same --study resumes."
            ) from None


def state_of(trial: FrozenTrial) -> str:
    """Return a trial's state in a word; interrupted trials aren't failed."""
    if trial.state == TrialState.FAIL:
        return _INTERRUPTED if _INTERRUPTED in trial.user_attrs else "failed"
    return trial.state.name.lower()


def _row(trial: FrozenTrial) -> TrialRow:
    facts, values = trial.user_attrs, trial.intermediate_values
    reward = trial.value
    if reward is None and values:
        reward = values[max(values)]
    seconds = None
    if facts.get("began") and facts.get("ended"):
        seconds = facts["ended"] - facts["began"]
    steps = facts.get("env_steps", 0)
    return TrialRow(trial.number, trial.params, state_of(trial), steps, reward, seconds)
