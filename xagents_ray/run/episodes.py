"""Playing and evaluating: whole episodes with given weights, in this process."""

import dataclasses
import json
import secrets
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.errors import Stopped, UserError, counted
from xagents_ray.core.signals import Signals
from xagents_ray.core.trajectory import Episode, Weights
from xagents_ray.networks.layout import Layout
from xagents_ray.settings.run import EvaluateConfig, PlayConfig


@dataclass(frozen=True)
class Played:
    """Episodes that were played."""

    # With raw returns; fewer than asked for after a signal, or when the user closed the
    # window.
    episodes: tuple[Episode, ...]
    seed: int  # given, or drawn
    signal: int | None  # that ended them early; None when there was none


def play(
    run: RunSpec, weights: Weights, config: PlayConfig, say: Callable[[str], object]
) -> Played:
    """Play episodes in one environment; show them, write videos or pictures.

    The environment is always stepped alone; `say` gets a line for each episode.

    Raises:
        UserError: there is no display, no picture, no place for a file, or no such
            output of the network.
    """
    from xagents_ray.actors.env_actor import ActorSetup
    from xagents_ray.actors.envs.interface import naming_their_line
    from xagents_ray.actors.player import Player

    layout = _action_first(run.layout, config.action_idx)
    run = _seeded(dataclasses.replace(run, layouts=(layout,)), config.seed)
    episodes: list[Episode] = []
    with Signals() as signals, closing(Player(ActorSetup.of(run, 1), config)) as player:
        signals.on_first = player.stop
        with suppress(Stopped), naming_their_line(str(run.config.env.env)):
            for episode in player.play(weights, run.seed):
                episodes.append(episode)
                say(episode_line(len(episodes), episode))
    return Played(tuple(episodes), run.seed, signals.received)


def film(run: RunSpec, weights: Weights, folder: Path) -> None:
    """Play and film one episode of a run with weights of the network that acts."""
    config = PlayConfig(video_dir=str(folder), seed=run.evaluation_seed)
    play(run, weights, config, lambda _: None)


def evaluate(run: RunSpec, weights: Weights, config: EvaluateConfig) -> Played:
    """Play episodes in `--n-envs` environments for their returns.

    Returns:
        All episodes; none when a signal came.
    """
    from xagents_ray.actors.env_actor import ActorSetup
    from xagents_ray.actors.envs.interface import naming_their_line
    from xagents_ray.actors.evaluator import Evaluator

    run = _seeded(run, config.seed)
    setup = ActorSetup.of(run, min(run.config.env.n_envs, config.episodes))
    episodes: list[Episode] = []
    with Signals() as signals, closing(Evaluator(setup)) as evaluator:
        signals.on_first = evaluator.stop
        with suppress(Stopped), naming_their_line(str(run.config.env.env)):
            count, greedy = config.episodes, not config.sample
            episodes = evaluator.evaluate(weights, count, run.seed, greedy)
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


def _seeded(run: RunSpec, seed: int | None) -> RunSpec:
    """Return the run with a given seed, or else with a drawn one."""
    drawn = secrets.randbits(31) if seed is None else seed
    return dataclasses.replace(run, seed=drawn)


def _action_first(layout: Layout, index: int) -> Layout:
    """Return the network with output `index` first, where policies look for actions."""
    outputs = layout.outputs
    if index >= len(outputs):
        raise UserError(
            f"--action-idx {index}: the network has {counted(len(outputs), 'output')}, "
            "numbered from 0; use 0."
        )
    units, expected = (layout.layers[outputs[i]].output_shape[-1] for i in (index, 0))
    if units != expected:
        raise UserError(
            f"--action-idx {index}: this output has {units} units and the "
            f"environment's actions need {expected}; use 0."
        )
    rest = (output for i, output in enumerate(outputs) if i != index)
    return dataclasses.replace(layout, outputs=(outputs[index], *rest))
