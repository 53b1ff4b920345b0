"""Files of replay shards on this node, whose contents travel in small pieces."""

import math
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from xagents_ray.cluster.ray.calls import RayCalls
from xagents_ray.storage.arrays import Piecemeal, write_piecemeal
from xagents_ray.storage.checkpoints import read_replay_piecemeal

_LIMIT_SECONDS = 120.0
PIECE_BYTES = 32 << 20
"""Size of the pieces in which a shard is saved and loaded."""
PIECES_IN_TRANSIT = 3
"""Maximum number of pieces in the object store at a time."""


class ShardPieces:
    """Writes and reads the files of replay shards.

    Its methods raise the errors of `RayCalls.get`, and those of the file.
    """

    def __init__(self, calls: RayCalls) -> None:
        self._calls = calls

    def write(self, file: Path, actor: Any) -> None:
        """Write what a shard holds."""
        write_piecemeal(file, self._arrays(actor))

    def read(self, file: Path, actor: Any) -> None:
        """Fill a shard from a file."""
        arrays = self._calls.get(actor.open.remote(), _LIMIT_SECONDS)
        for each in read_replay_piecemeal(file, arrays, PIECE_BYTES):
            puts = (actor.put.remote(each.name, piece) for piece in each.pieces)
            for _ in self._results(puts):
                pass
        self._calls.get(actor.take.remote(), _LIMIT_SECONDS)

    def _arrays(self, actor: Any) -> Iterator[Piecemeal]:
        """Yield a shard's arrays with only a few pieces in transit at a time."""

        def data(name: str, nbytes: int) -> Iterator[Any]:
            firsts = range(0, nbytes, PIECE_BYTES)
            calls = (actor.piece.remote(name, n, n + PIECE_BYTES) for n in firsts)
            return self._results(calls)

        arrays = self._calls.get(actor.open.remote(), _LIMIT_SECONDS)
        for name, (dtype, shape) in arrays.items():
            nbytes = np.dtype(dtype).itemsize * math.prod(shape)
            yield Piecemeal(name, dtype, shape, data(name, nbytes))

    def _results(self, calls: Iterable[Any]) -> Iterator[Any]:
        """Yield the results of calls in order, with only a few calls pending."""
        pending: deque[Any] = deque()
        for call in calls:
            pending.append(call)
            if len(pending) == PIECES_IN_TRANSIT:
                yield self._calls.get(pending.popleft(), _LIMIT_SECONDS)
        while pending:
            yield self._calls.get(pending.popleft(), _LIMIT_SECONDS)
