"""The replay buffer of whole trajectories."""

from typing import Any

import numpy as np

from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import (
    ACTION_MASKS,
    FRAME_FIELDS,
    LONGER_FIELDS,
    NETWORK_NOISE,
    ONE_ROW_FIELDS,
    RECURRENT_STATE,
    Array,
    Fill,
    IntArray,
    Replayed,
    Trajectory,
    field_types,
    map_array,
    paired_arrays,
    required_fields,
)
from xagents_ray.replay.base import Replay, empty_rings, env_quotas, named_rings


class TrajectoryReplay(Replay):
    """Holds the newest trajectories of every environment, sampled uniformly.

    Each environment has its own ring, so env actors insert independently. Slot `p %
    quota` holds the p-th trajectory of its environment: each frame once, including the
    earlier frames of the first stacks.

    Args:
        spec: spec of the environments.
        capacity: maximum number of trajectories, all environments together.
        n_envs: number of environments that insert; at most the capacity.
        longest: number of rows of each trajectory.
        seed: seed of the sampling.
        behavior: stored field of the behavior policy: `probabilities`, for discrete
            actions, or `log_probs`; None stores neither.
        noise_units: size of each trajectory's noise on the acting network's weights; 0
            if it has none.
        state_units: size of the state of its recurrent layers; 0 if it has none.
    """

    def __init__(
        self,
        spec: EnvSpec,
        capacity: int,
        n_envs: int,
        longest: int,
        seed: int,
        behavior: str | None = "probabilities",
        noise_units: int = 0,
        state_units: int = 0,
    ) -> None:
        self._quota = env_quotas(capacity, n_envs)
        # Time-major within a slot, like trajectories and samples.
        self._stored: dict[str, Any] = {}
        types = field_types(spec, noise_units, state_units)
        slots = int(self._quota[0])
        names = [*required_fields(Trajectory)]
        names += [] if behavior is None else [behavior]
        names += [ACTION_MASKS] * spec.has_action_masks
        names += [NETWORK_NOISE] * bool(noise_units)
        for name in names + [RECURRENT_STATE] * bool(state_units):
            more = spec.stack if name in FRAME_FIELDS else name in LONGER_FIELDS
            rows = 1 if name in ONE_ROW_FIELDS else more + longest
            self._stored[name] = empty_rings(types[name], (slots, rows, n_envs))
        self._observations = self._stored["observations"]
        self._inserted = np.zeros(n_envs, np.int64)
        self._random = np.random.default_rng([seed, capacity])

    @property
    def fill(self) -> Fill:
        held = np.minimum(self._inserted, self._quota)
        return Fill(int(held.sum()), bool((held == self._quota).all()))

    def insert(self, trajectory: Trajectory) -> None:
        """Copy a trajectory in, overwriting each environment's oldest one when full."""
        first, count = trajectory.first_env, trajectory.rewards.shape[1]
        for column, env in enumerate(range(first, first + count)):
            slot = self._inserted[env] % self._quota[env]
            at = slot, slice(None), env
            for name, rings in self._stored.items():
                for ring, new in paired_arrays(rings, getattr(trajectory, name)):
                    ring[at] = new[:, column]
            self._inserted[env] += 1

    def sample(self, batches: int, batch_size: int) -> Replayed:
        """Draw K batches, each with N trajectories of every environment.

        Each environment's trajectories are drawn independently and uniformly, with
        replacement. Environments without a trajectory are left out. ValueError if the
        replay is empty.
        """
        if not self._inserted.any():
            raise ValueError("The replay is empty: insert a trajectory first.")
        envs = np.tile(np.flatnonzero(self._inserted), batch_size)
        held = np.minimum(self._inserted, self._quota)[envs]
        slots = self._random.integers(held, size=(batches, len(envs)))
        return self._at(slots, envs)

    def _at(self, slots: IntArray, envs: IntArray) -> Replayed:
        """Return batches of trajectories, given slots [K, N] and environments."""

        def drawn(ring: Array) -> Array:
            rows = np.arange(ring.shape[1])[:, None]
            return ring[slots[:, None], rows, envs[..., None, :]]

        fields: dict[str, Any] = {
            name: map_array(drawn, rings) for name, rings in self._stored.items()
        }
        return Replayed(**fields)

    def _rings(self) -> dict[str, Array]:
        # In the order of existing checkpoint files.
        stored: dict[str, Array] = {}
        for name, rings in self._stored.items():
            stored |= named_rings(name, rings)
        return {"quota": self._quota, **stored, **super()._rings()}
