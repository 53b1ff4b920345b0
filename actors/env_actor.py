"""The env actor: steps vectorized environments and returns trajectories."""

import operator
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from xagents_ray.actors.envs.definitions import register
from xagents_ray.actors.envs.make import make_envs
from xagents_ray.actors.envs.state import decode, encode
from xagents_ray.actors.envs.vector import EnvStep
from xagents_ray.actors.measuring import Measuring
from xagents_ray.actors.policies import Actions, Policy, forget
from xagents_ray.algorithms.table import find
from xagents_ray.core.errors import Diverged, Stopped, UserError
from xagents_ray.core.resolve import resolve
from xagents_ray.core.trajectory import (
    Array,
    BoolArray,
    Episode,
    FloatArray,
    RolloutReport,
    Trajectory,
    Weights,
    stack_frames,
)
from xagents_ray.networks.layout import Layout
from xagents_ray.settings.config import Config


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
        definitions: of environments, for a process that doesn't know them.
    """

    agent: str
    config: Config
    layout: Layout
    seed: int
    first_env: int
    n_envs: int
    env_threads: int
    definitions: tuple[bytes, ...] = ()


class EnvActor:
    """Steps environments `first_env` to `first_env + n_envs - 1` of the run."""

    def __init__(self, setup: ActorSetup) -> None:
        # One thread for acting: its results don't depend on the machine's load, and
        # the cores are for the environments and the learner.
        threadpool_limits(1, user_api="blas")
        self._setup = setup
        total = setup.config.env.n_envs
        self._env_steps_per_row = total
        register(setup.definitions)
        self._envs = make_envs(setup.config.env, setup.n_envs, setup.env_threads)
        self.spec = self._envs.spec
        policy = resolve(find(setup.agent).policy)
        self._policy: Policy = policy(setup.config.algorithm, self.spec, setup.layout)
        envs = range(setup.first_env, setup.first_env + setup.n_envs)
        self._noise = [np.random.default_rng([setup.seed, env]) for env in envs]
        self._returns = np.zeros(setup.n_envs)
        self._lengths = np.zeros(setup.n_envs, np.int64)
        self._ended = np.zeros(setup.n_envs, np.bool_)
        self._stopping = self._midway = False
        self._history: tuple[Array, BoolArray] | None = None
        self._restarts = 0
        self._measuring = Measuring(setup.config.algorithm, setup.n_envs)

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
            Diverged: a reward is not finite.
            EnvironmentFault: an observation is not, or what an environment of the
                user's returns is not what Gymnasium expects.
        """
        began, computed = time.perf_counter(), time.process_time()
        self._midway = True
        self._policy.load(weights)
        noise = self._policy.noise(self._noise, length)
        before = self._history or self._reset()
        rows = _Rows(before, length, self.spec.is_image)
        episodes: list[Episode] = []
        stepping = acting = 0.0
        for t in range(length):
            if self._stopping:
                raise Stopped
            done = env_steps + t * self._env_steps_per_row
            clock = time.perf_counter()
            chosen = self._policy.act(rows.input(t), noise[t], done)
            chose = time.perf_counter()
            step = self._envs.step(chosen.stepped)
            stepped = time.perf_counter()
            acting += chose - clock
            stepping += stepped - chose
            rows.write(t, chosen, step, resets=self._ended)
            forget(self._policy.memory, self._ended)
            self._count(t, step, episodes)
        last = rows.observations[length:], rows.starts[length:]
        self._history = last[0].copy(), last[1].copy()
        self._midway = False
        rows.check_rewards()
        self._envs.check_finite(rows.observations)
        values = self._policy.values(rows.input(length))
        trajectory = rows.trajectory(values, weights.version, self._setup.first_env)
        statistics = self._measuring.measure(trajectory)
        steps = rows.valid.sum(axis=1, dtype=np.int64)
        seconds = time.perf_counter() - began
        report = RolloutReport(
            steps,
            tuple(episodes),
            seconds,
            statistics,
            weights.version,
            stepping,
            acting,
            resets=rows.valid.size - int(steps.sum()),
            computing=time.process_time() - computed,
        )
        return trajectory, report

    def state(self) -> dict[str, Any]:
        """Return what the next rollouts depend on but for the weights, as JSON.

        After a rollout that was stopped the environments' state is left out: its
        steps are lost.
        """
        known = self._history is not None and not self._midway
        envs = self._envs.state() if known else None
        return {
            "env": str(self._setup.config.env.env),
            "first_env": self._setup.first_env,
            "begun": self._history is not None or self._midway,
            "restarts": self._restarts,
            "unfinished": int(np.count_nonzero(self._lengths)),
            "noise": [generator.bit_generator.state for generator in self._noise],
            "returns": encode(self._returns),
            "lengths": encode(self._lengths),
            "ended": encode(self._ended),
            "discounted": encode(self._measuring.returns),
            "memory": encode(self._policy.memory),
            "envs": envs,
            "history": [encode(x) for x in self._history or ()] if envs else None,
        }

    def restore(self, state: dict[str, Any]) -> int:
        """Go on from the state of such an actor; this one must be new.

        Where the environments' state was not to be had, all begin an episode, with
        other seeds than before.

        Returns:
            How many unfinished episodes were dropped.
        Raises:
            UserError: the state is damaged, or not of these environments.
        """
        try:
            return self._restore(state)
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise UserError(
                f"The state of {self._setup.config.env.env} can't be restored "
                f"({reason}); resume from another checkpoint."
            ) from None

    def restart(self, times: int) -> None:
        """Begin with other episodes than a first start; this one must be new.

        Args:
            times: 1 or more; each number gives other episodes and noise.
        """
        self._restarts = times
        seed, first = self._setup.seed, self._setup.first_env
        envs = range(first, first + self._setup.n_envs)
        self._noise = [np.random.default_rng([seed, env, times]) for env in envs]

    def _restore(self, state: dict[str, Any]) -> int:
        expected = str(self._setup.config.env.env), self._setup.first_env
        found = state["env"], state["first_env"]
        if found != expected:
            raise ValueError(f"expected {expected}, got {found}")
        for generator, saved in zip(self._noise, state["noise"], strict=True):
            generator.bit_generator.state = saved
        self._restarts = operator.index(state["restarts"])
        if self._restarts < 0:
            raise ValueError(f"expected restarts >= 0, got {self._restarts}")
        lengths = decode(state["lengths"], self._lengths)
        if not state["begun"]:
            return 0
        if state["envs"] is None:
            self._restarts += 1
            self._history = self._reset()
            return int(np.count_nonzero(lengths))
        observations, starts = self._reset()
        self._envs.restore(state["envs"])
        frames, firsts = state["history"]
        self._history = decode(frames, observations), decode(firsts, starts)
        self._lengths = lengths
        self._returns = decode(state["returns"], self._returns)
        self._ended = decode(state["ended"], self._ended)
        discounted = decode(state["discounted"], self._measuring.returns)
        self._measuring.returns = discounted
        shape = (self._setup.n_envs, self.spec.action_units)
        like = np.zeros(shape if state["memory"]["base64"] else 0, np.float32)
        self._policy.memory = decode(state["memory"], like)
        return 0

    def _reset(self) -> tuple[Array, BoolArray]:
        """Begin the first episodes; return the frames and starts before row 0."""
        seed = self._setup.seed
        if self._restarts:
            mixed = np.random.SeedSequence([seed, self._restarts]).generate_state(1)
            seed = int(mixed[0] >> 2)  # emulators take 31 bits
        first = self._envs.reset(seed + self._setup.first_env)
        return first_window(first, self.spec.stack)

    def _count(self, row: int, step: EnvStep, episodes: list[Episode]) -> None:
        """Add a step to the games' returns, and report those that ended."""
        ended = count_games(step, self._ended, self._returns, self._lengths)
        self._ended = step.ended
        for env, total, length in ended:
            episodes.append(Episode(self._setup.first_env + env, row, total, length))


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


def count_games(
    step: EnvStep, resets: BoolArray, returns: Array, lengths: Array
) -> list[tuple[int, float, int]]:
    """Add a step to the games being played.

    Args:
        step: of B environments.
        resets: bool [B], environments that only reset in it.
        returns: float64 [B], sums of raw rewards; changed.
        lengths: int64 [B], env steps; changed.
    Returns:
        (env, return, length) of each game that ended.
    """
    returns += step.raw_rewards
    lengths += ~resets
    ended = [
        (int(env), float(returns[env]), int(lengths[env]))
        for env in np.flatnonzero(step.ended)
    ]
    returns[step.ended] = lengths[step.ended] = 0
    return ended


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

    def check_rewards(self) -> None:
        """Raise Diverged when a reward is no finite number."""
        bad = np.argwhere(~np.isfinite(self._rewards))
        if len(bad):
            row, env = bad[0]
            raise Diverged(
                f"The environment gave a reward of {self._rewards[row, env]}: mend it, "
                "or look at what it returns for extreme actions."
            )

    def trajectory(
        self, last_values: FloatArray | None, version: int, first_env: int
    ) -> Trajectory:
        """Return it whole."""
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
