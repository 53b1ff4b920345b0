"""Playing and evaluating: runs whole episodes with fixed weights in this process."""

import dataclasses
import math
import secrets
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.errors import Stopped, UserError, pluralize
from xagents_ray.core.signals import Signals
from xagents_ray.core.trajectory import Episode, Weights, success_rate
from xagents_ray.networks.layout import Layout
from xagents_ray.run.film import play_episodes
from xagents_ray.settings.episodes import EvaluateConfig, PlayConfig


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Episodes that a policy played, and statistics of their returns.

    Returns are undiscounted sums of the environment's rewards, without clipping.

    Attributes:
        episodes: the episodes, each with `episode_return`, `length` in env steps, and
            the index of its environment as `env`; fewer than requested if the user
            closed the window or a signal arrived.
        seed: seed of the environments and the sampled actions.
        signal: number of the signal that ended the episodes early, or None.

    >>> result = xagents_ray.evaluate("ppo", run="last", episodes=5, seed=1)
    >>> len(result.returns), result.mean == sum(result.returns) / 5
    (5, True)
    >>> sorted(result.summary())
    ['episodes', 'lengths', 'max', 'mean', 'min', 'returns', 'seed', 'std']
    """

    episodes: tuple[Episode, ...]
    seed: int
    signal: int | None = None

    @property
    def returns(self) -> list[float]:
        """Return of each episode."""
        return [episode.episode_return for episode in self.episodes]

    @property
    def lengths(self) -> list[int]:
        """Env steps of each episode."""
        return [episode.length for episode in self.episodes]

    @property
    def success_rate(self) -> float | None:
        """Fraction of episodes that reached their goals; None if unknown."""
        return success_rate(self.episodes)

    @property
    def mean(self) -> float:
        """Mean return; NaN without episodes."""
        return float(np.mean(self.returns)) if self.episodes else math.nan

    @property
    def std(self) -> float:
        """Population standard deviation of the returns; NaN without episodes."""
        return float(np.std(self.returns)) if self.episodes else math.nan

    def summary(self) -> dict[str, Any]:
        """Return what `evaluate --json` prints; requires at least one episode."""
        returns, rate = self.returns, self.success_rate
        return {
            **({} if rate is None else {"success_rate": rate}),
            "mean": self.mean,
            "std": self.std,
            "min": min(returns),
            "max": max(returns),
            "episodes": len(returns),
            "seed": self.seed,
            "returns": returns,
            "lengths": self.lengths,
        }

    def __str__(self) -> str:
        count = pluralize(len(self.episodes), "episode")
        if not self.episodes:
            return f"{count}, seed {self.seed}"
        names = "mean", "std", "min", "max"
        numbers = [f"{name} {self.summary()[name]:.2f}" for name in names]
        if self.success_rate is not None:
            numbers.append(f"success rate {self.success_rate:.2f}")
        return f"{', '.join(numbers)} of {count}, seed {self.seed}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self}>"


def show_episodes(
    run: RunSpec, weights: Weights, config: PlayConfig, say: Callable[[str], object]
) -> Evaluation:
    """Play episodes in one environment; render them, or write videos or images.

    `say` is called with a line of text for each episode.

    Raises:
        UserError: no display is available, the environment can't be rendered, a file
            can't be written, or the network doesn't have the requested output.
    """
    layout = _action_first(run.layout, config.action_idx)
    run = _seeded(dataclasses.replace(run, layouts=(layout,)), config.seed)
    episodes: list[Episode] = []

    def tell(episode: Episode) -> None:
        episodes.append(episode)
        say(episode_line(len(episodes), episode))

    signal = play_episodes(run, weights, config, tell)
    for folder in filter(None, (config.video_dir, config.frame_dir)):
        if episodes:
            say(f"Written to {folder}")
    return Evaluation(tuple(episodes), run.seed, signal)


def unless_stopped(evaluation: Evaluation) -> Evaluation:
    """Return the evaluation; raise SystemExit with 128 + n if signal n ended it."""
    if evaluation.signal is not None:
        raise SystemExit(128 + evaluation.signal)
    return evaluation


def evaluate_policy(
    run: RunSpec,
    weights: Weights,
    config: EvaluateConfig,
    progress: Callable[[int, int], object] = lambda episodes, env_steps: None,
) -> Evaluation:
    """Play episodes in `--n-envs` environments and measure their returns.

    `progress` is called with the numbers of finished episodes and of env steps.

    Returns:
        All episodes; none if a signal arrived.
    """
    from xagents_ray.actors.actor_setup import ActorSetup
    from xagents_ray.actors.envs.interface import errors_name_line
    from xagents_ray.actors.evaluator import Evaluator

    run = _seeded(run, config.seed)
    setup = ActorSetup.of(run, min(run.config.env.n_envs, config.episodes))
    episodes: list[Episode] = []
    with Signals() as signals, closing(Evaluator(setup)) as evaluator:
        signals.on_first = evaluator.stop
        with suppress(Stopped), errors_name_line(str(run.config.env.env)):
            episodes = evaluator.evaluate(
                weights,
                config.episodes,
                run.seed,
                limit=config.eval_max_steps,
                longest=run.longest_episode,
                greedy=not config.sample,
                random_share=config.eval_epsilon,
                progress=progress,
            )
    return Evaluation(tuple(episodes), run.seed, signals.received)


def episode_line(number: int, episode: Episode) -> str:
    """Return a line of text about a finished episode."""
    _, _, total, length, success = episode
    end = {True: ", goal reached", False: ", goal missed", None: ""}[success]
    return f"episode {number}: reward {total:.2f}, {length} env steps{end}"


def with_envs(run: RunSpec, n_envs: int) -> RunSpec:
    """Return the run with a different number of environments."""
    env = dataclasses.replace(run.config.env, n_envs=n_envs)
    return dataclasses.replace(run, config=dataclasses.replace(run.config, env=env))


def _seeded(run: RunSpec, seed: int | None) -> RunSpec:
    """Return the run with the given seed, or with a random one."""
    drawn = secrets.randbits(31) if seed is None else seed
    return dataclasses.replace(run, seed=drawn)


def _action_first(layout: Layout, index: int) -> Layout:
    """Return the network with output `index` first, as policies expect the actions."""
    outputs = layout.outputs
    if index >= len(outputs):
        raise UserError(
            f"--action-idx {index}: the network has "
            f"{pluralize(len(outputs), 'output')}, numbered from 0; use 0."
        )
    units, expected = (layout.layers[outputs[i]].output_shape[-1] for i in (index, 0))
    if units != expected:
        raise UserError(
            f"--action-idx {index}: this output has {units} units and the "
            f"environment's actions need {expected}; use 0."
        )
    rest = (output for i, output in enumerate(outputs) if i != index)
    return dataclasses.replace(layout, outputs=(outputs[index], *rest))
