"""The replay service of a run: shards, replaced by empty ones if they fail."""

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from xagents_ray.cluster.ray.calls import LateError, RayCalls, remote_traceback
from xagents_ray.cluster.ray.store_backoff import StoreBackoff
from xagents_ray.cluster.run.feed import chunk_size
from xagents_ray.cluster.run.shard_pieces import ShardPieces
from xagents_ray.core.errors import Broken, UserError, one_line
from xagents_ray.core.trajectory import Fill
from xagents_ray.run.replay_buffer import shard_bounds
from xagents_ray.storage.checkpoints import replay_file, replay_files

_LIMIT_SECONDS = 120.0
_PING_SECONDS = 30.0
_NETWORK_SECONDS = 600.0
"""Time limit for the data of a round to reach a shard, without its size."""
_BYTES_PER_SECOND = 2**20
"""Slowest supported network; extends that limit by the size of the data."""
_TRIES = 4


class ReplayShards:
    """The shards of the replay; each holds the data of some of the environments.

    Args:
        calls: Ray calls that wait for the shards.
        count: number of shards.
        make: function that creates the n-th shard's actor.
        draws_trajectories: whether a batch consists of trajectories of every
            environment instead of transitions.
        round_bytes: size of a round's trajectories, in bytes.
        total_envs: environments of the run, whose data the shards divide; 0 if
            it is unknown, and every shard gets all trajectories.
        batch_bytes: size of a batch, in bytes; 0 if phases are never pulled in chunks.
    Attributes:
        is_pulled: whether samples of a phase since the last insertion are pulled, so
            that the next one must wait for the learner.
        actors: handles of the shards.
        seconds: seconds that the newest insertion took.
    """

    def __init__(
        self,
        calls: RayCalls,
        count: int,
        make: Callable[[int], Any],
        draws_trajectories: bool,
        round_bytes: int,
        total_envs: int,
        batch_bytes: int,
    ) -> None:
        self._calls, self._log, self._make = calls, calls.log, make
        self._draws_trajectories = draws_trajectories
        self._batch_bytes, self.is_pulled = batch_bytes, False
        self._network_seconds = _NETWORK_SECONDS + round_bytes / _BYTES_PER_SECOND
        self._backoff, self._pieces = StoreBackoff(calls), ShardPieces(calls)
        self._fills = [Fill(0, False)] * count
        bounds = shard_bounds(total_envs, count)
        self._envs = [range(*each) for each in pairwise(bounds)]
        self.seconds = 0.0
        self.actors = [make(number) for number in range(count)]
        self._started = [actor.start.remote() for actor in self.actors]

    def wait_until_ready(self) -> int:
        """Return the memory of all shards in bytes, once they have allocated it.

        Raises:
            Broken: a shard can't allocate it, or starts too late.
        """
        calls = self._calls
        try:
            return sum(calls.get(each, _LIMIT_SECONDS) for each in self._started)
        except UserError:
            raise
        except LateError as late:
            why = f"it did not start within {late}, see `ray status`"
        except calls.ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            if cause is None or isinstance(cause, MemoryError):
                why = "the cluster lacks memory, lower --buffer-max-size"
            else:
                why = one_line(cause)
        raise Broken(f"Ray could not start the replay service: {why}.")

    @property
    def fill(self) -> Fill:
        """Total fill level of all shards."""
        size = sum(fill.size for fill in self._fills)
        return Fill(size, all(fill.is_full for fill in self._fills))

    def insert(
        self, trajectories: Sequence[Any], envs: Sequence[range] | None = None
    ) -> Fill:
        """Insert a round without its lost trajectories; return the total fill level.

        An empty round only updates the fill level and replaces silent shards.

        Args:
            trajectories: references to the trajectories.
            envs: environments of each trajectory; a shard gets those that have some of
                its own. None gives every shard all of them.
        Raises:
            Broken: a shard fails repeatedly.
        """
        parts = {
            number: self._of_shard(number, trajectories, envs)
            for number in range(len(self.actors))
        }
        if trajectories:
            self.is_pulled = False
            parts = {number: part for number, part in parts.items() if part}
        calls = {n: self.actors[n].insert.remote(*part) for n, part in parts.items()}
        lost: set[Any] = set()
        seconds = [
            self._finish_insertion(number, call, parts[number], lost)
            for number, call in calls.items()
        ]
        self._log.count("trajectories", len(lost))
        self.seconds = max(seconds)  # shards work in parallel
        return self.fill

    def update(self, updates: Sequence[Any]) -> None:
        """Send new errors to the shards; count those of overwritten transitions.

        A silent shard is replaced at the next insertion.
        """
        calls = [actor.update.remote(*updates) for actor in self.actors]
        for call in calls:
            try:
                late = self._calls.get(call, _LIMIT_SECONDS)
            except (LateError, self._calls.ray.exceptions.RayError):
                self._log.count("updates of priorities")
            else:
                self._log.count("priorities of replaced transitions", late)

    def sample(
        self, batches: int, batch_size: int, generator: np.random.Generator
    ) -> dict[Any, int]:
        """Draw K batches, from each shard in proportion to its fill or priority.

        Args:
            batches: number of batches, K.
            batch_size: number of transitions, or of trajectories per environment.
            generator: generator that draws each shard's share.
        Returns:
            References to the shards' samples, or receipts for those that are pulled,
            each with the index of its shard; none from empty shards.
        """
        sizes = np.array([fill.sampled for fill in self._fills])
        if len(sizes) == 1 or self._draws_trajectories:
            asked = [(batches, batch_size if size else 0) for size in sizes]
        elif not sizes.any():
            return {}
        else:
            shares = generator.multinomial(batches * batch_size, sizes / sizes.sum())
            asked = [(1, share) for share in shares.tolist()]
        chunk = chunk_size(batches, self._batch_bytes)
        self.is_pulled = self.is_pulled or bool(chunk)
        return {
            self._sample(self.actors[number], count, share, chunk): number
            for number, (count, share) in enumerate(asked)
            if share
        }

    def _sample(self, actor: Any, count: int, share: int, chunk: int) -> Any:
        if chunk:
            return actor.draw.remote(actor, count, share, chunk)
        return actor.sample.remote(count, share)

    def save(self, directory: Path) -> None:
        """Write the shards' files to a directory on this node.

        Raises:
            OSError: a file can't be written, or a shard died or takes too long.
        """
        for number, actor in enumerate(self.actors):
            try:
                self._pieces.write(directory / replay_file(number), actor)
            except LateError as error:
                raise OSError("a shard of the replay takes too long") from error
            except self._calls.ray.exceptions.RayError as error:
                if not self._calls.is_death(error):
                    raise OSError(getattr(error, "cause", error)) from None
                self.replace(number)
                raise OSError("a shard of the replay died") from error

    def load(self, checkpoint: Path) -> None:
        """Fill the shards from a checkpoint, if it has a replay.

        Raises:
            UserError: a file is damaged, or belongs to another replay.
            Broken: a shard can't be filled.
        """
        files = {file.name: file for file in replay_files(checkpoint)}
        for number, actor in enumerate(self.actors):
            file = files.get(replay_file(number))
            try:
                if file is not None:
                    self._pieces.read(file, actor)
            except (LateError, self._calls.ray.exceptions.RayError) as error:
                filling = f"Replay shard {number} can't be filled from {file}"
                reason = remote_traceback(error) or "it died or hangs"
                raise Broken(f"{filling}: {reason}") from None
        self.insert([])

    def _of_shard(
        self, number: int, trajectories: Sequence[Any], envs: Sequence[range] | None
    ) -> list[Any]:
        """Return the trajectories that have environments of a shard."""
        own = self._envs[number]
        if envs is None or not own:
            return [*trajectories]
        return [
            trajectory
            for trajectory, each in zip(trajectories, envs, strict=True)
            if each.start < own.stop and own.start < each.stop
        ]

    def _finish_insertion(
        self, number: int, call: Any, trajectories: Sequence[Any], all_lost: set[Any]
    ) -> float:
        """Wait for one insertion; retry after lost data, or with a new shard.

        Lost trajectories are added to `all_lost`. Return the duration of the insertion
        in seconds.
        """
        is_first_try = bool(trajectories)
        for _ in range(_TRIES):
            try:
                self._fills[number], seconds = self._wait_for_insertion(number, call)
                if is_first_try:
                    self._backoff.reset()
                return seconds
            except LateError:
                self.replace(number, "hangs")
            except UserError:
                raise
            except self._calls.ray.exceptions.RayError as error:
                is_full = self._calls.is_full(error)
                if is_full:  # some trajectories didn't fit
                    is_first_try = False
                    self._backoff.wait()
                if is_full or self._calls.is_argument(error):
                    lost = self._calls.lost(trajectories)
                    trajectories = [each for each in trajectories if each not in lost]
                    all_lost.update(lost)
                elif self._calls.is_death(error):
                    self.replace(number)
                else:
                    trace = remote_traceback(error) or str(error)
                    raise Broken(f"Replay shard {number} failed:\n{trace}") from None
            call = self.actors[number].insert.remote(*trajectories)
        raise Broken(
            f"Replay shard {number} died {_TRIES} times in a row: it may lack memory; "
            "lower --buffer-max-size, or raise --replay-shards on a larger cluster."
        )

    def _wait_for_insertion(self, number: int, call: Any) -> Any:
        """Return an insertion's result; LateError if the shard or its data is late."""
        until = time.monotonic() + self._network_seconds
        while True:
            try:
                return self._calls.get(call, _LIMIT_SECONDS)
            except LateError:
                if time.monotonic() > until or not self._is_idle(number):
                    raise

    def _is_idle(self, number: int) -> bool:
        """Return whether a shard is alive and idle because data is in transit."""
        ask = self.actors[number].is_idle.options(concurrency_group="control")
        try:
            return bool(self._calls.get(ask.remote(), _PING_SECONDS))
        except (LateError, self._calls.ray.exceptions.RayError):
            return False

    def replace(self, number: int, what: str = "died") -> None:
        """Replace a shard that died or hangs with an empty one."""
        self._calls.kill(self.actors[number])
        size = self._fills[number].size
        held = "trajectories held" if self._draws_trajectories else "transitions"
        self._log.count("replay shards")
        self._log.count(held, size)
        self._log.warn(
            f"Replay shard {number} {what} with {size} {held}; an empty one refills"
        )
        self.actors[number] = self._make(number)
        try:
            self._calls.get(self.actors[number].start.remote(), _LIMIT_SECONDS)
        except (LateError, self._calls.ray.exceptions.RayError) as error:
            if trace := remote_traceback(error):
                raise Broken(f"Replay shard {number} failed:\n{trace}") from None
        self._fills[number] = Fill(0, False)
