"""The env actor: steps vectorized environments and returns trajectories."""

import time
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from xagents_ray.actors.environments import EnvStep, make_envs
from xagents_ray.actors.policies import Actions, Policy
from xagents_ray.algorithms import find, resolve
from xagents_ray.config import Config
from xagents_ray.errors import Stopped
from xagents_ray.networks.layout import Layout
from xagents_ray.trajectory import (
    Array,
    BoolArray,
    Episode,
    FloatArray,
    RolloutReport,
    Trajectory,
    Weights,
    stack_frames,
)


@dataclass(frozen=True)
class ActorSetup:
    """What an env actor is made from.

    Attributes:
        agent: name of the algorithm.
        config: of the run.
        layout: of the network that acts.
        seed: of the run; environment i has seed + i.
        first_env: index of its first environment among all of the run.
        n_envs: how many it has.
        env_threads: cores that its environments may use.
    """

    agent: str
    config: Config
    layout: Layout
    seed: int
    first_env: int
    n_envs: int
    env_threads: int


class EnvActor:
    """Steps environments `first_env` to `first_env + n_envs - 1` of the run."""

    def __init__(self, setup: ActorSetup) -> None:
        # One thread for acting: its results don't depend on the machine's load, and
        # the cores are for the environments and the learner.
        threadpool_limits(1, user_api="blas")
        self._setup = setup
        total = setup.config.env.n_envs
        self._env_steps_per_row = total
        self._envs = make_envs(setup.config.env, setup.n_envs, setup.env_threads)
        self.spec = self._envs.spec
        policy = resolve(find(setup.agent).policy)
        self._policy: Policy = policy(setup.config.algorithm, self.spec, setup.layout)
        envs = range(setup.first_env, setup.first_env + setup.n_envs)
        self._noise = [np.random.default_rng([setup.seed, env]) for env in envs]
        self._returns = np.zeros(setup.n_envs)
        self._lengths = np.zeros(setup.n_envs, np.int64)
        self._ended = np.zeros(setup.n_envs, np.bool_)
        self._stopping = False
        self._history: tuple[Array, BoolArray] | None = None

    def ready(self) -> None:
        """Return when the environments are made."""

    def stop(self) -> None:
        """Make a rollout in progress raise Stopped; callable from a signal handler."""
        self._stopping = True

    def close(self) -> None:
        """End the environments."""
        self._envs.close()

    def rollout(
        self, weights: Weights, length: int, env_steps: int
    ) -> tuple[Trajectory, RolloutReport]:
        """Step every environment `length` times.

        Args:
            weights: of the policy, for the whole rollout.
            length: rows of the trajectory.
            env_steps: of the whole run so far; exploration falls with them.
        Returns:
            The trajectory, and what a driver reads of it.
        Raises:
            Stopped: `stop` was called.
        """
        began = time.perf_counter()
        self._policy.load(weights)
        noise = self._policy.noise(self._noise, length)
        before = self._history or self._reset()
        rows = _Rows(before, length, self.spec.is_image)
        episodes: list[Episode] = []
        for t in range(length):
            if self._stopping:
                raise Stopped
            done = env_steps + t * self._env_steps_per_row
            chosen = self._policy.act(rows.input(t), noise[t], done)
            step = self._envs.step(chosen.stepped)
            rows.write(t, chosen, step, resets=self._ended)
            self._count(t, step, episodes)
        last = rows.observations[length:], rows.starts[length:]
        self._history = last[0].copy(), last[1].copy()
        values = self._policy.values(rows.input(length))
        trajectory = rows.trajectory(values, weights.version, self._setup.first_env)
        steps = rows.valid.sum(axis=1, dtype=np.int64)
        seconds = time.perf_counter() - began
        return trajectory, RolloutReport(steps, tuple(episodes), seconds)

    def _reset(self) -> tuple[Array, BoolArray]:
        """Begin the first episodes; return the frames and starts before row 0."""
        setup = self._setup
        first = self._envs.reset(setup.seed + setup.first_env)
        shape = (self.spec.stack, *first.shape)
        observations = np.zeros(shape, self.spec.observation_dtype)
        starts = np.zeros(shape[:2], np.bool_)
        observations[-1], starts[-1] = first, True
        return observations, starts

    def _count(self, row: int, step: EnvStep, episodes: list[Episode]) -> None:
        """Add a step to the games' returns, and report those that ended."""
        self._returns += step.raw_rewards
        self._lengths += ~self._ended
        self._ended = step.ended
        for env in np.flatnonzero(step.ended):
            index = self._setup.first_env + int(env)
            total, length = float(self._returns[env]), int(self._lengths[env])
            episodes.append(Episode(index, row, total, length))
            self._returns[env] = self._lengths[env] = 0


class _Rows:
    """A trajectory being written."""

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
        """Return what the network sees at row t."""
        if not self._is_image:
            row: Array = self.observations[t]
            return row
        window = slice(t, t + self._stack)
        return stack_frames(self.observations[window], self.starts[window])

    def write(self, t: int, chosen: Actions, step: EnvStep, resets: BoolArray) -> None:
        """Write what row t did; `resets` are environments that only reset in it."""
        self.observations[t + self._stack] = step.observations
        self.starts[t + self._stack] = resets
        self._rewards[t] = step.rewards
        self._terminated[t] = step.terminated
        self._truncated[t] = step.truncated
        np.logical_not(resets, out=self.valid[t])
        self._chosen.append(chosen)

    def trajectory(
        self, last_values: FloatArray | None, version: int, first_env: int
    ) -> Trajectory:
        """Return it whole."""
        stored, _, log_probs, values = zip(*self._chosen, strict=True)
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
        )
