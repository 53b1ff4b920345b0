"""Greedy evaluations beside training, in an env actor of their own."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from xagents_ray.actors.evaluator import Evaluator
from xagents_ray.backend import Run
from xagents_ray.cluster.calls import Calls, LateError
from xagents_ray.errors import Diverged, UserError

_LIMIT_SECONDS = 1_800.0
"""Of one evaluation that the run waits for."""


class Evaluations:
    """Evaluations in progress, oldest first; those that fail are counted.

    Args:
        calls: waits for them.
        make: makes an actor of a class with so many environments.
        run: whose weights are evaluated.
    Attributes:
        actor: handle of the evaluator; None before the first evaluation.
        losses: what failures have cost, by name.
    """

    def __init__(
        self, calls: Calls, make: Callable[[type, int], Any], run: Run
    ) -> None:
        self._calls, self._make, self._run = calls, make, run
        self.actor: Any = None
        self.losses: Counter[str] = Counter()
        self._going: list[tuple[int, Any]] = []
        self._ended: list[tuple[int, float]] = []

    def begin(self, env_steps: int, weights: Any) -> None:
        """Begin one; wait when the evaluator is slower than training."""
        count = self._run.config.run.eval_episodes
        if len(self._going) > 1:
            self._take()
        if self.actor is None:
            n_envs = min(count, self._run.config.env.n_envs)
            self.actor = self._make(Evaluator, n_envs)
        seed = self._run.evaluation_seed
        games = self.actor.evaluate.remote(weights, count, seed)
        self._going.append((env_steps, games))

    def ended(self, is_last: bool) -> list[tuple[int, float]]:
        """Return (env step, mean return) of those that ended; wait for the last."""
        while self._going:
            if not is_last and not self._calls.are_there([self._going[0][1]], 0):
                break
            self._take()
        ended, self._ended = self._ended, []
        return ended

    def _take(self) -> None:
        """Wait for the oldest one."""
        step, reference = self._going.pop(0)
        try:
            games = self._calls.get(reference, _LIMIT_SECONDS)
        except (LateError, Diverged, UserError, self._calls.ray.exceptions.RayError):
            self.losses["evaluations"] += 1
            self._calls.kill(self.actor)
            self.actor = None
            return
        mean = sum(game.episode_return for game in games) / len(games)
        self._ended.append((step, mean))
