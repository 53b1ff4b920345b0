"""The film of a run's last policy."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.core.spec import EnvSpec
from xagents_ray.run import film as film_module
from xagents_ray.run.prepare import build_run
from xagents_ray.settings.config import Config


@pytest.mark.parametrize("limit", [None, 70])
def test_its_episode_is_bounded_as_in_evaluations(
    limit: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By --eval-max-steps, or by the longest episode in training."""
    filmed: list[Any] = []

    def play(run: RunSpec, weights: Any, config: Any, ended: Any, index: int) -> None:
        filmed.append((config.eval_max_steps, run.longest_episode))

    monkeypatch.setattr(film_module, "play_episodes", play)
    given = {"env": "CartPole-v1", "max_steps": 10, "monitor_session": "name"}
    config = Config.of(ALGORITHMS["ppo"].config, given | {"eval_max_steps": limit})
    run = build_run(ALGORITHMS["ppo"], config, EnvSpec((4,), "float32", 1, 2))
    film_module.film(replace(run, longest_episode=900), {}, Path("video"))
    assert filmed == [(limit, 900)]
