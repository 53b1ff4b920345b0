"""An agent that acts, observes and learns within the user's own loop."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from xagents_ray.actors.actor_setup import ActorSetup
from xagents_ray.actors.envs.step_info import InfoCoder, of_one_env
from xagents_ray.actors.envs.vector import EnvStep, learning_rewards
from xagents_ray.actors.policies.base import Actions, noise_generators
from xagents_ray.actors.rollout import (
    FrameWindow,
    RolloutMoments,
    TrajectoryWriter,
    first_window,
)
from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.errors import UserError, check_finite
from xagents_ray.core.moments import Statistics, merge_all
from xagents_ray.core.python_calls import python_call
from xagents_ray.core.trajectory import (
    BoolArray,
    FloatArray,
    Observations,
    paired_arrays,
)
from xagents_ray.policy.conversion import Conversion
from xagents_ray.policy.loading import LoadedPolicy
from xagents_ray.policy.own_rollouts import FinishedRollouts
from xagents_ray.policy.policy import Policy
from xagents_ray.run.local import LocalDriver
from xagents_ray.run.prepare import prepare_run
from xagents_ray.run.request import Request
from xagents_ray.run.run_state import UpdateSchedule
from xagents_ray.settings.config import Config, train_options
from xagents_ray.settings.options import options, plain_values
from xagents_ray.settings.training import EnvConfig


class Agent:
    """An agent for your own loop, in this process: act, step, observe, learn.

    Your loop steps the environments. Pass what they return unchanged: the agent stacks
    frames, and its actions have the bounds and the type of the action space. NumPy uses
    the BLAS threads of your process; limiting them in each call, as `Policy.predict`
    does, takes 20 microseconds.

    Args:
        agent: name of the algorithm, such as `dqn`.
        settings: settings of `train` for the environments, the algorithm and the
            learner, and `seed`, `weights` and `preset`. `env` determines the spaces.
            With `n_envs` above 1, which a preset may set too, observations, rewards and
            ends are batches, and an environment whose episode has ended only resets in
            its next step, as in Gymnasium's vector environments. `max_steps` is only
            for schedules such as `lr_decay`; it doesn't end anything.
    Attributes:
        env_steps: env steps of the rollouts that were learned from or stored.
    Raises:
        UserError: a setting is invalid or only for runs; the message says what to do.

    >>> import gymnasium as gym
    >>> agent = xagents_ray.Agent("dqn", env="CartPole-v1", seed=1)
    >>> env = gym.make("CartPole-v1")
    >>> observation, info = env.reset(seed=1)
    >>> for _ in range(100):
    ...     action = agent.act(observation)
    ...     observation, reward, terminated, truncated, info = env.step(action)
    ...     agent.observe(observation, reward, terminated, truncated)
    ...     metrics = agent.learn()
    ...     if terminated or truncated:
    ...         observation, info = env.reset()
    """

    @python_call()
    def __init__(self, agent: str, **settings: Any) -> None:
        algorithm = find_algorithm(agent)
        config = _config(algorithm, settings)
        self._run = run = prepare_run(algorithm, config)
        self._config, self._n_envs = config.algorithm, config.env.n_envs
        self._conversion = Conversion.of(run.config.env, run.spec)
        setup = ActorSetup.of(run, self._n_envs)
        self._policy = setup.make_policy(run.spec)
        self._policy.places = setup.places
        self._generators = noise_generators(run.seed, 0, self._n_envs)
        self._moments = RolloutMoments(self._config, run.spec, self._n_envs)
        self._finished = FinishedRollouts()
        self._driver = LocalDriver(run, self._finished)
        self._schedule, self._statistics = UpdateSchedule(run), Statistics()
        # Environments whose episodes have ended; they only reset in the next row.
        self._ended = np.zeros(self._n_envs, np.bool_)
        self._coder = None
        if run.spec.info:
            self._coder = InfoCoder(run.spec.info, str(run.config.env.env))
        self._mask_reader = self._conversion.mask_reader
        self._masks: BoolArray | None = None  # of the newest observations
        self._rows: TrajectoryWriter | None = None
        self._chosen: Actions | None = None
        self._state: FloatArray | None = None  # recurrent state before `_chosen`
        self._metrics: dict[str, float] = {}  # of a learning phase within `act`
        self.env_steps = 0

    def act(self, observation: Any, action_masks: Any = None) -> Any:
        """Choose an action, with the exploration of training.

        If a new episode's first observation completes a rollout, this learns first, and
        the next `learn` returns the metrics.

        Args:
            observation: an observation, or a batch [B, ...] of `n_envs` environments.
            action_masks: the actions that are allowed, 0 or 1 [action_units], or a
                batch; needed for the first observation of an episode if the environment
                gives masks.
        Returns:
            An action in the environment's space, or a batch of them.
        Raises:
            UserError: the observation has another shape, or isn't the one that was
                observed last in an unfinished episode.
            Diverged: a loss or a gradient is not finite.
        """
        frames, is_single = self._conversion.frames(observation, self._n_envs)
        self._conversion.check_masks(action_masks)
        if self._rows is None:
            self._masks = self._allowed(action_masks, {}, self._ended)
            self._begin(first_window(frames, self._run.spec.stack))
        elif is_single and self._ended[0]:
            self._choose()
            nothing, none_ended = np.zeros(1), np.zeros(1, np.bool_)
            self._masks = self._allowed(action_masks, {}, none_ended)
            self._write(frames, nothing, nothing, nothing, {})
            if self._row == 0:  # a rollout ended; the next one acts with new weights
                self._metrics = self.learn()
        else:
            self._check_follows(frames)
        actions = self._conversion.actions(self._choose().stepped)
        return actions[0] if is_single else actions

    def observe(
        self,
        observation: Any,
        reward: Any,
        terminated: Any,
        truncated: Any,
        info: Mapping[Any, Any] | None = None,
        action_masks: Any = None,
    ) -> None:
        """Record the results of the environment's step with the action of `act`.

        Args:
            observation: the next observation; at an end, the episode's last one.
            reward: the environment's unscaled reward; a number, or [B].
            terminated: whether the episode ended by itself; a bool, or [B].
            truncated: whether the episode was cut off; a bool, or [B].
            info: the info of the environment or vector environment; required only with
                `her`, if `compute_reward` reads it, and for the key `action_mask`.
            action_masks: the actions that are allowed next, if the info has no masks.
        Raises:
            UserError: an observation has another shape, `act` wasn't called, or the
                info or a mask is needed.
            Diverged: a reward is not finite.
        """
        if self._chosen is None:
            raise UserError("observe takes what followed an action: call act before.")
        if info is None and self._coder is not None:
            raise UserError(
                "--her computes rewards from the info of each step: call observe with "
                "info=info too."
            )
        self._conversion.check_masks(action_masks)
        infos = info or {}
        if self._n_envs == 1 and np.ndim(terminated) == 0:
            infos = of_one_env(infos)
        frames = self._conversion.frames(observation, self._n_envs)[0]
        ended = np.logical_or(terminated, truncated).reshape(-1).astype(np.bool_)
        self._masks = self._allowed(action_masks, infos, ended)
        self._write(frames, reward, terminated, truncated, infos)

    def learn(self) -> dict[str, float]:
        """Learn if enough steps were observed.

        Call it after each step; most calls do nothing.

        Returns:
            The metrics of the learning phase by name; empty without one.
        Raises:
            Diverged: a loss or a gradient is not finite.
        """
        metrics, self._metrics = self._metrics, {}
        with python_call():
            while self._finished.rollouts:
                before, report = self.env_steps, self._finished.rollouts[0][1]
                self.env_steps += int(report.steps.sum())
                self._statistics = merge_all(self._statistics, report.statistics)
                fill = self._driver.collect(self.env_steps).replay
                if batches := self._schedule.batches(before, self.env_steps, fill):
                    (metrics,) = self._driver.learn(
                        batches, self.env_steps, self._statistics
                    )
                    self._statistics = {}
                    check_finite(metrics, self.env_steps)
        return metrics

    @property
    def policy(self) -> Policy:
        """The current policy, for prediction, evaluation, saving or export."""
        return Policy(LoadedPolicy(self._run, self._driver.weights, "an agent"))

    def close(self) -> None:
        """End the learner's thread."""
        self._driver.close()

    def _check_follows(self, frames: Observations) -> None:
        """Raise UserError unless an unfinished episode's frame was observed last."""
        assert self._rows is not None
        row, goes_on = self._row + self._run.spec.stack - 1, ~self._ended
        pairs = paired_arrays(self._rows.observations, frames)
        given = [(rows[row, goes_on], new[goes_on]) for rows, new in pairs]
        if not all(np.array_equal(*each, equal_nan=True) for each in given):
            raise UserError(
                "act was given an observation that doesn't follow the last one: call "
                "observe after every step, with truncated=True for the last step "
                "before you reset."
            )

    def _allowed(
        self, masks: Any, infos: Mapping[Any, Any], ended: BoolArray
    ) -> BoolArray | None:
        """Return the masks of new observations, bool [B, action_units], or None."""
        if self._mask_reader is None:
            return None
        if masks is not None:
            return self._mask_reader.given(masks, ended)
        return self._mask_reader.read(infos, ended)

    def _begin(self, before: FrameWindow) -> None:
        """Begin a rollout, given the frames and episode starts that precede it."""
        length = self._config.batch_steps
        self._policy.begin_rollout(self._generators)
        self._rows = TrajectoryWriter(
            before,
            length,
            self._run.spec.is_image,
            self._coder,
            self._masks,
            self._policy.recurrent_state,
        )
        self._noise = self._policy.noise(self._generators, length)
        self._row = 0

    def _choose(self) -> Actions:
        assert self._rows is not None
        if self._row == 0:  # weights only change between rollouts, as in a run
            self._policy.load(self._driver.weights)
            self._version = self._driver.weights.version
        seen, noise = self._rows.input(self._row), self._noise[self._row]
        self._policy.action_masks = self._rows.action_masks(self._row)
        done = self.env_steps + self._row * self._n_envs
        if self._chosen is None:
            self._state = self._policy.recurrent_state
        self._policy.recurrent_state = self._state  # also if act is called again
        self._chosen = self._policy.act(seen, noise, done)
        return self._chosen

    def _write(
        self,
        frames: Observations,
        reward: Any,
        terminated: Any,
        truncated: Any,
        infos: Mapping[Any, Any],
    ) -> None:
        """Write a row; finish the rollout if it is the last one."""
        assert self._rows is not None and self._chosen is not None
        raw = np.asarray(reward, np.float64).reshape(self._n_envs)
        over, cut = (
            np.reshape(x, -1).astype(np.bool_) for x in (terminated, truncated)
        )
        learned = learning_rewards(raw, self._run.config.env.preprocess)
        step = EnvStep(
            frames, learned, raw, over, cut, over | cut, None, infos, self._masks
        )
        self._rows.write(self._row, self._chosen, step, self._ended)
        self._policy.reset_memory(self._ended)
        self._ended, self._chosen = step.ended, None
        self._row += 1
        if self._row == len(self._noise):
            self._rows.check_rewards()
            written = self._rows.trajectory(self._policy, self._noise, self._version, 0)
            self._finished.add(written, self._moments.update(written))
            self._begin(self._rows.last_window())


def _config(algorithm: Algorithm, settings: Mapping[str, Any]) -> Config:
    """Return an agent's config: the settings, and the applicable ones of the preset.

    Raises:
        UserError: a setting is invalid or only for runs.
    """
    known = train_options(algorithm.config)
    own = {each.name for each in (*options(EnvConfig), *options(algorithm.config))}
    own |= {each.name for each in known if each.own_loop}
    of_runs = [each for each in known if each.needs_ray or each.name not in own]
    given = plain_values(known, settings)
    for each in of_runs:
        value = given.get(each.name)
        asks = value is not None and value is not False
        if asks and value != each.default:
            raise UserError(
                f"{each.flag} is for runs and does nothing in a loop of your own: "
                "leave it out, or use train."
            )
    left_out = [each.name for each in of_runs]
    own_process = {**given, "local": True}
    return Request.of(algorithm, own_process, needs_end=False, left_out=left_out).config
