"""Greedy evaluations during training, in a separate actor."""

import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.cluster.ray.calls import LateError, RayCalls, remote_traceback
from xagents_ray.cluster.run.preflight import weights_bytes
from xagents_ray.core.errors import Diverged, EndlessEpisode, UserError
from xagents_ray.core.reports import Evaluated, FailedEvaluation

_LIMIT_SECONDS = 1_800.0
"""Time limit of an evaluation, or ten times the longest one if that is more."""
_WAITING_BYTES = 64 * 2**20
"""Size of the queued weights and states for which the object store has room."""


class _Waiting(NamedTuple):
    step: int
    weights: Any  # a Ray reference
    longest: int  # env steps of the longest episode in training


class _Evaluation(NamedTuple):
    step: int
    episodes: Any  # a Ray reference
    began: float  # start time
    until: float  # deadline


class Evaluations:
    """Runs one evaluation at a time and queues others, without delaying training.

    Args:
        calls: Ray calls that wait for the last evaluations.
        make: function that creates an evaluator with a number of environments.
        run: the run to evaluate.
    Attributes:
        actor: handle of the evaluator; None before the first evaluation.
    """

    def __init__(
        self, calls: RayCalls, make: Callable[[int], Any], run: RunSpec
    ) -> None:
        self._calls, self._log, self._make, self._run = calls, calls.log, make, run
        self.actor: Any = None
        # Each one has its weights and a candidate for the best state in the store.
        self._most_waiting = max(2, _WAITING_BYTES // sum(weights_bytes(run)))
        self._limit = _LIMIT_SECONDS  # for one evaluation
        self._current: _Evaluation | None = None
        self._waiting: deque[_Waiting] = deque()
        self._ended: list[Evaluated | FailedEvaluation] = []

    def begin(self, env_steps: int, weights: Any, longest: int) -> None:
        """Begin an evaluation or queue it, in place of the oldest if too many wait.

        `longest` is the env steps of the longest episode in training so far.
        """
        self._advance()
        self._waiting.append(_Waiting(env_steps, weights, longest))
        self._begin_next()
        self._keep_newest(self._most_waiting)

    def ended(self, is_last: bool) -> list[Evaluated | FailedEvaluation]:
        """Return evaluations that ended or failed.

        With `is_last`, wait for the one in progress and for the newest one.
        """
        self._advance()
        if is_last:
            self._keep_newest(1)
        while is_last and self._current is not None:
            self._finish(self._current, self._current.until - time.monotonic())
        ended, self._ended = self._ended, []
        return ended

    def _keep_newest(self, count: int) -> None:
        """Drop the oldest waiting evaluations."""
        while len(self._waiting) > count:
            step = self._waiting.popleft().step
            if not self._log.counts["evaluations skipped"]:
                self._log.warn(
                    f"The evaluation at {step} steps is skipped for a newer one, and "
                    "others may be: raise --eval-every or lower --eval-episodes"
                )
            self._log.count("evaluations skipped")
            self._ended.append(FailedEvaluation(step))

    def _advance(self) -> None:
        """Finish the current evaluation if it has ended or is late; begin the next."""
        while self._current is not None and (
            time.monotonic() > self._current.until
            or self._calls.ready([self._current.episodes], 0)
        ):
            self._finish(self._current, 0)

    def _begin_next(self) -> None:
        if self._current is not None or not self._waiting:
            return
        config = self._run.config.run
        count, limit = config.eval_episodes, config.eval_max_steps
        if self.actor is None:
            self.actor = self._make(min(count, self._run.config.env.n_envs))
        step, weights, longest = self._waiting.popleft()
        seed, began = self._run.evaluation_seed, time.monotonic()
        episodes = self.actor.evaluate.remote(weights, count, seed, limit, longest)
        until = began + self._limit
        self._current = _Evaluation(step, episodes, began, until)

    def _finish(self, evaluation: _Evaluation, limit: float) -> None:
        """Wait up to `limit` seconds for an evaluation, then begin the next one."""
        try:
            episodes, printed = self._calls.get(evaluation.episodes, limit)
        except LateError:
            self._fail(evaluation.step, "it takes too long")
        except EndlessEpisode as error:
            self._report(evaluation.step, str(error))
        except (Diverged, UserError) as error:
            self._fail(evaluation.step, str(error))
        except self._calls.ray.exceptions.RayError as error:
            trace = remote_traceback(error) or "its process died"
            self._fail(evaluation.step, trace.splitlines()[-1])
        else:
            self._log.printed.add(printed)
            self._ended.append(Evaluated.of(evaluation.step, episodes))
            seconds = time.monotonic() - evaluation.began
            self._limit = max(self._limit, 10 * seconds)
        self._current = None
        self._begin_next()

    def _fail(self, step: int, why: str) -> None:
        """Report a failed evaluation; the next one uses a new evaluator."""
        self._report(step, why)
        self._calls.retire(self.actor)
        self.actor = None

    def _report(self, step: int, why: str) -> None:
        """Report a failed evaluation; training continues."""
        self._ended.append(FailedEvaluation(step))
        self._log.count("evaluations")
        self._log.warn(f"The evaluation at {step} steps failed: {why.rstrip('.')}")
