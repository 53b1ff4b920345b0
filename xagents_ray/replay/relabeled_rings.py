"""Ring buffers of transitions whose goals hindsight may replace."""

import numpy as np

from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import (
    BoolArray,
    FloatArray,
    IntArray,
    vectors_of,
)
from xagents_ray.replay.hindsight import Hindsight, Relabeled
from xagents_ray.replay.rings import TransitionRings, take


class RelabeledRings(TransitionRings):
    """Finds new goals for stored steps, and their rewards.

    Args are those of `TransitionRings`, and `relabeling`, the strategy and count of
    `Hindsight`; None keeps all goals.
    """

    def __init__(
        self,
        spec: EnvSpec,
        capacity: int,
        n_envs: int,
        longest: int,
        relabeling: tuple[str, int] | None = None,
        has_log_probs: bool = False,
    ) -> None:
        super().__init__(spec, capacity, n_envs, longest, has_log_probs)
        self._hindsight = None
        if relabeling is not None and spec.goals is not None:
            self._hindsight = Hindsight(spec.goals, *relabeling)
            shape = self._valid.shape
            # Positions of the first and last stored steps of each step's episode.
            self._first_steps = np.zeros(shape, np.int64)
            self._last_steps = np.zeros(shape, np.int64)

    def _mark_episodes(self, env: int, head: int) -> None:
        """Set the episode bounds of the steps at and after position `head`."""
        begin, end, length = head, int(self._head[env]), self._length
        if self._tail[env] < head:  # the newest stored episode may continue
            begin = max(self._first_steps[env, (head - 1) % length], self._tail[env])
        rows = np.arange(begin, end)
        valid = self._valid[env, rows % length]
        # An invalid step separates two episodes.
        firsts = np.maximum.accumulate(np.where(valid, begin, rows + 1))
        lasts = np.where(valid, end - 1, rows - 1)[::-1]
        self._first_steps[env, rows % length] = firsts
        self._last_steps[env, rows % length] = np.minimum.accumulate(lasts)[::-1]

    def _relabel(
        self, envs: IntArray, rows: IntArray, places: IntArray
    ) -> Relabeled | None:
        """Return new goals for some of the transitions; None if none get one."""
        if self._hindsight is None:
            return None
        head, tail = self._head.take(envs), self._tail.take(envs)
        first = np.maximum(self._first_steps.take(places), tail)
        step = head - (head - rows) % self._length
        last = self._last_steps.take(places)
        chosen, steps = self._hindsight.draw(first, step, last, self._random)
        if not len(chosen):
            return None
        return Relabeled(chosen, self._achieved(envs[chosen], steps))

    def _achieved(self, envs: IntArray, steps: IntArray) -> FloatArray:
        """Return the goals that steps achieved, as next observed, float32 [..., G]."""
        assert self._hindsight is not None
        places = envs * self._length + (steps + 1) % self._length
        vectors = take(vectors_of(self._observations), places)
        goals = vectors[..., self._hindsight.achieved]
        return goals.astype(np.float32, copy=False)

    def _reward(
        self, envs: IntArray, steps: IntArray, goals: FloatArray
    ) -> tuple[FloatArray, BoolArray | None]:
        """Return rewards and terminations of [M, n] steps for goals [M, G].

        They are float32 and bool [M, n]; terminations are None if the environment
        doesn't define them.
        """
        achieved = self._achieved(envs, steps)
        desired = np.broadcast_to(goals[:, None], achieved.shape)
        size, places = goals.shape[-1], envs * self._length + steps % self._length
        rewards, over = self._goal_rewards(
            achieved.reshape(-1, size), desired.reshape(-1, size), places.ravel()
        )
        over = None if over is None else over.reshape(steps.shape)
        return rewards.reshape(steps.shape), over

    def _goal_rewards(
        self, achieved: FloatArray, desired: FloatArray, places: IntArray
    ) -> tuple[FloatArray, BoolArray | None]:
        """Return rewards and terminations of steps at places [N] for goals [N, G].

        At least one step must be valid.
        """
        assert self.goal_rewards is not None
        info = None
        if self._info is not None:
            # An invalid step has no info. Its results are not used, but the function
            # must not fail: it gets the info of a valid one.
            valid = self._valid.take(places)
            info = take(self._info, np.where(valid, places, places[valid.argmax()]))
        return self.goal_rewards(achieved, desired, info)

    def _ends_of_other_causes(
        self, envs: IntArray, steps: IntArray, at: IntArray
    ) -> BoolArray:
        """Return which steps, at places [M, n], terminated regardless of their goals.

        These are the terminations, bool [M, n], that the desired goal doesn't explain;
        invalid steps have none.
        """
        assert self._hindsight is not None
        found = self._terminated.take(at) & self._valid.take(at)
        if found.any():
            achieved = self._achieved(envs, steps)[found]
            before = take(vectors_of(self._observations), at[found])
            desired = before[..., self._hindsight.desired].astype(np.float32)
            _, over = self._goal_rewards(achieved, desired, at[found])
            assert over is not None
            found[found] = ~over
        return found
