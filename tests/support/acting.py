"""Acting in tests: set-ups, weights, and the episodes that training plays."""

from dataclasses import replace
from typing import Any

import numpy as np
from naive import random_arrays

from xagents_ray.actors.actor_setup import ActorSetup
from xagents_ray.actors.env_actor import EnvActor
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.trajectory import Array, Episode, Weights
from xagents_ray.run.prepare import prepare_run
from xagents_ray.settings.config import Config

SEED = 5
SHORT_ATARI = {"env": "ShortInvaders-v0", "preprocess": True}
"""Real games last longer than a test may; see the fixture `short_atari`."""
FIXED = {"epsilon_start": 0.3, "epsilon_end": 0.3}


def run_of(agent: str, n_envs: int, **settings: Any) -> RunSpec:
    row = find_algorithm(agent)
    values = {"n_envs": n_envs, "max_steps": 1, **settings}
    return replace(prepare_run(row, Config.of(row.config, values)), seed=SEED)


def setup_of(agent: str, n_envs: int, **settings: Any) -> ActorSetup:
    return ActorSetup.of(run_of(agent, n_envs, **settings), n_envs, env_threads=2)


def weights_of(setup: ActorSetup) -> Weights:
    arrays = random_arrays(setup.layout, 3, gain=2.0)
    units = setup.layout.layers[setup.layout.outputs[0]].output_shape[-1]
    return Weights(1, {**arrays, "log_std": np.full(units, -0.5, np.float32)})


def actions_shared_and_alone(
    agent: str, weights: Weights, steps: int, **settings: Any
) -> tuple[Array, Array]:
    """Return actions of two environments of one actor, and of an actor for each."""
    one = setup_of(agent, 1, **settings)
    setups = [setup_of(agent, 2, **settings), one, replace(one, first_env=1)]
    found = []
    for setup in setups:
        actor = EnvActor(setup)
        rolled = [actor.rollout(weights, steps, 10**6)[0].actions for _ in range(2)]
        found.append(np.concatenate(rolled))
        actor.close()
    return found[0], np.concatenate(found[1:], axis=1)


def actors_games(setup: ActorSetup, games: int) -> list[Episode]:
    """Return the first games of each environment as training plays them."""
    actor = EnvActor(setup)
    found: list[list[Episode]] = [[] for _ in range(setup.n_envs)]
    row = 0
    while min(map(len, found)) < games:
        for episode in actor.rollout(weights_of(setup), 32, 0)[1].episodes:
            found[episode.env].append(episode._replace(row=row + episode.row))
        row += 32
    actor.close()
    return [episode for each in found for episode in each[:games]]
