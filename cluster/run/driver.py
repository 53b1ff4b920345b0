"""The distributed driver: env actors, replay service and learner as Ray actors."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xagents_ray.actors.envs.registry import export_definitions
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.cluster.ray import connection, tls
from xagents_ray.cluster.ray.calls import RayCalls
from xagents_ray.cluster.run.actor_slot import FinishedRollout
from xagents_ray.cluster.run.evaluator import Evaluations
from xagents_ray.cluster.run.phases import PhaseData, RequestedPhase
from xagents_ray.cluster.run.placement import RunParts
from xagents_ray.cluster.run.preflight import rollout_bytes, store_bytes
from xagents_ray.cluster.run.replay_shards import ReplayShards
from xagents_ray.cluster.run.rollout_scheduler import RolloutScheduler
from xagents_ray.cluster.run.start_actors import start_pool
from xagents_ray.cluster.run.states import fetch_actors, fetch_learner
from xagents_ray.cluster.run.supervised_learner import SupervisedLearner
from xagents_ray.cluster.run.supervision import RaySupervision
from xagents_ray.core.moments import Statistics
from xagents_ray.core.reports import Collected, Evaluated, FailedEvaluation
from xagents_ray.core.signals import Signals
from xagents_ray.core.trajectory import Array, WeightsFile
from xagents_ray.run.checkpoint_facts import actor_states, count_unfinished
from xagents_ray.run.driver import Snapshot
from xagents_ray.storage.checkpoints import Checkpoint

_ENDING_SECONDS = 3.0
_SESSIONS = 2**32
"""Replacements' session numbers are smaller; each new set of env actors adds this."""


class RayDriver:
    """Drives a run whose components are Ray actors, by passing references.

    Args:
        run: the run to drive.
        calls: Ray calls that wait for the actors.
        parts: factory of the actors, which also ends them. If the constructor raises,
            the caller has to end them.
    """

    def __init__(self, run: RunSpec, calls: RayCalls, parts: RunParts) -> None:
        self._run, self._ray = run, calls.ray
        self._config, self._pipeline = run.config.algorithm, run.config.pipeline
        # Seconds for which a pass may continue after a signal; longer with images.
        self._patience = _ENDING_SECONDS * (3 if run.spec.is_image else 1)
        self._calls, self._parts = calls, parts
        self.learns_on_gpu = parts.learns_on_gpu
        replay = self._config.replay
        self._takes_errors = replay is not None and replay.takes_errors
        seconds = run.config.placement.learner_timeout
        self._learner = SupervisedLearner(calls, parts.learner, self._patience, seconds)
        self._session = self._changes = 0
        # First, as a node starts few processes at a time: not behind all env actors.
        self._shards = self._make_shards()
        self._start_actors()
        self.replay_nbytes = self._shards.wait_until_ready() if self._shards else 0
        self._evaluations = Evaluations(calls, parts.evaluator, run)
        self._actors.wait_until_ready()
        self._learner.wait_until_ready()
        self.notes = [*connection.ray_notes(), *parts.notes, *self._learner.notes]
        self.supervision = RaySupervision(
            run.algorithm.name, calls.log, self._fleet, self._learner.snapshot
        )
        self._round: list[FinishedRollout] = []
        self._env_steps, self._is_inserting = 0, False

    @property
    def replay_size(self) -> int | None:
        return None if self._shards is None else self._shards.fill.size

    @property
    def learner_threads(self) -> int:
        """Number of cores that the learner uses on its node."""
        return self._learner.threads

    def collect(self, env_steps: int) -> Collected:
        """Collect rollouts, one per env actor or as they finish; fill the replay."""
        self._env_steps = env_steps
        self._follow_nodes()
        stale: list[FinishedRollout] = []
        self._round = []
        while not self._round:
            for rollout in self._take(env_steps):
                (stale if self._is_stale(rollout) else self._round).append(rollout)
        newest = self._learner.version
        kept, fill, seconds = self._round, None, 0.0
        if self._shards is not None:  # the replay takes rollouts of any age
            kept, stale = [*stale, *self._round], []
            self._is_inserting = True
            self._update_priorities(self._shards)
            fill = self._shards.insert(
                [rollout.trajectory for rollout in kept],
                [rollout.envs for rollout in kept],
            )
            seconds, self._is_inserting = self._shards.seconds, False
        self._calls.log.count("rollouts older than --policy-lag", len(stale))
        reports = [rollout.report for rollout in kept]
        lags = [newest - report.weights_version for report in reports]
        return Collected(reports, fill, lags, seconds, [r.report for r in stale])

    def learn(
        self, batches: int, env_steps: int, statistics: Statistics
    ) -> list[dict[str, float]]:
        """Begin a learning phase; its weights stay in the object store."""
        is_online = self._run.learns_online
        fresh = [rollout.trajectory for rollout in self._round] if is_online else []
        sampled = batches - int(is_online)
        data = PhaseData(
            self._calls, self._shards, fresh, lambda: self._sample(sampled, env_steps)
        )
        phase = RequestedPhase(data, env_steps, statistics, self._takes_errors)
        self._learner.learn(phase)
        ahead = self._pipeline.policy_lag > 0 and not self._pipeline.asynchronous
        if ahead:  # the next rollouts need not wait for the metrics
            self._fleet.launch(self._learner.weights, env_steps)
        return self._learner.finish(leave_pending=int(ahead))

    def drain(self) -> list[dict[str, float]]:
        """Wait for the learning phases in progress."""
        is_gone = self._calls.is_lost or self._learner.is_missing
        return [] if is_gone else self._learner.finish()

    def scale_lr(self, factor: float) -> float:
        """Multiply the learning rates by a factor; return the new one."""
        lr = float(self._learner.call("scale_lr", factor))
        self._learner.state()  # so that a replacement learner has the new rate
        return lr

    def snapshot(self, with_actors: bool) -> Snapshot:
        """Return references to copies of the learner's and the env actors' states."""
        # After an interrupted insertion, the env actors are ahead of the counts.
        is_at_rest = self._pipeline.policy_lag == 0 and not self._is_inserting
        actors = []
        # Without the states of all env actors, a resumed run starts new episodes.
        if with_actors and is_at_rest and self._actors.are_idle:
            actors = [slot.actor.state.remote() for slot in self._actors.live]
        return Snapshot(self._learner.actor.state.remote(), actors)

    def fetch(self, snapshot: Snapshot) -> Snapshot | None:
        """Return a snapshot with its references resolved; None if data is lost."""
        began = time.monotonic()
        learner = fetch_learner(self._calls, snapshot.learner, self._patience)
        if learner is None:
            return None
        return Snapshot(learner, self._states_of(snapshot.actors, began))

    def state(self) -> Snapshot:
        """Return the newest available state of the learner and the env actors."""
        began, snapshot, learner = time.monotonic(), self.snapshot(True), None
        if not self._learner.is_missing:
            learner = fetch_learner(self._calls, snapshot.learner, self._patience)
        if learner is None:
            learner = self._last_state()
        return Snapshot(learner, self._states_of(snapshot.actors, began))

    def _last_state(self) -> dict[str, Array]:
        """Return the learner's state after its newest one could not be fetched."""
        if not self._learner.is_missing:
            if not self._calls.is_ending:
                return self._learner.state()
            if not self._calls.is_lost:
                self._learner.report_loss()  # it died after a signal
        return self._learner.snapshot.arrays

    def _states_of(self, references: Sequence[Any], began: float) -> list[Any]:
        return fetch_actors(self._calls, references, began, self._patience)

    def save_replay(self, directory: Path) -> None:
        if self._shards is not None:
            self._update_priorities(self._shards)
            self._shards.save(directory)

    def restore(self, checkpoint: Checkpoint, session: int) -> int:
        """Continue from a checkpoint; return the number of dropped episodes."""
        self._session = session
        self._learner.restore(checkpoint.arrays)
        if self._shards is not None:
            self._shards.load(checkpoint.path)
        states = actor_states(checkpoint, self._parts.shares.envs)
        if states is None:
            self._actors.restart(session)
            return count_unfinished(checkpoint, self._run.config.env.n_envs)
        return self._actors.restore(states, session)

    def encode(self, snapshot: Snapshot, paths: Sequence[str]) -> list[WeightsFile]:
        """Return a snapshot's models as weights files for the given paths."""
        return self._learner.call("encode", snapshot.learner, paths)

    def evaluate(self, env_steps: int, longest: int) -> bool:
        """Begin an evaluation in a separate env actor, alongside training."""
        self._evaluations.begin(env_steps, self._learner.weights, longest)
        return True

    def evaluations(self, is_last: bool) -> list[Evaluated | FailedEvaluation]:
        """Return evaluations that ended or failed; wait for the last if `is_last`."""
        return self._evaluations.ended(is_last)

    def close(self) -> None:
        """End all actors, and Ray if this run started it."""
        connection.leave_ray(self._ray, self._parts.release)

    def _start_actors(self) -> None:
        """Create the env actors and what requests their rollouts."""
        calls, run, self.shares = self._calls, self._run, self._parts.shares
        self.n_actors = len(self.shares.envs)
        self._actors = start_pool(calls, run.config.placement, self._parts)
        weights, acting = self._learner.available_weights, self._acting_weights
        at_once = run.requests_at_once(self.learns_on_gpu)
        self._fleet = RolloutScheduler(
            calls, run.config, self._actors, weights, acting, self._ping, at_once
        )

    def _follow_nodes(self) -> None:
        """Start the env actors again, in other numbers, if the nodes have changed."""
        placement = self._run.config.placement
        if not (placement.follows_nodes and self._parts.follow_nodes()):
            return
        self._fleet.end()
        self._start_actors()
        self._changes += 1
        self._actors.restart(self._session + _SESSIONS * self._changes)
        self.supervision.fleet = self._fleet
        self._fleet.wait_for_starting()

    def _take(self, env_steps: int) -> list[FinishedRollout]:
        """Return finished rollouts: one per actor, or any if asynchronous."""
        if self._pipeline.asynchronous:
            # Not earlier: the weights change when the learner is restored.
            self._calls.meanwhile = lambda: self._fleet.tend_beside(self._env_steps)
            on_policy = self._run.algorithm.on_policy
            waits = on_policy and not self._config.learns_each_rollout
            return self._fleet.newest(self.n_actors if waits else 1, env_steps)
        self._fleet.launch(self._learner.weights, env_steps)
        return self._fleet.round()

    def _ping(self) -> None:
        self._learner.call("ping")

    def _acting_weights(self) -> Any:
        """Return a reference to ready weights after a learner failed to act with some.

        One that is dead is replaced first, and one that hangs is killed.
        """
        while not self._learner.call("acts"):
            self._calls.log.warn("The learner's process no longer acts; it is ended")
            self._calls.kill(self._learner.actor)
        return self._learner.available_weights()

    def _is_stale(self, rollout: FinishedRollout) -> bool:
        """Return whether a rollout is too old to be learned from directly."""
        lag = self._learner.version - rollout.report.weights_version
        return self._run.learns_online and lag > self._pipeline.policy_lag

    def _sample(self, batches: int, env_steps: int) -> dict[Any, int]:
        """Return references to batches from the replay, with their shards' indices."""
        config = self._config.replay
        if self._shards is None or config is None or not batches:
            return {}
        generator = np.random.default_rng([self._run.seed, env_steps])
        return self._shards.sample(batches, config.buffer_batch_size, generator)

    def _update_priorities(self, shards: ReplayShards) -> None:
        """Update priorities, before a round overwrites what is still to be learned."""
        waits = self._takes_errors or shards.is_pulled
        if waits and (updates := self._learner.priority_updates()):
            shards.update(updates)

    def _make_shards(self) -> ReplayShards | None:
        """Return the replay, which starts; None without a replay."""
        config, on_policy = self._config.replay, self._run.algorithm.on_policy
        if config is None:
            return None
        run, calls, make = self._run, self._calls, self._parts.shard
        count, n_envs = config.replay_shards, run.config.env.n_envs
        size, batch = rollout_bytes(run), run.batch_bytes
        return ReplayShards(calls, count, make, on_policy, size, n_envs, batch)


def start_ray_driver(
    run: RunSpec,
    signals: Signals,
    note: Callable[[str], None],
    has_claim: bool = False,
) -> RayDriver:
    """Start Ray, or join a cluster, and return the driver; see `RunParts`."""
    tls.check_learners(run.config.placement.n_learners)
    definitions = export_definitions(run.config.env)
    signals.on_first = None  # polled instead, because Ray must not be interrupted
    ray = connection.start_ray(run.config.placement, store_bytes(run), signals, note)
    calls = RayCalls(ray, signals, connection.is_lost)
    try:
        parts = RunParts(calls, run, definitions, has_claim)
    except BaseException:
        connection.leave_ray(ray)
        raise
    try:
        return RayDriver(run, calls, parts)
    except BaseException:
        connection.leave_ray(ray, parts.release)  # a Ray of the user may continue
        raise
