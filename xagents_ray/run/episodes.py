"""Playing and evaluating: whole episodes with given weights, in this process."""

import dataclasses
import importlib
import json
import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xagents_ray.algorithms.row import Algorithm
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.errors import Stopped, UserError
from xagents_ray.core.machine import cores
from xagents_ray.core.signals import Signals
from xagents_ray.core.trajectory import Episode, Weights
from xagents_ray.core.words import counted
from xagents_ray.networks.layout import Layout
from xagents_ray.settings.algorithm import AlgorithmConfig
from xagents_ray.settings.config import Config
from xagents_ray.settings.episodes import EvaluateConfig, PlayConfig
from xagents_ray.settings.training import EnvConfig, TrainingConfig


@dataclass(frozen=True)
class Played:
    """Episodes that were played.

    Attributes:
        episodes: with raw returns; fewer than asked for after a signal, or when the
            user closed the window.
        seed: given, or drawn.
        signal: that ended them early; None when there was none.
    """

    episodes: tuple[Episode, ...]
    seed: int
    signal: int | None


def play(
    algorithm: Algorithm,
    env_config: EnvConfig,
    algorithm_config: AlgorithmConfig,
    layout: Layout,
    weights: Weights,
    config: PlayConfig,
    say: Callable[[str], object],
) -> Played:
    """Play episodes in one environment; show them, write videos or pictures.

    Args:
        algorithm: whose policy acts.
        env_config: the environment; it is always stepped alone.
        algorithm_config: settings of its policy.
        layout: of the network.
        weights: of the network.
        config: how many episodes, and where their pictures go.
        say: gets a line for each episode.
    Raises:
        UserError: there is no display, no picture, no place for a file, or no such
            output of the network.
    """
    layout = _action_first(layout, config.action_idx)
    seed = secrets.randbits(31) if config.seed is None else config.seed
    player = importlib.import_module("xagents_ray.actors.player").Player
    setup = _setup(algorithm, env_config, algorithm_config, layout, seed, 1)
    episodes: list[Episode] = []
    with Signals() as signals, closing(player(setup, config)) as made:
        signals.on_first = made.stop
        with suppress(Stopped), _naming_their_line(env_config):
            for episode in made.play(weights, seed):
                episodes.append(episode)
                say(episode_line(len(episodes), episode))
    return Played(tuple(episodes), seed, signals.received)


def film(run: RunSpec, weights: Weights, folder: Path) -> None:
    """Play and film one episode of a run with weights of the network that acts."""
    config = PlayConfig(video_dir=str(folder), seed=run.evaluation_seed)
    parts = run.algorithm, run.config.env, run.config.algorithm, run.layout
    play(*parts, weights, config, lambda _: None)


def evaluate(
    algorithm: Algorithm,
    env_config: EnvConfig,
    algorithm_config: AlgorithmConfig,
    layout: Layout,
    weights: Weights,
    config: EvaluateConfig,
) -> Played:
    """Play episodes in `--n-envs` environments for their returns.

    Args:
        algorithm: whose policy acts.
        env_config: the environments.
        algorithm_config: settings of its policy.
        layout: of the network.
        weights: of the network.
        config: how many episodes.
    Returns:
        All episodes; none when a signal came.
    """
    seed = secrets.randbits(31) if config.seed is None else config.seed
    evaluator = importlib.import_module("xagents_ray.actors.evaluator").Evaluator
    n_envs = min(env_config.n_envs, config.episodes)
    setup = _setup(algorithm, env_config, algorithm_config, layout, seed, n_envs)
    episodes: list[Episode] = []
    with Signals() as signals, closing(evaluator(setup)) as made:
        signals.on_first = made.stop
        with suppress(Stopped), _naming_their_line(env_config):
            episodes = made.evaluate(weights, config.episodes, seed, not config.sample)
    return Played(tuple(episodes), seed, signals.received)


def summary(episodes: Sequence[Episode], seed: int) -> dict[str, Any]:
    """Return what `evaluate --json` prints of at least one episode.

    The standard deviation is that of these episodes (divided by their number).
    """
    returns = [episode.episode_return for episode in episodes]
    return {
        "mean": float(np.mean(returns)),
        "std": float(np.std(returns)),
        "min": min(returns),
        "max": max(returns),
        "episodes": len(returns),
        "seed": seed,
        "returns": returns,
        "lengths": [episode.length for episode in episodes],
    }


def summary_line(summary: dict[str, Any], as_json: bool) -> str:
    """Return a summary as one readable line, or as JSON."""
    if as_json:
        return json.dumps(summary)
    numbers = (f"{name} {summary[name]:.2f}" for name in ("mean", "std", "min", "max"))
    count = counted(summary["episodes"], "episode")
    return f"{', '.join(numbers)} of {count}, seed {summary['seed']}"


def episode_line(number: int, episode: Episode) -> str:
    """Return the line about an episode that ended."""
    total, length = episode.episode_return, episode.length
    return f"episode {number}: reward {total:.2f}, {length} env steps"


def _naming_their_line(config: EnvConfig) -> AbstractContextManager[None]:
    interface = importlib.import_module("xagents_ray.actors.envs.interface")
    naming: AbstractContextManager[None] = interface.naming_their_line(str(config.env))
    return naming


def _setup(
    algorithm: Algorithm,
    env_config: EnvConfig,
    algorithm_config: AlgorithmConfig,
    layout: Layout,
    seed: int,
    n_envs: int,
) -> Any:
    """Return the ActorSetup of episodes without training."""
    unused = TrainingConfig(max_steps=1)  # a Config requires an end of training
    config = Config(algorithm=algorithm_config, env=env_config, training=unused)
    env_actor = importlib.import_module("xagents_ray.actors.env_actor")
    return env_actor.ActorSetup(
        algorithm.name, config, layout, seed, 0, n_envs, cores()
    )


def _action_first(layout: Layout, index: int) -> Layout:
    """Return the network with output `index` first, where policies look for actions."""
    outputs = layout.outputs
    if index >= len(outputs):
        raise UserError(
            f"--action-idx {index}: the network has {counted(len(outputs), 'output')}, "
            "numbered from 0; use 0."
        )
    heads = (layout.layers[outputs[i]].output_shape[-1] for i in (index, 0))
    units, expected = heads
    if units != expected:
        raise UserError(
            f"--action-idx {index}: this output has {units} units and the "
            f"environment's actions need {expected}; use 0."
        )
    rest = (output for i, output in enumerate(outputs) if i != index)
    return dataclasses.replace(layout, outputs=(outputs[index], *rest))
