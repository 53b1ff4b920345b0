"""The result of runs with several seeds."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from xagents_ray.core.errors import pluralize
from xagents_ray.tuning import scores
from xagents_ray.tuning.seed_runs import SeedRun
from xagents_ray.watch.result import Result, result_summary


@dataclass(frozen=True)
class SeedsResult:
    """How the runs of `train(seeds=…)` ended.

    The score of a seed in `results` is the mean reward of its newest
    `reward_buffer_size` episodes. Statistics are None without scores.

    Attributes:
        results: the result of each run by seed, without those that failed or were
            stopped.
        failures: reasons of failed runs by seed, one sentence each.
        unfinished: seeds of runs that were stopped or never began.
        mean: mean of the scores.
        standard_error: standard error of that mean; None for fewer than two.
        iqm: interquartile mean of the scores.
        iqm_interval: 95 % bootstrap interval of `iqm` over seeds, (low, high).
        directory: directory of all runs, with `summary.json` and `seeds.png`.
        signal: number of the signal that ended the runs; None without one.

    >>> result = xagents_ray.train(  # runs that are complete are only read
    ...     "ppo", env="CartPole-v1", n_envs=4, n_steps=64, max_steps=1_000,
    ...     seeds=[2, 3], name="a", local=True, quiet=True)
    >>> [*result.results], result.failures
    ([2, 3], {})
    >>> result.mean == sum(each.mean_reward for each in result.results.values()) / 2
    True
    """

    results: dict[int, Result] = field(repr=False)
    failures: dict[int, str]
    unfinished: tuple[int, ...]
    mean: float | None
    standard_error: float | None
    iqm: float | None
    iqm_interval: tuple[float, float] | None
    directory: str
    signal: int | None = None

    @classmethod
    def of(
        cls, runs: Sequence[SeedRun], directory: str, signal: int | None
    ) -> "SeedsResult":
        """Return the result of runs that have ended, failed or been stopped."""
        failed = {r.seed: r.outcome.failure for r in runs if r.state == "failed"}
        ended = {r.seed: r.outcome.value for r in runs if r.state == "ended"}
        means = [r.mean_reward for r in ended.values() if r.mean_reward is not None]
        found = np.array(means, np.float64)
        low, high = map(float, scores.iqm_interval(found)) if means else (None, None)
        return cls(
            results=ended,
            failures=failed,
            unfinished=tuple(
                r.seed for r in runs if r.seed not in ended and r.seed not in failed
            ),
            mean=float(found.mean()) if means else None,
            standard_error=scores.standard_error(found),
            iqm=float(scores.interquartile_mean(found)) if means else None,
            iqm_interval=None if low is None or high is None else (low, high),
            directory=directory,
            signal=signal,
        )

    def summary(self) -> dict[str, Any]:
        results = {
            seed: result_summary(result) for seed, result in self.results.items()
        }
        return {**asdict(self), "results": results}

    def sentence(self, digits: int) -> str:
        """Return the scores in a sentence, with `digits` decimals."""
        if self.mean is None or self.iqm is None or self.iqm_interval is None:
            return "There is no mean reward: no run ended"
        seeds = pluralize(len(self.results), "seed")
        error = self.standard_error
        spread = "" if error is None else f" ± {error:.{digits}f} (standard error)"
        low, high = (f"{each:.{digits}f}" for each in self.iqm_interval)
        return (
            f"Mean reward of {seeds}: {self.mean:.{digits}f}{spread}, interquartile "
            f"mean {self.iqm:.{digits}f} [{low}, {high}]"
        )

    def failure(self) -> str:
        """Return a message about failed runs; "" if there are none."""
        if not self.failures:
            return ""
        failed, total = len(self.failures), len(self.results) + len(self.unfinished)
        seed, message = next(iter(self.failures.items()))
        return (
            f"{failed} of {pluralize(failed + total, 'seed')} failed; seed {seed}: "
            f"{message.rstrip('.')}. {self.directory} has what was printed, and "
            f"the same command with --name {Path(self.directory).name} trains what is "
            "left."
        )
