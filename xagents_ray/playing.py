"""Playing and evaluating: whole games with given weights, in this process."""

import dataclasses
import importlib
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from xagents_ray.algorithms import Algorithm
from xagents_ray.config import Config, EnvConfig, TrainingConfig
from xagents_ray.errors import Stopped, UserError
from xagents_ray.hyperparameters import AlgorithmConfig
from xagents_ray.machine import cores
from xagents_ray.networks.layout import Layout
from xagents_ray.options import Checked, option
from xagents_ray.signals import Signals
from xagents_ray.trained import load, make
from xagents_ray.trajectory import Episode, Weights

_OF_SAMPLING = ("epsilon_end", "step_noise_coef", "noise")


@dataclass(frozen=True, kw_only=True)
class _GamesConfig(Checked):
    """What playing and evaluating share."""

    sample: bool = option(
        False,
        off="--greedy",
        help="If specified, actions are drawn as in training, not the likeliest as "
        "with --greedy; dqn then explores with --epsilon-end",
    )
    seed: int | None = option(
        None,
        low=0,
        high=2**31 - 1,
        help="Random seed of the environments and the drawn actions",
    )


@dataclass(frozen=True, kw_only=True)
class PlayConfig(_GamesConfig):
    """One environment's games, and where their pictures go."""

    episodes: int = option(1, low=1, unit="games", help="Number of games to play")
    action_idx: int = option(
        0, low=0, help="Index of the model's output that holds the action"
    )
    frame_delay: float = option(
        0.0,
        low=0,
        unit="seconds",
        help="Delay between rendered frames, beyond the environment's own speed",
    )
    frame_dir: str | None = option(
        None, help="Path to directory to save game frames as .jpg"
    )
    frame_frequency: int = option(
        1,
        low=1,
        unit="frames",
        help="If --frame-dir is specified, save frames every n frames",
    )
    render: bool = option(
        False, help="If specified, the gameplay will be rendered in a window"
    )
    video_dir: str | None = option(
        None, help="Path to directory to save an .mp4 of each game"
    )


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig(_GamesConfig):
    """Games whose returns are counted."""

    episodes: int = option(
        20,
        low=1,
        unit="games",
        help="Number of games, of all environments together",
    )
    json: bool = option(
        False, help="If specified, the result is printed as JSON with every game"
    )


@dataclass(frozen=True)
class Games:
    """Games that were played.

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
) -> Games:
    """Play games in one environment and show, film or photograph them.

    Args:
        algorithm: whose policy acts.
        env_config: the environment; it is always stepped alone.
        algorithm_config: settings of its policy.
        layout: of the network.
        weights: of the network.
        config: how many games, and where their pictures go.
        say: gets a line for each game.
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
                say(game_line(len(episodes), episode))
    return Games(tuple(episodes), seed, signals.received)


def evaluate(
    algorithm: Algorithm,
    env_config: EnvConfig,
    algorithm_config: AlgorithmConfig,
    layout: Layout,
    weights: Weights,
    config: EvaluateConfig,
) -> Games:
    """Play games in `--n-envs` environments for their returns.

    Args:
        algorithm: whose policy acts.
        env_config: the environments.
        algorithm_config: settings of its policy.
        layout: of the network.
        weights: of the network.
        config: how many games.
    Returns:
        All games; none when a signal came.
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
    return Games(tuple(episodes), seed, signals.received)


def summary(episodes: Sequence[Episode], seed: int) -> dict[str, Any]:
    """Return what `evaluate --json` prints of at least one game.

    The standard deviation is that of these games (divided by their number).
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
    return (
        f"{', '.join(numbers)} of {summary['episodes']} games, seed {summary['seed']}"
    )


def game_line(number: int, episode: Episode) -> str:
    """Return what is said of a game when it has ended."""
    total, length = episode.episode_return, episode.length
    return f"game {number}: reward {total:.2f}, {length} env steps"


def play_with(
    algorithm: Algorithm, given: Mapping[str, Any], say: Callable[[str], object]
) -> int | None:
    """Play with settings by their flat names; return the signal that ended it."""
    config: PlayConfig = make(PlayConfig, given)
    _check_sampling(config, given)
    agent = load(algorithm, given)
    for note in agent.notes:
        say(note)
    parts = algorithm, agent.env, agent.algorithm, agent.layout, agent.weights
    return play(*parts, config, say).signal


def evaluate_with(
    algorithm: Algorithm, given: Mapping[str, Any], say: Callable[[str], object]
) -> int | None:
    """Evaluate with settings by their flat names; see `play_with`."""
    config: EvaluateConfig = make(EvaluateConfig, given)
    _check_sampling(config, given)
    agent = load(algorithm, given)
    parts = algorithm, agent.env, agent.algorithm, agent.layout, agent.weights
    games = evaluate(*parts, config)
    if not config.json:
        for note in agent.notes:
            say(note)
    if games.episodes:
        found = summary(games.episodes, games.seed)
        say(summary_line({**found, "notes": agent.notes}, config.json))
    return games.signal


def _check_sampling(config: _GamesConfig, given: Mapping[str, Any]) -> None:
    """Raise UserError when a setting of drawn actions is given for greedy ones."""
    for name in _OF_SAMPLING:
        if name in given and not config.sample:
            raise UserError(
                f"--{name.replace('_', '-')} is for actions that are drawn: add "
                "--sample, or leave it out."
            )


def _naming_their_line(config: EnvConfig) -> AbstractContextManager[None]:
    interface = importlib.import_module("xagents_ray.actors.interface")
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
    """Return the ActorSetup of games without training."""
    unused = TrainingConfig(max_steps=1)  # a Config wants an end of training
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
            f"--action-idx {index}: the network has {len(outputs)} output"
            f"{'s' * (len(outputs) > 1)}, numbered from 0; use 0."
        )
    units, wanted = (layout.layers[outputs[i]].units for i in (index, 0))
    if units != wanted:
        raise UserError(
            f"--action-idx {index}: this output has {units} units and the "
            f"environment's actions need {wanted}; use 0."
        )
    rest = (output for i, output in enumerate(outputs) if i != index)
    return dataclasses.replace(layout, outputs=(outputs[index], *rest))
