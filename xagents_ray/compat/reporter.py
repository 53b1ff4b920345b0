"""Optuna's trial of a training: it is told of mean rewards, and may be pruned."""

from typing import Any

from xagents_ray import RunContext


class Reporter:
    """Reports to a trial during a run; the run ends when the trial is pruned.

    Args:
        trial: the Optuna trial.
        every: episodes from one report to the next; reports are numbered.
    """

    def __init__(self, trial: Any, every: int) -> None:
        self._trial, self._every = trial, every
        self._reports = self._episodes = 0
        self._is_pruned = False

    def __call__(self, ctx: RunContext) -> bool:
        """Report the newest mean reward; return whether to go on."""
        if ctx.episodes - self._episodes >= self._every:
            self._episodes = ctx.episodes
            self._trial.report(ctx.mean_reward, self._reports)
            self._reports += 1
            self._is_pruned = self._trial.should_prune()
        return not self._is_pruned

    def check(self) -> None:
        """Raise optuna.TrialPruned when the trial was pruned."""
        if self._is_pruned:
            import optuna

            raise optuna.TrialPruned
