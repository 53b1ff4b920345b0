"""The feed of a large learning phase: the learner pulls its batches in chunks.

See docs/adr/0021.
"""

from collections import deque
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.batches import Batch, Chunks, arrange
from xagents_ray.core.trajectory import IntArray, Transitions

CHUNK_BYTES = 8 << 20
"""Maximum size of a chunk that has more than four batches."""
AHEAD = 2
"""Number of chunks that are requested ahead of the one that is learned."""
WHOLE_BYTES = (AHEAD + 1) * CHUNK_BYTES
"""Size of the largest phases whose batches travel as one value.

The chunks of a larger one take as much memory at a time.
"""
_LIMIT_SECONDS = 120.0
"""Time limit for a chunk, after which its shard is taken for dead."""


class Receipt(NamedTuple):
    """What a shard of the replay returns for transitions that it has drawn."""

    shard: Any  # handle of the shard
    number: int  # number of the draw in this shard
    batches: int
    batch_size: int
    chunk: int  # number of the run's batches in a chunk

    @property
    def size(self) -> int:
        """Number of transitions."""
        return self.batches * self.batch_size


def chunk_size(batches: int, batch_bytes: int) -> int:
    """Return the number of batches in a chunk; 0 for phases that are not split.

    It is 4, 16, 64, …, the counts for which XLA compiles programs.

    Args:
        batches: number of batches of the phase.
        batch_bytes: size of a batch, in bytes; 0 if none is ever split.
    """
    if batches * batch_bytes <= WHOLE_BYTES:
        return 0
    size = 4
    while 4 * size * batch_bytes <= CHUNK_BYTES:
        size *= 4
    return size if size < batches else 0


def may_be_pulled(run: RunSpec) -> bool:
    """Return whether the largest learning phases of the run are pulled in chunks."""
    size = run.batch_bytes
    return size > 0 and chunk_size(run.sampled_bytes // size, size) > 0


def bytes_in_flight(run: RunSpec) -> int:
    """Return the size of the sampled batches that exist at a time, in bytes."""
    if not run.batch_bytes:
        return run.sampled_bytes
    chunk = max(CHUNK_BYTES, 4 * run.batch_bytes)
    return min(run.sampled_bytes, (AHEAD + 1) * chunk)


def pull(receipts: Sequence[Receipt], batch_size: int, seed: Sequence[int]) -> Chunks:
    """Return the batches that shards have drawn, in chunks.

    They are those of `assemble_batch` for samples instead of receipts.

    Args:
        receipts: those of all shards.
        batch_size: number of transitions per batch.
        seed: seed of the order in which those of several shards are mixed.
    """
    count = sum(each.size for each in receipts) // batch_size
    order: IntArray = np.arange(count * batch_size)
    if len(receipts) > 1 or receipts[0].batch_size != batch_size:
        order = np.random.default_rng(seed).permutation(count * batch_size)
    order = order.reshape(count, batch_size)
    return Chunks(count, _chunks(receipts, order))


def _chunks(
    receipts: Sequence[Receipt], order: IntArray
) -> Generator[Batch, None, None]:
    """Yield chunks of batches while a thread receives the next ones."""
    step = receipts[0].chunk
    parts = deque(order[k : k + step] for k in range(0, len(order), step))
    requests = deque[Any]()
    thread = ThreadPoolExecutor(1, "feed")

    def request() -> None:
        if parts:
            received = thread.submit(_receive, *_request(receipts, parts.popleft()))
            requests.append(received)

    try:
        for _ in range(AHEAD):
            request()
        while requests:
            request()
            yield requests.popleft().result()
    finally:
        thread.shutdown(wait=False, cancel_futures=True)


def _request(
    receipts: Sequence[Receipt], order: IntArray
) -> tuple[list[Any], IntArray | None]:
    """Request transitions, int64 [K, N], by their indices in all shards' draws.

    Return references to the shards' parts, and the indices of the transitions in
    these; None if the only part has them in their order.
    """
    if len(receipts) == 1:
        shard, number, *_ = receipts[0]
        return [shard.fetch.remote(number, order)], None
    ends = np.cumsum([each.size for each in receipts])
    shards = ends.searchsorted(order.ravel(), side="right")
    by_shard = shards.argsort(kind="stable")
    references = []
    for index, (receipt, end) in enumerate(zip(receipts, ends, strict=True)):
        own = by_shard[shards[by_shard] == index]
        if len(own):
            items = order.ravel()[own] - (end - receipt.size)
            references.append(receipt.shard.fetch.remote(receipt.number, items[None]))
    return references, by_shard.argsort().reshape(order.shape)


def _receive(references: list[Any], order: IntArray | None) -> Batch:
    """Return the batches of a chunk, once the shards have sent them."""
    import ray

    parts: list[Transitions] = ray.get(references, timeout=_LIMIT_SECONDS)
    return Batch(None, parts[0] if order is None else arrange(parts, order))
