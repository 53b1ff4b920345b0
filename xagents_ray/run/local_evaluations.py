"""Evaluations in the process of a `--local` run."""

import warnings

from xagents_ray.actors.actor_setup import ActorSetup
from xagents_ray.actors.envs.indices import first_evaluation_index
from xagents_ray.actors.envs.interface import errors_name_line
from xagents_ray.actors.evaluator import Evaluator
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.errors import EndlessEpisode
from xagents_ray.core.reports import Evaluated
from xagents_ray.core.trajectory import Weights

_LATER = 10
"""Factor from the env steps of an evaluation that didn't end to those of the next."""


class LocalEvaluations:
    """Evaluates policy weights in environments of its own, made at the first call."""

    def __init__(self, run: RunSpec) -> None:
        self._run = run
        self._evaluator: Evaluator | None = None
        self._ended: list[Evaluated] = []
        self._next = 0  # env steps of the earliest next evaluation

    def evaluate(self, weights: Weights, env_steps: int, longest: int) -> bool:
        """Evaluate greedily; False if an episode had no end, or a recent one had none.

        `longest` is the env steps of the longest training episode so far.
        """
        config = self._run.config.run
        if self._evaluator is None:
            n_envs = min(config.eval_episodes, self._run.config.env.n_envs)
            first = first_evaluation_index(self._run.config.env)
            setup = ActorSetup.of(self._run, n_envs, first_index=first)
            self._evaluator = Evaluator(setup)
        if env_steps < self._next:
            return False
        try:
            with errors_name_line(str(self._run.config.env.env)):
                episodes = self._evaluator.evaluate(
                    weights,
                    config.eval_episodes,
                    self._run.evaluation_seed,
                    config.eval_max_steps,
                    longest,
                )
        except EndlessEpisode as error:  # another policy may end it, much later
            self._next = _LATER * env_steps
            when = f"The evaluation at {env_steps} steps failed, and the next one is at"
            warnings.warn(f"{when} {self._next}: {error}", stacklevel=3)
            return False
        self._ended.append(Evaluated.of(env_steps, episodes))
        return True

    def take(self) -> list[Evaluated]:
        """Return the evaluations that ended since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def stop(self) -> None:
        """End an evaluation in progress early."""
        if self._evaluator is not None:
            self._evaluator.stop()

    def close(self) -> None:
        if self._evaluator is not None:
            self._evaluator.close()
