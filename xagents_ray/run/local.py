"""The in-process driver of `--local`, without Ray."""

import functools
import math
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from threading import Timer
from typing import Any, TypeVar

from xagents_ray.actors.envs.goals import GoalRewards, goal_rewards
from xagents_ray.actors.envs.interface import errors_name_line
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.batches import BatchPart, assemble_batch
from xagents_ray.core.env_shares import EnvShares
from xagents_ray.core.errors import Stopped, pluralize
from xagents_ray.core.inference import InferenceLost
from xagents_ray.core.moments import Statistics
from xagents_ray.core.reports import Collected, Evaluated
from xagents_ray.core.signals import GRACE_SECONDS, Signals
from xagents_ray.core.trajectory import (
    Array,
    PhaseOutputs,
    RolloutReport,
    Trajectory,
    Weights,
    WeightsFile,
)
from xagents_ray.replay.base import Replay
from xagents_ray.run.checkpoint_facts import actor_states, count_unfinished
from xagents_ray.run.driver import Snapshot
from xagents_ray.run.learner_access import (
    encode_models,
    load_tensorflow,
    make_learner,
)
from xagents_ray.run.local_actor import make_local_actor
from xagents_ray.run.local_evaluations import LocalEvaluations
from xagents_ray.run.replay_buffer import (
    check_sampled,
    load_replay,
    replay_for,
    save_replay,
)
from xagents_ray.storage.checkpoints import Checkpoint, replay_files
from xagents_ray.watch.hooks import Hooks

_T = TypeVar("_T")

_THREADS_KEPT = (
    "--learner-threads has no effect here: TensorFlow is in use in this process "
    "already, on {}; call the functions of tf.config.threading before its first network"
)
_POLL_SECONDS = 0.1
_SHORT_SECONDS = 0.1
"""Shorter phases may delay a signal: another thread for them would cost 0.2 ms."""


class LocalDriver:
    """One env actor, one learner and one replay as plain objects.

    Unless its phases are short, the learner runs in a separate thread, so that signals
    are handled while TensorFlow is busy. With a policy lag, environments are stepped
    meanwhile. Any failure ends the run. `actor` replaces the default env actor, and
    `hooks` take part in the loop.
    """

    n_actors = 1
    supervision = None

    def __init__(
        self, run: RunSpec, actor: Any = None, hooks: Hooks | None = None
    ) -> None:
        self._run, self._config = run, run.config.algorithm
        self._thread = ThreadPoolExecutor(1, "learner")
        self._is_stopping = self._is_abandoned = False
        tensorflow = load_tensorflow()
        self._learner, self.notes = self._learning(lambda: make_learner(run))
        self.learner_threads = run.busy_cores(threads := tensorflow.threads())
        if run.config.placement.learner_threads and threads != run.learner_threads:
            cores = pluralize(self.learner_threads, "core")
            self.notes.append(_THREADS_KEPT.format(cores))
        self.learns_on_gpu = bool(tensorflow.usable_gpus())
        n_envs = run.config.env.n_envs
        self.shares = EnvShares.of(n_envs, n_actors=1, cores=1)
        self._actor = actor or make_local_actor(run, self._learner, hooks)
        if hooks is not None:
            named = functools.partial(errors_name_line, flag="")
            hooks.attach(self._read, self._load, named)
        self._replay: Replay | None = None
        self._goal_rewards: GoalRewards | None = None
        self.replay_nbytes = 0
        kind, config = run.replay_kind, self._config.replay
        if kind is not None and config is not None:
            self._goal_rewards = goal_rewards(run.config, run.spec)
            self._replay = replay_for(
                kind,
                run.spec,
                config,
                n_envs,
                run.seed,
                goal_rewards=self._goal_rewards,
                noise_units=run.stored_noise_units,
                state_units=run.stored_state_units,
            )
            self.replay_nbytes = self._replay.nbytes
        self._weights: Weights = self._learner.policy_weights(1)
        self._seconds = math.inf  # duration of the last learning phase
        self._lag = run.config.pipeline.policy_lag
        self._asked = -1  # env steps that `collect` was last called with
        self._rounds: deque[tuple[Trajectory, RolloutReport]] = deque()
        self._round: list[BatchPart] = []
        self._finished: list[dict[str, float]] = []
        self._evaluations = LocalEvaluations(run)

    @property
    def replay_size(self) -> int | None:
        return None if self._replay is None else self._replay.fill.size

    @property
    def weights(self) -> Weights:
        """The newest policy weights."""
        return self._weights

    def collect(self, env_steps: int) -> Collected:
        """Step every environment; take the oldest round, and fill the replay."""
        if self._asked < 0 or not self._lag:
            self._asked = env_steps
        self._act(max(self._lag, 1))
        self._asked = env_steps
        trajectory, report = self._rounds.popleft()
        self._round = [trajectory] if self._run.learns_online else []
        lags = [self._weights.version - report.weights_version]
        if self._replay is None:
            return Collected([report], None, lags)
        began = time.perf_counter()
        self._replay.insert(trajectory)
        seconds = time.perf_counter() - began
        return Collected([report], self._replay.fill, lags, seconds)

    def learn(
        self, batches: int, env_steps: int, statistics: Statistics
    ) -> list[dict[str, float]]:
        """Run one learning phase, and use its weights from then on."""
        parts, size = list(self._round), 0
        if sampled := batches - len(parts):
            assert self._replay is not None and self._config.replay is not None
            size = self._config.replay.buffer_batch_size
            with errors_name_line(str(self._run.config.env.env)):
                parts.append(self._replay.sample(sampled, size))
        batch = assemble_batch(parts, size, [self._run.seed, env_steps])

        def learn() -> PhaseOutputs:
            began = time.perf_counter()
            outputs: PhaseOutputs = self._learner.learn(
                batch, env_steps, statistics, self._weights.version + 1
            )
            self._seconds = time.perf_counter() - began
            return outputs

        if self._seconds < _SHORT_SECONDS and not self._lag:
            self._take(learn())
        else:
            ended = self._thread.submit(learn)
            time.sleep(1e-6)  # lets the thread get into TensorFlow first
            try:
                self._act(self._lag)
            finally:
                self._take(self._result(ended))
        return self.drain()

    def _result(self, phase: "Future[PhaseOutputs]") -> PhaseOutputs:
        """Wait for a learning phase; XLA can't be interrupted while it compiles.

        Raises:
            Stopped: the run ends before its first phase has: nothing was learned.
        """
        while self._seconds == math.inf and not wait([phase], _POLL_SECONDS).done:
            if self._is_stopping:
                self._is_abandoned = True
                raise Stopped
        return phase.result()

    def _take(self, outputs: PhaseOutputs) -> None:
        """Take the metrics and weights of a phase; update the replay's priorities."""
        self._weights, update = outputs.weights, outputs.priorities
        self._finished.append({**outputs.metrics, "seconds": self._seconds})
        if self._replay is not None and update is not None:
            self._replay.update(update.rows, update.errors)

    def _act(self, ahead: int) -> None:
        """Collect rollouts until `ahead` of them are waiting."""
        while len(self._rounds) < ahead:
            try:
                with errors_name_line(str(self._run.config.env.env)):
                    rollout = self._actor.rollout(
                        self._weights, self._config.batch_steps, self._asked
                    )
            except InferenceLost:
                self._learner.server.is_working()  # raises the error that ended it
                raise
            self._rounds.append(rollout)

    def drain(self) -> list[dict[str, float]]:
        """Return the metrics of phases whose `learn` call was interrupted."""
        finished, self._finished = self._finished, []
        return finished

    def scale_lr(self, factor: float) -> float:
        """Multiply the learning rates by a factor; return the new one."""
        return float(self._learning(lambda: self._learner.state.scale_lr(factor)))

    def _read(self, models: Sequence[str]) -> dict[str, Array]:
        """Return a copy of the learner's arrays of some models."""
        read = self._learner.state.arrays
        arrays: dict[str, Array] = self._learning(lambda: read(models))
        return arrays

    def _load(self, arrays: Mapping[str, Array]) -> None:
        """Replace some of the learner's arrays, and act with them."""
        self._learning(lambda: self._learner.state.assign(arrays))
        self._weights = self._learner.policy_weights(self._weights.version + 1)

    def snapshot(self, with_actors: bool) -> Snapshot:
        """Copy the state of the learner, and of the env actor on request."""
        learner = self._learning(lambda: self._learner.state.arrays())
        has_actors = with_actors and not self._lag
        return Snapshot(learner, [self._actor.state()] if has_actors else [])

    def state(self) -> Snapshot:
        return self.snapshot(with_actors=True)  # nothing newer is elsewhere

    def fetch(self, snapshot: Snapshot) -> Snapshot:
        return snapshot  # contains no references

    def save_replay(self, directory: Path) -> None:
        if self._replay is not None:
            save_replay(self._replay, directory)

    def restore(self, checkpoint: Checkpoint, session: int) -> int:
        """Resume from a checkpoint; return the number of dropped episodes."""
        self._learning(lambda: self._learner.state.restore(checkpoint.arrays))
        self._weights = self._learner.policy_weights(self._learner.version + 1)
        if self._replay is not None:
            if (shards := len(replay_files(checkpoint.path))) > 1:
                self.notes.append(
                    f"The checkpoint's replay has {shards} shards, and this run one: "
                    "it is filled again"
                )
            else:
                load_replay(self._replay, checkpoint.path)
        states = actor_states(checkpoint, [self._run.config.env.n_envs])
        if states is None:
            self._actor.restart(session)
            return count_unfinished(checkpoint, self._run.config.env.n_envs)
        dropped: int = self._actor.restore(states[0])
        return dropped

    def encode(self, snapshot: Snapshot, paths: Sequence[str]) -> list[WeightsFile]:
        """Return a snapshot's models as weights files with these paths."""
        return self._learning(lambda: encode_models(self._run, snapshot.learner, paths))

    def evaluate(self, env_steps: int, longest: int) -> bool:
        return self._evaluations.evaluate(self._weights, env_steps, longest)

    def evaluations(self, is_last: bool) -> list[Evaluated]:
        return self._evaluations.take()

    def stop(self) -> None:
        """Stop work in progress early."""
        self._is_stopping = True
        self._actor.stop()
        self._learner.stop()
        self._evaluations.stop()

    def close(self) -> None:
        self._thread.shutdown(wait=not self._is_abandoned)
        with ExitStack() as stack:  # closes all, even if one raises
            for each in (self._goal_rewards, self._learner.server):
                if each is not None:
                    stack.callback(each.close)
            stack.callback(self._evaluations.close)
            stack.callback(self._actor.close)

    def _learning(self, work: Callable[[], _T]) -> _T:
        """Return the result of a function, run in the learner's thread.

        Raises:
            Stopped: the learner is busy with a phase that nobody waits for.
        """
        if self._is_abandoned:
            raise Stopped
        return self._thread.submit(work).result()


def start_local_driver(
    run: RunSpec,
    signals: Signals,
    note: Callable[[str], None],
    hooks: Hooks | None = None,
) -> LocalDriver:
    """Return the in-process driver of a run."""
    check_sampled(run)
    if "tensorflow" not in sys.modules:
        note("Loading TensorFlow...")
    driver = LocalDriver(run, hooks=hooks)

    def stop_soon() -> None:
        # A short phase is completed, so that the run can be resumed exactly.
        timer = Timer(GRACE_SECONDS, driver.stop)
        timer.daemon = True
        timer.start()

    signals.on_first = stop_soon
    return driver
