"""What one learning phase learns from, assembled from what its parts gave."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xagents_ray.core.trajectory import (
    Array,
    Replayed,
    Trajectory,
    Transitions,
    merge,
)

Part = Trajectory | Replayed | Transitions
"""What a batch is assembled from."""


class Batch(NamedTuple):
    """The data of one learning phase."""

    # The newest round, all of its environments side by side; None for an algorithm that
    # learns from its replay only.
    fresh: Trajectory | None = None
    # K batches drawn from the replay; None when nothing was drawn.
    sampled: Transitions | Replayed | None = None


def assemble(parts: Sequence[Part], batch_size: int, seed: Sequence[int]) -> Batch:
    """Return a batch of a round's trajectories and what each replay shard drew.

    Args:
        parts: in any order of kinds.
        batch_size: transitions per batch, where several shards drew some.
        seed: of the order in which transitions of several shards are mixed.
    """
    rounds = [part for part in parts if isinstance(part, Trajectory)]
    fresh = merge(rounds) if rounds else None
    transitions = [part for part in parts if isinstance(part, Transitions)]
    if len(transitions) > 1:
        mixed = mix(transitions, batch_size, np.random.default_rng(seed))
        return Batch(fresh, mixed)
    if transitions:
        return Batch(fresh, transitions[0])
    replayed = [part for part in parts if isinstance(part, Replayed)]
    return Batch(fresh, side_by_side(replayed) if replayed else None)


def mix(
    parts: Sequence[Transitions], batch_size: int, generator: np.random.Generator
) -> Transitions:
    """Return transitions of several shards as K batches, in random order.

    The parts are [1, n, ...] each, at least N together; what is more than K * N is
    left out. The batch size is N.
    """
    batches = sum(p.rewards.shape[1] for p in parts) // batch_size
    order = generator.permutation(batches * batch_size)

    def mixed(*arrays: Array) -> Array:
        rows = np.concatenate([array[0] for array in arrays])[order]
        return rows.reshape(batches, batch_size, *rows.shape[1:])

    return Transitions(*map(mixed, *parts))


def side_by_side(parts: Sequence[Replayed]) -> Replayed:
    """Return trajectories of several shards in each batch: [K, T, B1 + B2 + ...]."""
    if len(parts) == 1:
        return parts[0]
    columns = zip(*parts, strict=True)
    return Replayed(*(np.concatenate(arrays, axis=2) for arrays in columns))
