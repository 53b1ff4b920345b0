"""`xagents-ray play` and `xagents-ray evaluate`."""

from collections.abc import Callable, Mapping
from typing import Any

from xagents_ray.algorithms.row import Algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.policy.loading import load
from xagents_ray.run import episodes
from xagents_ray.settings.options import options
from xagents_ray.settings.run import EpisodesConfig, EvaluateConfig, PlayConfig

Say = Callable[[str], object]


def play_with(algorithm: Algorithm, given: Mapping[str, Any], say: Say) -> int | None:
    """Play with settings by their flat names; return the signal that ended it."""
    config = PlayConfig.of(given)
    _check_sampling(algorithm, config, given)
    agent = load(algorithm, given)
    for note in agent.run.notes:
        say(note)
    return episodes.play(agent.run, agent.weights, config, say).signal


def evaluate_with(
    algorithm: Algorithm, given: Mapping[str, Any], say: Say
) -> int | None:
    """Evaluate with settings by their flat names; see `play_with`."""
    config = EvaluateConfig.of(given)
    _check_sampling(algorithm, config, given)
    agent = load(algorithm, given)
    played = episodes.evaluate(agent.run, agent.weights, config)
    if not config.json:
        for note in agent.run.notes:
            say(note)
    if played.episodes:
        found = episodes.summary(played.episodes, played.seed)
        line = {**found, "notes": [*agent.run.notes]}
        say(episodes.summary_line(line, config.json))
    return played.signal


def _check_sampling(
    algorithm: Algorithm, config: EpisodesConfig, given: Mapping[str, Any]
) -> None:
    """Raise UserError when a setting of sampled actions is given for greedy ones."""
    for each in options(algorithm.config):
        if each.explores and each.name in given and not config.sample:
            raise UserError(
                f"{each.flag} is for actions that are drawn: add --sample, or leave it "
                "out."
            )
