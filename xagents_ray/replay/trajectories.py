"""The replay buffer of whole trajectories."""

from collections.abc import Iterator

import numpy as np

from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Array, Fill, Replayed, Trajectory
from xagents_ray.replay.base import Replay, env_quotas


class TrajectoryReplay(Replay):
    """Holds the newest trajectories of every environment, sampled uniformly.

    Each environment has its own ring, so env actors insert independently. Slot `p %
    quota` holds the p-th trajectory of its environment: each frame once, preceded by
    those that its first stacks need.

    Args:
        spec: spec of the environments.
        capacity: maximum number of trajectories, all environments together.
        n_envs: number of environments that insert; at most the capacity.
        longest: number of rows of each trajectory.
        seed: seed of the sampling.
        behavior: stored field of the behavior policies, a trajectory's
            `probabilities`, for discrete actions, or its `log_probs`.
    """

    def __init__(
        self,
        spec: EnvSpec,
        capacity: int,
        n_envs: int,
        longest: int,
        seed: int,
        behavior: str = "probabilities",
    ) -> None:
        self._quota = env_quotas(capacity, n_envs)
        # Time-major within a slot, as trajectories and what is sampled are.
        shape = (int(self._quota[0]), longest, n_envs)
        rows = (shape[0], longest + spec.stack, n_envs)
        frames = (*rows, *spec.observation_shape)
        self._observations = np.zeros(frames, spec.observation_dtype)
        self._starts = np.zeros(rows, np.bool_)
        kind = np.int32 if spec.is_discrete else np.float32
        self._actions = np.zeros((*shape, *spec.action_shape), kind)
        self._rewards = np.zeros(shape, np.float32)
        self._terminated = np.zeros(shape, np.bool_)
        self._truncated = np.zeros(shape, np.bool_)
        self._valid = np.zeros(shape, np.bool_)
        if behavior == "probabilities":
            self._probabilities = np.zeros((*shape, spec.n_actions), np.float32)
        else:
            self._log_probs = np.zeros(shape, np.float32)
        self._inserted = np.zeros(n_envs, np.int64)
        self._random = np.random.default_rng([seed, capacity])

    @property
    def fill(self) -> Fill:
        held = np.minimum(self._inserted, self._quota)
        return Fill(int(held.sum()), bool((held == self._quota).all()))

    def insert(self, trajectory: Trajectory) -> None:
        """Copy a trajectory in, in place of each environment's oldest one."""
        first, count = trajectory.first_env, trajectory.rewards.shape[1]
        for column, env in enumerate(range(first, first + count)):
            slot = self._inserted[env] % self._quota[env]
            at = slot, slice(None), env
            for name, ring in self._contents():
                ring[at] = getattr(trajectory, name)[:, column]
            self._inserted[env] += 1

    def sample(self, batches: int, batch_size: int) -> Replayed:
        """Draw K batches, each with N trajectories of every environment.

        Each trajectory is drawn independently, uniformly with replacement. The
        environments take turns; those that have inserted nothing are left out.
        ValueError if the replay is empty.
        """
        if not self._inserted.any():
            raise ValueError("The replay is empty: insert a trajectory first.")
        envs = np.tile(np.flatnonzero(self._inserted), batch_size)
        held = np.minimum(self._inserted, self._quota)[envs]
        slots = self._random.integers(held, size=(batches, len(envs)))[:, None]
        drawn = {
            name: ring[slots, np.arange(ring.shape[1])[:, None], envs]
            for name, ring in self._contents()
        }
        return Replayed(**drawn)

    def _contents(self) -> Iterator[tuple[str, Array]]:
        """Yield the name and the ring of each array of a trajectory."""
        rings = self._rings()
        yield from ((n, rings[n]) for n in Replayed._fields if n in rings)
