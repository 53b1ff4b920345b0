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

    def check_no_memory(self) -> None:
        """Raise UserError if the policy has memory, so that it needs a state."""
        if self._actor.state_units:
            raise UserError(
                "The policy has memory, which act would forget: call predict, with the "
                "state that it returned last and with episode_start."
            )

    def act(
        self,
        rows: Observations,
        state: Array | None,
        episode_start: Any,
        deterministic: bool,
    ) -> tuple[Array, Array | None]:
        """Return actions and the next state; see `Policy.predict`.

        The state is that of the recurrent layers, then that of the noise.

        Args:
            rows: the network's input, [B, ...], or a dict of arrays.
            state: state that the previous call returned, or None.
            episode_start: bool [B], or None.
            deterministic: whether to take the most likely actions.
        """
        actor = self._actor
        if deterministic and not actor.state_units:
            return actor.greedy(rows), state
        count = len(arrays_of(rows)[0])
        self._set_state(state, count)
        if episode_start is not None:
            actor.reset_memory(_starts(episode_start, count))
        if deterministic:
            chosen = actor.greedy(rows)
        else:
            chosen = self._sampled(rows, count)
        parts = [actor.recurrent_state, actor.memory if actor.memory.size else None]
        known = [each for each in parts if each is not None]
        return chosen, np.concatenate(known, axis=-1) if known else None

    def _sampled(self, rows: Observations, count: int) -> Array:
        from xagents_ray.actors.evaluator import TRAINED
        from xagents_ray.actors.policies.base import noise_generators

        known = len(self._generators)
        self._generators += noise_generators(self._seed, known, max(0, count - known))
        noise = self._actor.noise(self._generators[:count], 1)[0]
        return self._actor.act(rows, noise, TRAINED).stepped  # type: ignore[no-any-return]

    def _set_state(self, state: Array | None, count: int) -> None:
        """Set what the policy remembers; raise UserError if it doesn't fit."""
        actor = self._actor
        actor.memory, actor.recurrent_state = np.zeros(0, np.float32), None
        given = np.array([] if state is None else state, np.float32)
        if not given.size:
            return
        units, noise_units = actor.state_units, actor.memory_units
        fit = [(count, units + noise_units)] + [(count, units)] * (units > 0)
        if given.shape not in fit:
            raise UserError(
                f"The state's shape is {given.shape}, and {fit[-1]} is needed: pass "
                "the state that the same batch's previous step returned."
            )
        if units:
            actor.recurrent_state, given = given[:, :units], given[:, units:]
        if given.size:
            actor.memory = given


def _starts(episode_start: Any, count: int) -> Array:
    """Return which observations begin an episode, bool [B]."""
    if np.size(episode_start) != count:
        raise UserError(
            f"episode_start has {pluralize(np.size(episode_start), 'value')} for "
            f"{pluralize(count, 'observation')}: give one for each."
        )
    return np.reshape(episode_start, -1).astype(np.bool_)
