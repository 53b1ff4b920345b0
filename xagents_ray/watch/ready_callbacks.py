"""Callbacks for common wishes, to be given to `train(callbacks=[…])`."""

from collections.abc import Callable

from xagents_ray.core.errors import UserError
from xagents_ray.watch.callbacks import Callback, RunContext
from xagents_ray.watch.progress import EndedEpisode


class StopOnReward(Callback):
    """Ends a run whose evaluations reach a mean reward; needs `eval_every`.

    `target_reward` does so for the mean reward of the training episodes.

    Args:
        mean_reward: mean return of the greedy episodes of an evaluation.

    >>> stop = xagents_ray.StopOnReward(475)
    >>> result = xagents_ray.train(
    ...     "a2c", env="CartPole-v1", max_steps=200, eval_every=100, eval_episodes=1,
    ...     callbacks=[stop], run_dir="others", local=True, quiet=True)
    """

    def __init__(self, mean_reward: float) -> None:
        self._mean_reward = mean_reward

    def on_evaluation(
        self, ctx: RunContext, env_steps: int, mean_reward: float
    ) -> bool | None:
        return mean_reward < self._mean_reward


class StopOnNoImprovement(Callback):
    """Ends a run whose mean reward has not improved for a number of env steps.

    Args:
        env_steps: env steps of all environments together without an improvement.
        least: smallest increase of the mean reward that is an improvement.
    Raises:
        UserError: `env_steps` is not positive.

    >>> stop = xagents_ray.StopOnNoImprovement(50_000, least=1.0)
    """

    def __init__(self, env_steps: int, least: float = 0.0) -> None:
        self._env_steps, self._least = _positive("env_steps", env_steps), least
        self._best: float | None = None
        self._improved_at = 0

    def on_episode(self, ctx: RunContext, episode: EndedEpisode) -> bool | None:
        mean = episode.mean_reward
        if self._best is None or mean > self._best + self._least:
            self._best, self._improved_at = mean, episode.step
        return episode.step - self._improved_at < self._env_steps


class EveryEnvSteps(Callback):
    """Calls a function once in a number of env steps, after a round of rollouts.

    Args:
        env_steps: env steps of all environments together between two calls.
        function: function of the run's `RunContext`; if it returns False, the run ends.
    Raises:
        UserError: `env_steps` is not positive.

    >>> show = xagents_ray.EveryEnvSteps(10_000, lambda ctx: print(ctx.mean_reward))
    """

    def __init__(
        self, env_steps: int, function: Callable[[RunContext], bool | None]
    ) -> None:
        self._env_steps = _positive("env_steps", env_steps)
        self._function, self._next = function, 0

    def on_start(self, ctx: RunContext) -> bool | None:
        self._next = ctx.env_steps + self._env_steps
        return None

    def on_rollout(self, ctx: RunContext) -> bool | None:
        if ctx.env_steps < self._next:
            return None
        passed = ctx.env_steps - self._next
        self._next += self._env_steps * (1 + passed // self._env_steps)
        return self._function(ctx)


def _positive(name: str, number: int) -> int:
    if not number > 0:
        raise UserError(f"{name} must be more than 0, got {number!r:.80}.")
    return number
