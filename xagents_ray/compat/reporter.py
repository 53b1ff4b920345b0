"""Reports of mean rewards to an Optuna trial, with pruning."""

from typing import Any

from xagents_ray import Callback, RunContext


class Reporter(Callback):
    """Reports to a trial during a run; the run ends when the trial is pruned.

    Args:
        trial: the Optuna trial.
        every: number of episodes between reports.
    """

    def __init__(self, trial: Any, every: int) -> None:
        self._trial, self._every = trial, every
        self._reports = self._episodes = 0
        self._is_pruned = False

    def on_rollout(self, ctx: RunContext) -> bool:
        """Report the newest mean reward if due; return whether to continue."""
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
