"""A rollout in progress: its trajectory, and statistics of its steps."""

import numpy as np

from xagents_ray.actors.envs.step_info import InfoCoder
from xagents_ray.actors.envs.vector import EnvStep
from xagents_ray.actors.policies.base import Actions, ActorPolicy
from xagents_ray.core.errors import Diverged
from xagents_ray.core.moments import OBSERVATION, Statistics, moments_of, pool_goals
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import (
    Array,
    BoolArray,
    Episode,
    Trajectory,
    stack_frames,
)
from xagents_ray.settings.algorithm import AlgorithmConfig


def first_window(first: Array, stack: int) -> tuple[Array, BoolArray]:
    """Return the window after a reset: frames, zeros except the newest, and starts.

    From observations [B, *observation_shape] to frames [stack, B, *observation_shape]
    and episode starts, bool [stack, B].
    """
    observations = np.zeros((stack, *first.shape), first.dtype)
    starts = np.zeros(observations.shape[:2], np.bool_)
    observations[-1], starts[-1] = first, True
    return observations, starts


class TrajectoryWriter:
    """Collects the rows of one rollout.

    Args:
        before: frames [stack, B, *observation_shape] and starts bool [stack, B] of the
            window before row 0.
        length: number of rows, T.
        is_image: whether to stack frames for the network.
        coder: coder of the infos of steps; None if they are not stored.
    """

    def __init__(
        self,
        before: tuple[Array, BoolArray],
        length: int,
        is_image: bool,
        coder: InfoCoder | None = None,
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
        self._raw_rewards: list[Array] = []
        self._chosen: list[Actions] = []
        self._coder, self._info = coder, list[Array]()

    def input(self, t: int) -> Array:
        """Return the network's input at row t, 0 to T: [B, *input_shape]."""
        if not self._is_image:
            row: Array = self.observations[t]
            return row
        window = slice(t, t + self._stack)
        return stack_frames(self.observations[window], self.starts[window])

    def write(self, t: int, chosen: Actions, step: EnvStep, resets: BoolArray) -> None:
        """Write row t; `resets`, bool [B], marks environments that only reset."""
        self.observations[t + self._stack] = step.observations
        self.starts[t + self._stack] = resets
        self._rewards[t] = step.rewards
        self._raw_rewards.append(step.raw_rewards)
        self._terminated[t] = step.terminated
        self._truncated[t] = step.truncated
        self._chosen.append(chosen)
        if self._coder is not None:
            self._info.append(self._coder.encode_step(step.infos, ~resets))

    def last_window(self) -> tuple[Array, BoolArray]:
        """Return copies of the newest frames and starts, for the next rollout."""
        length = len(self._rewards)
        return self.observations[length:].copy(), self.starts[length:].copy()

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
        values, drawn = rows.values, policy.network_noise
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
            moments = moments_of(trajectory.observations[:-1][valid])
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
