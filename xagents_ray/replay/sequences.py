"""The replay buffer of sequences, for networks with memory."""

from collections.abc import Mapping

import numpy as np

from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import (
    Array,
    Fill,
    FloatArray,
    IntArray,
    Replayed,
    Trajectory,
)
from xagents_ray.replay.sum_tree import Priorities
from xagents_ray.replay.trajectories import TrajectoryReplay


class SequenceReplay(TrajectoryReplay):
    """Holds the newest rollouts of every environment, and samples them one by one.

    Sequences of all environments are drawn alike, uniformly or by their priorities.

    Args are those of `TransitionReplay` and `state_units` of `TrajectoryReplay`, but
    there is room for at least one sequence of each environment, and `n_step`, `gamma`
    and `relabeling` are not used: the learner sums the rewards, and goals are kept.

    Source: "Recurrent Experience Replay in Distributed Reinforcement Learning", 2019.
    """

    def __init__(
        self,
        spec: EnvSpec,
        capacity: int,
        n_envs: int,
        longest: int,
        seed: int,
        n_step: int,
        gamma: float,
        relabeling: tuple[str, int] | None = None,
        alpha: float | None = None,
        state_units: int = 0,
    ) -> None:
        sequences = max(capacity // longest, n_envs)
        super().__init__(
            spec, sequences, n_envs, longest, seed, None, state_units=state_units
        )
        self._longest, self._slots = longest, int(self._quota[0])
        self._priorities = None
        if alpha is not None:
            self._priorities = Priorities(n_envs, self._slots, alpha)

    @property
    def fill(self) -> Fill:
        held = super().fill
        total = None if self._priorities is None else self._priorities.total
        return Fill(held.size * self._longest, held.is_full, total)

    def insert(self, trajectory: Trajectory) -> None:
        """Copy a rollout in, overwriting each environment's oldest one when full."""
        first, count = trajectory.first_env, trajectory.rewards.shape[1]
        envs = np.arange(first, first + count)
        places = self._place(envs, self._inserted[envs])
        super().insert(trajectory)
        if self._priorities is not None:
            new = np.ones(count, np.bool_)
            self._priorities.keep(places, held=new, new=new)

    def sample(self, batches: int, batch_size: int) -> Replayed:
        """Draw K batches of N sequences, with replacement.

        Raises:
            ValueError: the replay is empty.
        """
        held = np.minimum(self._inserted, self._quota)
        if not held.any():
            raise ValueError("The replay is empty: insert a trajectory first.")
        if self._priorities is not None:
            places = self._priorities.draw(batches, batch_size, self._random)
            envs, slots = places // self._slots, places % self._slots
        else:
            ends = held.cumsum()
            drawn = self._random.integers(ends[-1], size=batches * batch_size)
            envs = ends.searchsorted(drawn, side="right")
            slots = drawn - (ends - held)[envs]
        shape = batches, 1, batch_size
        # The newest sequence in the slot.
        newest = self._inserted[envs] - 1
        numbers = newest - (newest - slots) % self._quota[envs]
        found = self._at(slots.reshape(batches, -1), envs.reshape(batches, -1))
        found = found._replace(rows=np.stack([envs, numbers], 1).reshape(*shape, 2))
        if self._priorities is None:
            return found
        priorities = self._priorities.at(places).astype(np.float32).reshape(shape)
        return found._replace(priorities=priorities)

    def update(self, rows: IntArray, errors: FloatArray) -> int:
        """Set priorities of sequences; return how many were overwritten.

        Args:
            rows: int64 [M, 2], see `Trajectory`.
            errors: float32 [M], each sequence's error.
        """
        assert self._priorities is not None
        envs, numbers = rows[:, 0], rows[:, 1]
        held = numbers >= self._inserted[envs] - self._quota[envs]
        held &= numbers < self._inserted[envs]
        self._priorities.update(self._place(envs, numbers)[held], errors[held])
        return len(rows) - int(held.sum())

    def restore_generator(self, arrays: Mapping[str, Array]) -> None:
        """Restore the generator and the sums of priorities."""
        super().restore_generator(arrays)
        if self._priorities is not None:
            self._priorities.add_up()

    def _place(self, envs: IntArray, numbers: IntArray) -> IntArray:
        """Return the places of sequences by environment and number, int64 [M]."""
        places: IntArray = envs * self._slots + numbers % self._quota[envs]
        return places

    def _rings(self) -> dict[str, Array]:
        rings = super()._rings()
        if self._priorities is not None:
            rings["priorities"] = self._priorities.rows
            rings["largest_priority"] = self._priorities.largest
        return rings
