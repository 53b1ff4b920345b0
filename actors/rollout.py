"""A trajectory while an env actor writes it, row by row."""

import numpy as np

from xagents_ray.actors.envs.vector import EnvStep
from xagents_ray.actors.policies.base import Actions
from xagents_ray.core.errors import Diverged
from xagents_ray.core.trajectory import (
    Array,
    BoolArray,
    FloatArray,
    Trajectory,
    stack_frames,
)


def first_window(first: Array, stack: int) -> tuple[Array, BoolArray]:
    """Return the newest frames after a reset, zeros before it, and their starts.

    Args:
        first: [B, *observation_shape], what the reset gave.
        stack: frames of a window.
    Returns:
        [stack, B, *observation_shape] and bool [stack, B].
    """
    observations = np.zeros((stack, *first.shape), first.dtype)
    starts = np.zeros(observations.shape[:2], np.bool_)
    observations[-1], starts[-1] = first, True
    return observations, starts


class TrajectoryWriter:
    """Holds the rows of one rollout.

    Args:
        before: [stack, B, *observation_shape] and bool [stack, B], the newest frames
            and starts before row 0.
        length: T.
        is_image: stack frames for the network.
    """

    def __init__(
        self, before: tuple[Array, BoolArray], length: int, is_image: bool
    ) -> None:
        stack, envs, *shape = before[0].shape
        self._stack, self._is_image = stack, is_image
        self.observations: Array = np.empty(
            (length + stack, envs, *shape), before[0].dtype
        )
        self.starts = np.zeros((length + stack, envs), np.bool_)
        self.observations[:stack], self.starts[:stack] = before
        self._rewards = np.empty((length, envs), np.float32)
        self._terminated = np.empty((length, envs), np.bool_)
        self._truncated = np.empty((length, envs), np.bool_)
        self.valid = np.empty((length, envs), np.bool_)
        self._chosen: list[Actions] = []

    def input(self, t: int) -> Array:
        """Return the network's input at row t, at most T: [B, *input_shape]."""
        if not self._is_image:
            row: Array = self.observations[t]
            return row
        window = slice(t, t + self._stack)
        return stack_frames(self.observations[window], self.starts[window])

    def write(self, t: int, chosen: Actions, step: EnvStep, resets: BoolArray) -> None:
        """Write row t; `resets`, bool [B], are environments that only reset in it."""
        self.observations[t + self._stack] = step.observations
        self.starts[t + self._stack] = resets
        self._rewards[t] = step.rewards
        self._terminated[t] = step.terminated
        self._truncated[t] = step.truncated
        np.logical_not(resets, out=self.valid[t])
        self._chosen.append(chosen)

    def last_window(self) -> tuple[Array, BoolArray]:
        """Return copies of the newest frames and starts, for the rollout after it."""
        length = len(self._rewards)
        return self.observations[length:].copy(), self.starts[length:].copy()

    def check_rewards(self) -> None:
        """Raise Diverged when a reward is not finite."""
        bad = np.argwhere(~np.isfinite(self._rewards))
        if len(bad):
            row, env = bad[0]
            raise Diverged(
                f"The environment gave a reward of {self._rewards[row, env]}: fix it, "
                "or look at what it returns for extreme actions."
            )

    def trajectory(
        self, last_values: FloatArray | None, version: int, first_env: int
    ) -> Trajectory:
        """Return the trajectory."""
        stored, _, log_probs, values, probabilities = zip(*self._chosen, strict=True)
        return Trajectory(
            self.observations,
            self.starts,
            np.stack(stored),
            self._rewards,
            self._terminated,
            self._truncated,
            self.valid,
            None if log_probs[0] is None else np.stack(log_probs),
            None if last_values is None else np.stack([*values, last_values]),
            version,
            first_env,
            None if probabilities[0] is None else np.stack(probabilities),
        )
