"""The replay service of a run: shards that are replaced, empty, when they die."""

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xagents_ray.cluster.ray.calls import (
    Calls,
    LateError,
    Room,
    traceback_of,
)
from xagents_ray.core.errors import Broken
from xagents_ray.replay.base import Fill, replay_file
from xagents_ray.storage.arrays import Piecemeal, write_piecemeal
from xagents_ray.storage.checkpoints import read_replay_piecemeal, replay_files

_LIMIT_SECONDS = 120.0
_PING_SECONDS = 30.0
_NETWORK_SECONDS = 600.0
"""In which the data of a round must come to a shard, and a second more per ..."""
_SLOW_BYTES = 2**20
"""... that the round has: no network that is any use is slower."""
_TRIES = 4
PIECE_BYTES = 32 << 20
"""Of the replay in the object store while it is saved or loaded, ..."""
PIECES = 3
"""... and how many of them at a time, at most."""


class Shards:
    """Each holds what some of the environments did.

    Args:
        calls: waits for them.
        count: shards.
        make: makes the n-th actor.
        draws_trajectories: a batch takes trajectories of every environment, in place of
            transitions of any.
        round_bytes: of the trajectories of a round.
    Attributes:
        nbytes: of all of them.
        losses: what failures have cost, by name.
        news: sentences for the user, oldest first.
        seconds: that insertions took.
    """

    def __init__(
        self,
        calls: Calls,
        count: int,
        make: Callable[[int], Any],
        draws_trajectories: bool,
        round_bytes: int = 0,
    ) -> None:
        self._calls, self._make = calls, make
        self._draws_trajectories = draws_trajectories
        self._network_seconds = _NETWORK_SECONDS + round_bytes / _SLOW_BYTES
        self.losses: Counter[str] = Counter()
        self.news: list[str] = []
        self.seconds = 0.0
        self._actors = [make(number) for number in range(count)]
        self._fills = [Fill(0, False)] * count
        self._started = [actor.start.remote() for actor in self._actors]
        self.nbytes = 0
        self._room = Room(calls)

    @property
    def actors(self) -> list[Any]:
        """Handles of the shards."""
        return self._actors

    @property
    def fill(self) -> Fill:
        """How full all of them are together."""
        size = sum(fill.size for fill in self._fills)
        return Fill(size, all(fill.is_full for fill in self._fills))

    def wait_until_ready(self) -> None:
        """Return when they have taken their memory."""
        try:
            sizes = [self._calls.get(each, _LIMIT_SECONDS) for each in self._started]
        except (LateError, self._calls.ray.exceptions.RayError):
            raise Broken(
                "Ray could start no replay service: the cluster lacks memory, lower "
                "--buffer-max-size."
            ) from None
        self.nbytes = sum(sizes)

    def insert(self, trajectories: Sequence[Any]) -> Fill:
        """Copy the trajectories of a round in; a lost one is left out.

        Args:
            trajectories: references.
        """
        calls = [actor.insert.remote(*trajectories) for actor in self._actors]
        for number, call in enumerate(calls):
            self._inserted(number, call, trajectories)
        return self.fill

    def sample(
        self, batches: int, batch_size: int, generator: np.random.Generator
    ) -> dict[Any, int]:
        """Return references to K batches, from each shard in proportion to its fill.

        Args:
            batches: K.
            batch_size: transitions, or trajectories of each environment.
            generator: of the proportion.
        Returns:
            What each shard with something draws, and the number of the shard; nothing
            when all are empty.
        """
        sizes = np.array([fill.size for fill in self._fills])
        if len(sizes) == 1 or self._draws_trajectories:
            asked = [(batches, batch_size if size else 0) for size in sizes]
        elif not sizes.any():
            return {}
        else:
            shares = generator.multinomial(batches * batch_size, sizes / sizes.sum())
            asked = [(1, share) for share in shares.tolist()]
        return {
            self._actors[number].sample.remote(count, share): number
            for number, (count, share) in enumerate(asked)
            if share
        }

    def replace_dead(self) -> None:
        """Put an empty shard in the place of each that doesn't answer."""
        calls = [actor.insert.remote() for actor in self._actors]
        for number, call in enumerate(calls):
            self._inserted(number, call, ())

    def save(self, directory: Path) -> None:
        """Write their files there; OSError when they can't be.

        The driver writes them: the shards' nodes need not see its directories.
        """
        for number, actor in enumerate(self._actors):
            try:
                path = directory / replay_file(number)
                write_piecemeal(path, self._arrays(actor))
            except LateError as error:
                raise OSError("a shard of the replay takes too long") from error
            except self._calls.ray.exceptions.RayError as error:
                if not self._calls.is_death(error):
                    raise OSError(getattr(error, "cause", error)) from None
                self.replace(number)
                raise OSError("a shard of the replay died") from error

    def load(self, checkpoint: Path) -> None:
        """Take everything from a checkpoint with a replay.

        Raises:
            UserError: a file is damaged, or of another replay.
            Broken: a shard can't take its part.
        """
        files = {file.name: file for file in replay_files(checkpoint)}
        for number, actor in enumerate(self._actors):
            file = files.get(replay_file(number))
            if file is not None:
                try:
                    self._load(actor, file)
                except (LateError, self._calls.ray.exceptions.RayError) as error:
                    reason = traceback_of(error) or "it died or hangs"
                    raise Broken(
                        f"Replay shard {number} can't be filled from {file}: {reason}"
                    ) from None
        self.insert([])

    def _arrays(self, actor: Any) -> Iterator[Piecemeal]:
        """Yield a shard's arrays; a few pieces are on their way at a time."""

        def data(name: str, nbytes: int) -> Iterator[Any]:
            firsts = range(0, nbytes, PIECE_BYTES)
            calls = (actor.piece.remote(name, n, n + PIECE_BYTES) for n in firsts)
            return self._results(calls)

        arrays = self._calls.get(actor.open.remote(), _LIMIT_SECONDS)
        for name, (dtype, shape) in arrays.items():
            nbytes = np.dtype(dtype).itemsize * math.prod(shape)
            yield Piecemeal(name, dtype, shape, data(name, nbytes))

    def _load(self, actor: Any, file: Path) -> None:
        arrays = self._calls.get(actor.open.remote(), _LIMIT_SECONDS)
        for each in read_replay_piecemeal(file, arrays, PIECE_BYTES):
            puts = (actor.put.remote(each.name, piece) for piece in each.pieces)
            for _ in self._results(puts):
                pass
        self._calls.get(actor.take.remote(), _LIMIT_SECONDS)

    def _results(self, calls: Iterable[Any]) -> Iterator[Any]:
        """Yield what calls give in their order; few are made ahead."""
        asked: deque[Any] = deque()
        for call in calls:
            asked.append(call)
            if len(asked) == PIECES:
                yield self._calls.get(asked.popleft(), _LIMIT_SECONDS)
        while asked:
            yield self._calls.get(asked.popleft(), _LIMIT_SECONDS)

    def _copied(self, number: int, call: Any) -> Any:
        """Return what an insertion gives.

        Raises:
            LateError: the shard is silent, takes too long, or its data doesn't come.
        """
        until = time.monotonic() + self._network_seconds
        while True:
            try:
                return self._calls.get(call, _LIMIT_SECONDS)
            except LateError:
                if time.monotonic() > until or not self._is_waiting(number):
                    raise

    def _is_waiting(self, number: int) -> bool:
        """Return whether a shard is alive and has nothing to do: its data is coming."""
        ask = self._actors[number].is_idle.options(concurrency_group="control")
        try:
            return bool(self._calls.get(ask.remote(), _PING_SECONDS))
        except (LateError, self._calls.ray.exceptions.RayError):
            return False

    def _inserted(self, number: int, call: Any, trajectories: Sequence[Any]) -> None:
        """Take what one insertion gives; mend what failed, and insert the rest."""
        is_whole = bool(trajectories)
        for _ in range(_TRIES):
            try:
                self._fills[number], seconds = self._copied(number, call)
                self.seconds += seconds
                if is_whole:
                    self._room.found()
                return
            except LateError:
                self.replace(number, "hangs")
            except self._calls.ray.exceptions.RayError as error:
                is_full = self._calls.is_full(error)
                if is_full:  # there was no room for some of the trajectories
                    is_whole = False
                    self.news += self._room.wait()
                if is_full or self._calls.is_argument(error):
                    kept = [t for t in trajectories if not self._calls.failed(t)]
                    lost = len(trajectories) - len(kept)
                    self.losses["trajectories"] += lost if number == 0 else 0
                    trajectories = kept
                elif self._calls.is_death(error):
                    self.replace(number)
                else:
                    trace = traceback_of(error) or str(error)
                    raise Broken(f"Replay shard {number} failed:\n{trace}") from None
            call = self._actors[number].insert.remote(*trajectories)
        raise Broken(
            f"Replay shard {number} died {_TRIES} times in a row: it may lack memory; "
            "lower --buffer-max-size, or raise --replay-shards on a larger cluster."
        )

    def replace(self, number: int, what: str = "died") -> None:
        """Put an empty shard in the place of one that died or hangs."""
        self._calls.kill(self._actors[number])
        size = self._fills[number].size
        self.losses["replay shards"] += 1
        held = "trajectories held" if self._draws_trajectories else "transitions"
        self.losses[held] += size
        self.news.append(
            f"Replay shard {number} {what} with {size} {held}; an empty one refills"
        )
        self._actors[number] = self._make(number)
        try:
            self._calls.get(self._actors[number].start.remote(), _LIMIT_SECONDS)
        except (LateError, self._calls.ray.exceptions.RayError) as error:
            trace = traceback_of(error)
            if trace:
                raise Broken(f"Replay shard {number} failed:\n{trace}") from None
        self._fills[number] = Fill(0, False)
