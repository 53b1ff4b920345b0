"""A rollout in progress: its trajectory, and statistics of its steps."""

from typing import TypeAlias

import numpy as np

from xagents_ray.actors.envs.step_info import InfoCoder
from xagents_ray.actors.envs.vector import EnvStep
from xagents_ray.actors.policies.base import Actions, ActorPolicy
from xagents_ray.core.errors import Diverged
from xagents_ray.core.moments import OBSERVATION, Statistics, moments_of, pool_goals
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.stacks import network_input
from xagents_ray.core.trajectory import (
    Array,
    BoolArray,
    Episode,
    FloatArray,
    Observations,
    Trajectory,
    arrays_of,
    map_array,
    paired_arrays,
    vectors_of,
)
from xagents_ray.settings.algorithm import AlgorithmConfig

FrameWindow: TypeAlias = tuple[Observations, BoolArray]
"""Frames [stack, B, *observation_shape] and episode starts, bool [stack, B].

The frames are a dict of such arrays if observations have several.
"""


def first_window(first: Observations, stack: int) -> FrameWindow:
    """Return the window after a reset: frames, zeros except the newest, and starts.

    `first` are the observations of the reset, [B, *observation_shape] or a dict.
    """

    def newest(rows: Array) -> Array:
        frames = np.zeros((stack, *rows.shape), rows.dtype)
        frames[-1] = rows
        return frames

    starts = np.zeros((stack, len(arrays_of(first)[0])), np.bool_)
    starts[-1] = True
    return map_array(newest, first), starts


class TrajectoryWriter:
    """Collects the rows of one rollout.

    Args:
        before: window before row 0.
        length: number of rows, T.
        is_image: whether one array of observations has frames to stack.
        coder: coder of the infos of steps; None if they are not stored.
        action_masks: masks of the observations of row 0, bool [B, action_units]; None
            without masks.
        recurrent_state: state of the recurrent layers before row 0, float32 [B,
            state_units]; None without memory.
    """

    def __init__(
        self,
        before: FrameWindow,
        length: int,
        is_image: bool,
        coder: InfoCoder | None = None,
        action_masks: BoolArray | None = None,
        recurrent_state: FloatArray | None = None,
    ) -> None:
        frames, starts = before
        stack, envs = starts.shape
        self._stack, self._is_image = stack, is_image
        self.starts = np.zeros((length + stack, envs), np.bool_)
        self.starts[:stack] = starts

        def with_rows(window: Array) -> Array:
            rows = np.empty((length + stack, *window.shape[1:]), window.dtype)
            rows[:stack] = window
            return rows

        self.observations: Observations = map_array(with_rows, frames)
        self._rewards = np.empty((length, envs), np.float32)
        self._terminated = np.empty((length, envs), np.bool_)
        self._truncated = np.empty((length, envs), np.bool_)
        self._raw_rewards: list[Array] = []
        self._chosen: list[Actions] = []
        self._coder, self._info = coder, list[Array]()
        self._masks = [] if action_masks is None else [action_masks]
        self._state = recurrent_state

    def input(self, t: int) -> Observations:
        """Return the network's input at row t, 0 to T: [B, *input_shape], or a dict."""
        rows, window = self.observations, slice(t, t + self._stack)
        if not (self._is_image or isinstance(rows, dict)):
            return rows[t]
        frames = map_array(lambda x: x[window], rows)
        return network_input(frames, self.starts[window], self._is_image)

    def action_masks(self, t: int) -> BoolArray | None:
        """Return the masks at row t, 0 to T: bool [B, action_units], or None."""
        return self._masks[t] if self._masks else None

    def write(self, t: int, chosen: Actions, step: EnvStep, resets: BoolArray) -> None:
        """Write row t; `resets`, bool [B], marks environments that only reset."""
        for rows, newest in paired_arrays(self.observations, step.observations):
            rows[t + self._stack] = newest
        self.starts[t + self._stack] = resets
        self._rewards[t] = step.rewards
        self._raw_rewards.append(step.raw_rewards)
        self._terminated[t] = step.terminated
        self._truncated[t] = step.truncated
        self._chosen.append(chosen)
        if self._coder is not None:
            self._info.append(self._coder.encode_step(step.infos, ~resets))
        if step.action_masks is not None:
            self._masks.append(step.action_masks)

    def last_window(self) -> FrameWindow:
        """Return copies of the newest frames and starts, for the next rollout."""
        end = len(self._chosen)  # earlier than the last row after a failure
        window = slice(end, end + self._stack)
        frames = map_array(lambda rows: rows[window].copy(), self.observations)
        return frames, self.starts[window].copy()

    def check_rewards(self) -> None:
        """Raise Diverged if a reward is not finite, or too large for float32."""
        finite = np.isfinite(self._rewards)
        if not finite.all():
            row, env = np.argwhere(~finite)[0]
            raw = self._raw_rewards[row][env]
            limit = ", which float32 can't hold" if np.isfinite(raw) else ""
            raise Diverged(
                f"The environment gave a reward of {raw:g}{limit}: fix it, or look at "
                "what it returns for extreme actions."
            )

    def trajectory(
        self, policy: ActorPolicy, noise: Array, version: int, first_env: int
    ) -> Trajectory:
        """Return the trajectory of a policy that used noise [T, B, ...]."""
        rows = Actions.joined(self._chosen)
        values, drawn, state = rows.values, policy.network_noise, self._state
        if values is not None:
            last = policy.values(self.input(len(values)))
            values = np.array([*values, last])
        return Trajectory(
            observations=self.observations,
            starts=self.starts,
            actions=rows.stored,
            rewards=self._rewards,
            terminated=self._terminated,
            truncated=self._truncated,
            valid=~self.starts[self._stack :],
            log_probs=policy.log_probs(rows, noise),
            values=values,
            weights_version=version,
            first_env=first_env,
            probabilities=policy.probabilities(rows),
            info=np.stack(self._info) if self._info else None,
            network_noise=None if drawn is None else drawn[None],
            recurrent_state=None if state is None else state[None],
            action_masks=np.array(self._masks) if self._masks else None,
        )


class EpisodeCounter:
    """Accumulates returns and lengths of the episodes of B environments.

    Args:
        n_envs: number of environments, B.
        first_env: index of the first environment in the run.
    Attributes:
        returns: float64 [B], sums of raw rewards so far.
        lengths: int64 [B], env steps so far.
        ended: bool [B], true for environments that only reset in the next step.
    """

    def __init__(self, n_envs: int, first_env: int = 0) -> None:
        self.returns: Array = np.zeros(n_envs)
        self.lengths: Array = np.zeros(n_envs, np.int64)
        self.ended: BoolArray = np.zeros(n_envs, np.bool_)
        self._first_env = first_env

    def add(self, row: int, step: EnvStep) -> list[Episode]:
        """Add the step of a row; return the episodes that ended in it."""
        self.returns += step.raw_rewards
        self.lengths += ~self.ended
        self.ended = step.ended
        if not np.count_nonzero(step.ended):
            return []
        returns, lengths, success = self.returns, self.lengths, step.success
        episodes = [
            Episode(
                self._first_env + i,
                row,
                float(returns[i]),
                int(lengths[i]),
                None if success is None else success[i],
            )
            for i in step.ended.nonzero()[0].tolist()
        ]
        self.returns[step.ended] = self.lengths[step.ended] = 0
        return episodes


class RolloutMoments:
    """Moments of observations and discounted returns in valid rows.

    Args:
        config: settings of the algorithm.
        spec: spec of the environments.
        n_envs: number of environments.
    Attributes:
        returns: float64 [B], discounted sums of learning rewards so far; their variance
            determines the scale of rewards.
    """

    def __init__(self, config: AlgorithmConfig, spec: EnvSpec, n_envs: int) -> None:
        self._config = config
        self._goals = spec.goals if config.relabels_goals else None
        self.returns: Array = np.zeros(n_envs)

    def update(self, trajectory: Trajectory) -> Statistics:
        """Return the moments of a rollout, for the learner's normalization."""
        found: Statistics = {}
        c, valid = self._config, trajectory.valid
        if not (c.normalize_observations or c.normalize_rewards) or not valid.any():
            return found
        if c.normalize_observations:
            rows = vectors_of(trajectory.observations)[trajectory.stack - 1 : -1]
            moments = moments_of(rows[valid])
            if self._goals is not None:
                moments = pool_goals(moments, self._goals)
            found[OBSERVATION] = moments
        if c.normalize_rewards:
            found["return"] = moments_of(self._discounted(trajectory)[valid])
        return found

    def _discounted(self, trajectory: Trajectory) -> Array:
        """Return the discounted sums of rewards up to each row, float64 [T, B]."""
        sums = np.empty(trajectory.rewards.shape)
        ends = trajectory.terminated | trajectory.truncated
        for t, rewards in enumerate(trajectory.rewards):
            self.returns = self._config.gamma * self.returns + rewards
            sums[t] = self.returns
            self.returns = np.where(ends[t], 0.0, self.returns)
        return sums
