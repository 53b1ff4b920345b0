"""`xagents-ray evaluate`."""

from collections.abc import Callable, Mapping
from typing import Any

from xagents_ray.algorithms.row import Algorithm
from xagents_ray.commands.play import check_sampling
from xagents_ray.policy.loading import load
from xagents_ray.run.episodes import evaluate, summary, summary_line
from xagents_ray.settings.episodes import EvaluateConfig


def evaluate_with(
    algorithm: Algorithm, given: Mapping[str, Any], say: Callable[[str], object]
) -> int | None:
    """Evaluate with settings by their flat names; see `play_with`."""
    config = EvaluateConfig.of(given)
    check_sampling(algorithm, config, given)
    agent = load(algorithm, given)
    played = evaluate(agent.run, agent.weights, config)
    if not config.json:
        for note in agent.run.notes:
            say(note)
    if played.episodes:
        found = summary(played.episodes, played.seed)
        say(summary_line({**found, "notes": [*agent.run.notes]}, config.json))
    return played.signal
