"""Batches: the data of one learning phase, assembled from trajectories and samples."""

from collections.abc import Generator, Sequence
from typing import NamedTuple

import numpy as np

from xagents_ray.core.trajectory import (
    IntArray,
    Replayed,
    Trajectory,
    Transitions,
    map_arrays,
    merge_trajectories,
)

BatchPart = Trajectory | Replayed | Transitions
"""A component of a batch."""


class Batch(NamedTuple):
    """The data of one learning phase."""

    # The newest round, with all environments; None for an algorithm that learns only
    # from the replay.
    fresh: Trajectory | None = None
    # K batches from the replay; None if nothing was sampled.
    sampled: Transitions | Replayed | None = None

    @property
    def rows(self) -> IntArray | None:
        """Where the samples were in the replay, int64 [K, ..., 2], if known."""
        return None if self.sampled is None else self.sampled.rows


class Chunks(NamedTuple):
    """The batches of one learning phase, of which only a few exist at a time."""

    total: int  # number of batches
    parts: Generator[Batch, None, None]


PhaseBatch = Batch | Chunks
"""The data of one learning phase, at once or in chunks."""


def assemble_batch(
    parts: Sequence[BatchPart], batch_size: int, seed: Sequence[int]
) -> Batch:
    """Assemble a batch from a round's trajectories and the shards' samples.

    Args:
        parts: trajectories and samples, in any order.
        batch_size: transitions or sequences per batch, used if several shards sampled
            some.
        seed: seed of the order in which those of several shards are mixed.
    """
    replayed = [each for each in parts if isinstance(each, Replayed)]
    transitions = [each for each in parts if isinstance(each, Transitions)]
    rounds = [x for x in parts if not isinstance(x, (Replayed, Transitions))]
    fresh = merge_trajectories(rounds) if rounds else None
    if len(transitions) == 1 and transitions[0].rewards.shape[1] == batch_size:
        return Batch(fresh, transitions[0])
    if transitions:  # a single part of another size: other shards were empty
        mixed = mix_transitions(transitions, batch_size, np.random.default_rng(seed))
        return Batch(fresh, mixed)
    if not replayed:
        return Batch(fresh)
    joined = side_by_side(replayed)
    if joined.rows is not None and joined.rewards.shape[2] != batch_size:
        joined = mix_sequences(joined, batch_size, np.random.default_rng(seed))
    return Batch(fresh, joined)


def mix_transitions(
    parts: Sequence[Transitions], batch_size: int, generator: np.random.Generator
) -> Transitions:
    """Shuffle transitions of several shards into K batches of N.

    Each part is [1, n, ...]. Together they have at least N transitions, where N is the
    batch size; transitions beyond K * N are dropped.
    """
    batches = sum(p.rewards.shape[1] for p in parts) // batch_size
    order = generator.permutation(batches * batch_size)
    return arrange(parts, order.reshape(batches, batch_size))


def arrange(parts: Sequence[Transitions], order: IntArray) -> Transitions:
    """Return transitions of several parts, [1, n, ...] each, in an order.

    The order, int64 [K, N], has indices in the concatenated parts.
    """
    return map_arrays(lambda *x: np.concatenate([each[0] for each in x])[order], *parts)


def mix_sequences(
    joined: Replayed, batch_size: int, generator: np.random.Generator
) -> Replayed:
    """Shuffle the shards' sequences, [1, T, M, ...], into K batches of N.

    M is at least N, the batch size; sequences beyond K * N are dropped.
    """
    batches = joined.rewards.shape[2] // batch_size
    order = generator.permutation(batches * batch_size).reshape(batches, batch_size)
    return map_arrays(lambda x: x[0][:, order].swapaxes(0, 1), joined)


def side_by_side(parts: Sequence[Replayed]) -> Replayed:
    """Concatenate the shards' batches by environment: [K, T, B1 + B2 + ...]."""
    if len(parts) == 1:
        return parts[0]
    return map_arrays(lambda *x: np.concatenate(x, axis=2), *parts)
