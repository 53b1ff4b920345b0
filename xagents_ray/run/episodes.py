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

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.errors import Stopped, UserError
from xagents_ray.core.signals import Signals
from xagents_ray.core.trajectory import Episode, Weights
from xagents_ray.core.words import counted
from xagents_ray.networks.layout import Layout
from xagents_ray.settings.episodes import EvaluateConfig, PlayConfig
from xagents_ray.settings.training import EnvConfig


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
    run: RunSpec, weights: Weights, config: PlayConfig, say: Callable[[str], object]
) -> Played:
    """Play episodes in one environment; show them, write videos or pictures.

    Args:
        run: whose policy acts in its environment, always stepped alone.
        weights: of the network.
        config: how many episodes, and where their pictures go.
        say: gets a line for each episode.
    Raises:
        UserError: there is no display, no picture, no place for a file, or no such
            output of the network.
    """
    layout = _action_first(run.layout, config.action_idx)
    run = _seeded(dataclasses.replace(run, layouts=(layout,)), config.seed)
    player = importlib.import_module("xagents_ray.actors.player").Player
    episodes: list[Episode] = []
    with Signals() as signals, closing(player(_setup(run, 1), config)) as made:
        signals.on_first = made.stop
        with suppress(Stopped), _naming_their_line(run.config.env):
            for episode in made.play(weights, run.seed):
                episodes.append(episode)
                say(episode_line(len(episodes), episode))
    return Played(tuple(episodes), run.seed, signals.received)


def film(run: RunSpec, weights: Weights, folder: Path) -> None:
    """Play and film one episode of a run with weights of the network that acts."""
    config = PlayConfig(video_dir=str(folder), seed=run.evaluation_seed)
    play(run, weights, config, lambda _: None)


def evaluate(run: RunSpec, weights: Weights, config: EvaluateConfig) -> Played:
    """Play episodes in `--n-envs` environments for their returns.

    Args:
        run: whose policy acts in its environments.
        weights: of the network.
        config: how many episodes.
    Returns:
        All episodes; none when a signal came.
    """
    run = _seeded(run, config.seed)
    evaluator = importlib.import_module("xagents_ray.actors.evaluator").Evaluator
    n_envs = min(run.config.env.n_envs, config.episodes)
    episodes: list[Episode] = []
    with Signals() as signals, closing(evaluator(_setup(run, n_envs))) as made:
        signals.on_first = made.stop
        with suppress(Stopped), _naming_their_line(run.config.env):
            count, greedy = config.episodes, not config.sample
            episodes = made.evaluate(weights, count, run.seed, greedy)
    return Played(tuple(episodes), run.seed, signals.received)


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


def _seeded(run: RunSpec, seed: int | None) -> RunSpec:
    """Return the run with a given seed, or else with a drawn one."""
    drawn = secrets.randbits(31) if seed is None else seed
    return dataclasses.replace(run, seed=drawn)


def _setup(run: RunSpec, n_envs: int) -> Any:
    """Return the setup of who acts in that many environments."""
    setup = importlib.import_module("xagents_ray.actors.env_actor").ActorSetup
    return setup.of(run, n_envs)


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
