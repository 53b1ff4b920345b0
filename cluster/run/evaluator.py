"""Greedy evaluations beside training, in an env actor of their own."""

import math
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, NamedTuple

from xagents_ray.actors.evaluator import Evaluator
from xagents_ray.cluster.ray.calls import Calls, LateError, traceback_of
from xagents_ray.core.errors import Diverged, UserError
from xagents_ray.run.driver import Run
from xagents_ray.storage.weights import shapes

_LIMIT_SECONDS = 1_800.0
"""Of one evaluation, or ten times the longest one so far where that is more."""
_WAITING_BYTES = 64 * 2**20
"""Of what waits to be evaluated; the object store has room for that."""
_STATE_COPIES = 4
"""A weight, its target network's, and Adam's two moments of it."""


class _Evaluation(NamedTuple):
    """One in progress: env step, reference to its episodes, clock at its start."""

    step: int
    episodes: Any
    began: float


class Evaluations:
    """One evaluation in progress, others waiting; training waits for none.

    Args:
        calls: waits for the last ones.
        make: makes an actor of a class with so many environments.
        run: whose weights are evaluated.
    Attributes:
        actor: handle of the evaluator; None before the first evaluation.
        losses: what failures have cost, by name.
        news: sentences for the user, oldest first.
    """

    def __init__(
        self, calls: Calls, make: Callable[[type, int], Any], run: Run
    ) -> None:
        self._calls, self._make, self._run = calls, make, run
        self.actor: Any = None
        self.losses: Counter[str] = Counter()
        self.news: list[str] = []
        self._room = max(2, _WAITING_BYTES // _held_bytes(run))
        self._longest = 0.0
        self._current: _Evaluation | None = None
        self._waiting: deque[tuple[int, Any]] = deque()
        self._ended: list[tuple[int, float]] = []

    def begin(self, env_steps: int, weights: Any) -> bool:
        """Begin one, or let it wait for those before; False when too many wait."""
        self._advance()
        if len(self._waiting) < self._room:
            self._waiting.append((env_steps, weights))
            self._begin_next()
            return True
        if not self.losses["evaluations skipped"]:
            self.news.append(
                f"The evaluation at {env_steps} steps is skipped, and others may be: "
                f"{self._room} are waiting; raise --eval-every or lower "
                "--eval-episodes"
            )
        self.losses["evaluations skipped"] += 1
        return False

    def ended(self, is_last: bool) -> list[tuple[int, float]]:
        """Return (env step, mean return) of those that ended; wait for the last."""
        self._advance()
        while is_last and self._current is not None:
            self._take(self._current, self._limit_at - time.monotonic())
            self._begin_next()
        ended, self._ended = self._ended, []
        return ended

    @property
    def _limit_at(self) -> float:
        """Clock at which the current one has taken too long."""
        assert self._current is not None
        return self._current.began + max(_LIMIT_SECONDS, 10 * self._longest)

    def _advance(self) -> None:
        """Take the current one where it has ended or failed, and begin the next."""
        while self._current is not None:
            is_late = time.monotonic() > self._limit_at
            if not is_late and not self._calls.are_there([self._current.episodes], 0):
                return
            self._take(self._current, 0)
            self._begin_next()

    def _begin_next(self) -> None:
        if self._current is not None or not self._waiting:
            return
        count = self._run.config.run.eval_episodes
        if self.actor is None:
            n_envs = min(count, self._run.config.env.n_envs)
            self.actor = self._make(Evaluator, n_envs)
        step, weights = self._waiting.popleft()
        seed = self._run.evaluation_seed
        episodes = self.actor.evaluate.remote(weights, count, seed)
        self._current = _Evaluation(step, episodes, time.monotonic())

    def _take(self, evaluation: _Evaluation, limit: float) -> None:
        """Take what an evaluation gives, within some seconds."""
        try:
            episodes = self._calls.get(evaluation.episodes, limit)
        except LateError:
            self._fail(evaluation.step, "it takes too long")
        except (Diverged, UserError) as error:
            self._fail(evaluation.step, str(error))
        except self._calls.ray.exceptions.RayError as error:
            lines = traceback_of(error).splitlines() or ["its process died"]
            self._fail(evaluation.step, lines[-1])
        else:
            mean = sum(each.episode_return for each in episodes) / len(episodes)
            self._ended.append((evaluation.step, mean))
            taken = time.monotonic() - evaluation.began
            self._longest = max(self._longest, taken)
        self._current = None

    def _fail(self, step: int, why: str) -> None:
        """Count an evaluation that failed; the next one has a new evaluator."""
        self.losses["evaluations"] += 1
        self.news.append(f"The evaluation at {step} steps failed: {why.rstrip('.')}")
        self._calls.kill(self.actor)
        self.actor = None


def _held_bytes(run: Run) -> int:
    """Return what one holds: weights, and the state that may become the best."""
    policy, *others = (
        4 * sum(map(math.prod, shapes(layout).values())) for layout in run.layouts
    )
    return policy + _STATE_COPIES * (policy + sum(others))
