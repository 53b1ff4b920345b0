"""`xagents-ray play`."""

from collections.abc import Callable, Mapping
from typing import Any

from xagents_ray.algorithms.row import Algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.policy.loading import load
from xagents_ray.run.episodes import play
from xagents_ray.settings.episodes import EpisodesConfig, PlayConfig
from xagents_ray.settings.options import options


def play_with(
    algorithm: Algorithm, given: Mapping[str, Any], say: Callable[[str], object]
) -> int | None:
    """Play with settings by their flat names; return the signal that ended it."""
    config = PlayConfig.of(given)
    check_sampling(algorithm, config, given)
    agent = load(algorithm, given)
    for note in agent.run.notes:
        say(note)
    return play(agent.run, agent.weights, config, say).signal


def check_sampling(
    algorithm: Algorithm, config: EpisodesConfig, given: Mapping[str, Any]
) -> None:
    """Raise UserError when a setting of sampled actions is given for greedy ones."""
    for each in options(algorithm.config):
        if each.explores and each.name in given and not config.sample:
            raise UserError(
                f"{each.flag} is for actions that are drawn: add --sample, or leave it "
                "out."
            )
