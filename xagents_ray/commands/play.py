"""`xagents-ray play`."""

from collections.abc import Callable, Mapping
from typing import Any

from xagents_ray.algorithms.row import Algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.policy.loading import load, make
from xagents_ray.run.episodes import play
from xagents_ray.settings.episodes import EpisodesConfig, PlayConfig

_OF_SAMPLING = ("epsilon_end", "step_noise_coef", "noise")


def play_with(
    algorithm: Algorithm, given: Mapping[str, Any], say: Callable[[str], object]
) -> int | None:
    """Play with settings by their flat names; return the signal that ended it."""
    config: PlayConfig = make(PlayConfig, given)
    check_sampling(config, given)
    agent = load(algorithm, given)
    for note in agent.notes:
        say(note)
    parts = algorithm, agent.env, agent.algorithm, agent.layout, agent.weights
    return play(*parts, config, say).signal


def check_sampling(config: EpisodesConfig, given: Mapping[str, Any]) -> None:
    """Raise UserError when a setting of drawn actions is given for greedy ones."""
    for name in _OF_SAMPLING:
        if name in given and not config.sample:
            raise UserError(
                f"--{name.replace('_', '-')} is for actions that are drawn: add "
                "--sample, or leave it out."
            )
