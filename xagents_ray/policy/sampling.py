"""Seeded sampling of actions, as in training."""

import secrets
from typing import Any

import numpy as np

from xagents_ray.core.errors import UserError, pluralize
from xagents_ray.core.trajectory import Array, Observations, arrays_of


class Sampler:
    """Samples a policy's actions; each row of a batch has its own generator.

    Args:
        actor: a policy of `actors/`, with weights.
        seed: seed of the sampling, as for an evaluation; None for a random one.
    """

    def __init__(self, actor: Any, seed: int | None) -> None:
        self._actor = actor
        self._seed = secrets.randbits(31) if seed is None else seed
        self._generators: list[np.random.Generator] = []

    def draw(
        self, rows: Observations, state: Array | None, episode_start: Any
    ) -> tuple[Array, Array | None]:
        """Return actions and the state of their noise; see `Policy.predict`.

        `rows` is the network's input, [B, ...], or a dict of arrays.
        """
        from xagents_ray.actors.evaluator import TRAINED
        from xagents_ray.actors.policies.base import noise_generators

        actor, known = self._actor, len(self._generators)
        count = len(arrays_of(rows)[0])
        self._generators += noise_generators(self._seed, known, max(0, count - known))
        actor.memory = np.array([] if state is None else state, np.float32)
        needed = count, actor.memory_units
        if actor.memory.size and actor.memory.shape != needed:
            raise UserError(
                f"The state's shape is {actor.memory.shape}, and {needed} is needed: "
                "pass the state that the same batch's previous step returned."
            )
        if episode_start is not None:
            if np.size(episode_start) != count:
                raise UserError(
                    f"episode_start has {pluralize(np.size(episode_start), 'value')} "
                    f"for {pluralize(count, 'observation')}: give one for each."
                )
            actor.reset_memory(np.reshape(episode_start, -1).astype(np.bool_))
        noise = actor.noise(self._generators[:count], 1)[0]
        chosen = actor.act(rows, noise, TRAINED).stepped
        return chosen, actor.memory if actor.memory.size else None
