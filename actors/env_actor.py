"""The env actor: steps vectorized environments and returns trajectories."""

import operator
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from xagents_ray.actors.actor_setup import ActorSetup
from xagents_ray.actors.envs.env_state import (
    decode_array,
    decode_arrays,
    encode_array,
    encode_arrays,
)
from xagents_ray.actors.envs.vector import Change
from xagents_ray.actors.policies.base import noise_generators
from xagents_ray.actors.policies.saved_state import encode_memory, restore_memory
from xagents_ray.actors.rollout import (
    EpisodeCounter,
    FrameWindow,
    RolloutMoments,
    TrajectoryWriter,
    first_window,
)
from xagents_ray.algorithms.run_spec import seed_after
from xagents_ray.core.errors import Stopped, UserError, one_line
from xagents_ray.core.trajectory import (
    Array,
    Episode,
    RolloutReport,
    Trajectory,
    Weights,
)


class EnvActor:
    """Steps environments `first_env` to `first_env + n_envs - 1` of the run."""

    def __init__(self, setup: ActorSetup) -> None:
        # Act on one thread: results then don't depend on the machine's load, and the
        # other cores are free for the environments and the learner.
        threadpool_limits(1, user_api="blas")
        self._setup = setup
        self._envs = setup.make_envs()
        self.spec = self._envs.spec
        self._coder = self._envs.read_info(setup.info)
        self._policy = setup.make_policy(self.spec)
        self._policy.places = setup.places
        self._noise = noise_generators(setup.seed, setup.first_env, setup.n_envs)
        self._counter = EpisodeCounter(setup.n_envs, setup.first_env)
        self._stopping = self._midway = False
        self._window: FrameWindow | None = None
        self._restarts = 0
        self._version = -1  # of the weights whose statistics the wrappers have
        algorithm = setup.config.algorithm
        self._moments = RolloutMoments(algorithm, self.spec, setup.n_envs)

    def ready(self) -> None:
        """Do nothing; a call that returns shows that the environments exist."""

    def change_observations(self, change: Change) -> None:
        """Pass observations through a function from now on; see `Envs.change`."""
        self._envs.change = change

    def while_acting(self, function: Callable[[], None]) -> None:
        """Call a function whenever the learner's process computes actions."""
        if self._policy.served is not None:
            self._policy.served.while_waiting = function

    def stop(self) -> None:
        """Make a rollout in progress raise Stopped; callable from a signal handler."""
        self._stopping = True

    def close(self) -> None:
        self._envs.close()
        if self._policy.served is not None:
            self._policy.served.close()

    def rollout(
        self, weights: Weights, length: int, env_steps: int
    ) -> tuple[Trajectory, RolloutReport]:
        """Step every environment `length` times; return a trajectory and its report.

        Exploration decays with the env steps of the whole run.

        Raises:
            Stopped: `stop` was called.
            Diverged: a reward is not finite.
            InferenceLost: the server that acts is lost; rollouts may follow.
            EnvironmentFault: an observation is not finite, or a user-defined
                environment breaks Gymnasium's interface.
        """
        began, computed = time.perf_counter(), time.process_time()
        self._policy.load(weights)
        self._midway = True
        if weights.version != self._version:
            self._envs.statistics.load(weights.arrays)
            self._version = weights.version
        self._policy.begin_rollout(self._noise)
        noise = self._policy.noise(self._noise, length)
        before = self._window or self._reset()
        masks, state = self._envs.action_masks, self._policy.recurrent_state
        image = self.spec.is_image
        rows = TrajectoryWriter(before, length, image, self._coder, masks, state)
        episodes, acting, stepping = self._step(rows, noise, env_steps)
        self._midway = False
        rows.check_rewards()
        self._envs.check_finite(rows.observations)
        first, version = self._setup.first_env, weights.version
        trajectory = rows.trajectory(self._policy, noise, version, first)
        steps = trajectory.valid.sum(axis=1, dtype=np.int64)
        report = RolloutReport(
            steps,
            tuple(episodes),
            statistics=self._moments.update(trajectory) | self._envs.statistics.take(),
            weights_version=weights.version,
            stepping=stepping,
            acting=acting,
            resets=trajectory.valid.size - int(steps.sum()),
            computing=time.process_time() - computed,
            seconds=time.perf_counter() - began,
        )
        return trajectory, report

    def _step(
        self, rows: TrajectoryWriter, noise: Array, env_steps: int
    ) -> tuple[list[Episode], float, float]:
        """Fill all rows; return ended episodes, and seconds of acting and stepping."""
        episodes: list[Episode] = []
        acting = stepping = 0.0
        env_steps_per_row = self._setup.config.env.n_envs
        try:
            for t, drawn in enumerate(noise):
                if self._stopping:
                    raise Stopped
                done = env_steps + t * env_steps_per_row
                clock = time.perf_counter()
                self._policy.action_masks = rows.action_masks(t)
                chosen = self._policy.act(rows.input(t), drawn, done)
                chose = time.perf_counter()
                step = self._envs.step(chosen.stepped)
                acting += chose - clock
                stepping += time.perf_counter() - chose
                rows.write(t, chosen, step, resets=self._counter.ended)
                self._policy.reset_memory(self._counter.ended)
                episodes += self._counter.add(t, step)
        finally:  # after InferenceLost, the next rollout continues from here
            self._window = rows.last_window()
        return episodes, acting, stepping

    def state(self) -> dict[str, Any]:
        """Return the state that later rollouts depend on, except weights, as JSON.

        The environments' state is omitted after a stopped rollout, whose steps are
        lost.
        """
        known = self._window is not None and not self._midway
        envs = self._envs.state() if known else None
        return {
            "env": str(self._setup.config.env.env),
            "first_env": self._setup.first_env,
            "begun": self._window is not None or self._midway,
            "restarts": self._restarts,
            "unfinished": int(np.count_nonzero(self._counter.lengths)),
            "noise": [generator.bit_generator.state for generator in self._noise],
            "returns": encode_array(self._counter.returns),
            "lengths": encode_array(self._counter.lengths),
            "ended": encode_array(self._counter.ended),
            "discounted": encode_array(self._moments.returns),
            **encode_memory(self._policy),
            "envs": envs,
            "history": [encode_arrays(x) for x in self._window or ()] if envs else None,
        }

    def restore(self, state: dict[str, Any]) -> int:
        """Resume from the state of another actor, before the first rollout.

        If the environments' state is missing, all begin new episodes with new seeds.

        Returns:
            The number of unfinished episodes that were dropped.
        Raises:
            UserError: the state is damaged, or belongs to other environments.
        """
        try:
            return self._restore(state)
        except Exception as error:
            raise UserError(
                f"The state of {self._setup.config.env.env} can't be restored "
                f"({one_line(error)}); resume from another checkpoint."
            ) from None

    def restart(self, times: int) -> None:
        """Derive the first episodes and the noise from the restart count, 1 or more.

        Call it before the first rollout.
        """
        self._restarts = times
        setup = self._setup
        self._noise = noise_generators(setup.seed, setup.first_env, setup.n_envs, times)

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
        lengths = decode_array(state["lengths"], self._counter.lengths)
        if not state["begun"]:
            return 0
        if state["envs"] is None:
            self._restarts += 1
            if not self._envs.statistics.shapes:  # else they come with the weights
                self._window = self._reset()
            return int(np.count_nonzero(lengths))
        observations, starts = self._reset()
        self._envs.statistics.take()  # the checkpoint has what was measured
        self._envs.restore(state["envs"])
        frames, firsts = state["history"]
        self._window = decode_arrays(frames, observations), decode_array(firsts, starts)
        self._counter.lengths = lengths
        self._counter.returns = decode_array(state["returns"], self._counter.returns)
        self._counter.ended = decode_array(state["ended"], self._counter.ended)
        self._moments.returns = decode_array(state["discounted"], self._moments.returns)
        restore_memory(self._policy, state, self._setup.n_envs)
        return 0

    def _reset(self) -> FrameWindow:
        """Begin the first episodes; return frames and episode starts before row 0."""
        seed = seed_after(self._restarts, self._setup.seed)
        first = self._envs.reset(seed + self._setup.first_env)
        return first_window(first, self.spec.stack)
