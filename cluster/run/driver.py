"""The distributed driver: env actors, replay service and learner as Ray actors."""

import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xagents_ray.actors.env_actor import ActorSetup, EnvActor
from xagents_ray.actors.envs.definitions import export
from xagents_ray.cluster.ray import connection
from xagents_ray.cluster.ray.calls import Calls, LateError
from xagents_ray.cluster.ray.failures import FailureLog
from xagents_ray.cluster.run.env_actors import EnvActors
from xagents_ray.cluster.run.evaluator import Evaluations
from xagents_ray.cluster.run.fleet import Fleet
from xagents_ray.cluster.run.learner import Phase, SupervisedLearner
from xagents_ray.cluster.run.metrics import Metrics
from xagents_ray.cluster.run.object_store import rollout_bytes, store_bytes
from xagents_ray.cluster.run.placement import Placement
from xagents_ray.cluster.run.replay import Shards
from xagents_ray.cluster.run.services import LearnerService, ReplayService
from xagents_ray.cluster.run.slots import Rollout
from xagents_ray.core.errors import Broken, Stopped
from xagents_ray.core.moments import Statistics
from xagents_ray.core.signals import Signals
from xagents_ray.run.driver import Collected, Run, Snapshot
from xagents_ray.run.resume import actor_states, unfinished
from xagents_ray.storage.checkpoints import Checkpoint
from xagents_ray.storage.weights import WeightsFile

_ENDING_SECONDS = 3.0
_STATE_SECONDS = 60.0


class RayDriver:
    """The parts of a run as Ray actors; the driver moves references only."""

    def __init__(
        self, run: Run, ray: Any, signals: Signals, definitions: tuple[bytes, ...]
    ) -> None:
        self._run, self._ray = run, ray
        self._config, self._pipeline = run.config.algorithm, run.config.pipeline
        self._definitions = definitions
        self._calls = Calls(ray, signals, connection.is_lost)
        self._log = FailureLog()
        self._placement = Placement(self._calls, run.config)
        self.n_actors, n_envs = self._placement.n_actors, run.config.env.n_envs
        self._bounds = np.linspace(0, n_envs, self.n_actors + 1).astype(int).tolist()
        shares = [end - first for first, end in itertools.pairwise(self._bounds)]
        self._made: set[int] = set()
        calls, log, make = self._calls, self._log, self._make_actor
        self._learner = SupervisedLearner(
            calls, log, self._make_learner, self._patience
        )
        restarts = run.config.placement.max_actor_restarts
        self._actors = EnvActors(calls, log, shares, make, restarts)
        weights = self._learner.available_weights
        self._fleet = Fleet(calls, log, run.config, self._actors, weights)
        self._shards = self._make_shards()
        self._evaluations = Evaluations(calls, log, self._make_evaluator, run)
        self._actors.wait_until_ready()
        self._learner.wait_until_ready()
        self.replay_nbytes = self._shards.nbytes if self._shards else 0
        self.notes: list[str] = [*connection.notes(), *self._learner.notes]
        self._metrics = Metrics(run.algorithm.name)
        self._round: list[Rollout] = []
        self._env_steps = 0
        if self._pipeline.asynchronous:
            self._calls.others = self._fleet.heads
            self._calls.meanwhile = lambda: self._fleet.tend(self._env_steps)

    @property
    def learner_threads(self) -> int:
        """Cores that the learner uses on its node."""
        return self._learner.threads

    @property
    def losses(self) -> Counter[str]:
        """What failures and the bound on lag have cost, by name."""
        return self._log.counts

    def news(self) -> list[str]:
        """Return what has failed since the last time, one sentence each."""
        return self._log.take_warnings()

    def publish(self, numbers: Mapping[str, float]) -> None:
        """Set Ray's gauges, the weights version of each env actor too."""
        self._metrics.publish(numbers, self._fleet.versions)

    def collect(self, env_steps: int) -> Collected:
        """Take rollouts: of every env actor, or free ones; fill the replay."""
        self._env_steps = env_steps
        stale: list[Rollout] = []
        self._round = []
        while not self._round:
            for rollout in self._take(env_steps):
                (stale if self._is_stale(rollout) else self._round).append(rollout)
        kept = self._round
        if self._shards is not None:  # the replay takes rollouts of any age
            kept, stale = [*stale, *self._round], []
        self._log.count("rollouts older than --policy-lag", len(stale))
        reports = [rollout.report for rollout in kept]
        newest = self._learner.version
        lags = [newest - report.weights_version for report in reports]
        fill, seconds = None, 0.0
        if self._shards is not None:
            before = self._shards.seconds
            fill = self._shards.insert([rollout.trajectory for rollout in kept])
            seconds = self._shards.seconds - before
        return Collected(reports, fill, lags, seconds, [r.report for r in stale])

    def learn(
        self, batches: int, env_steps: int, statistics: Statistics
    ) -> list[dict[str, float]]:
        """Begin a learning phase; its weights stay in the object store."""
        trajectories = [rollout.trajectory for rollout in self._round]
        drawn: dict[Any, int] = {}
        is_repeated = False

        def batch() -> list[Any]:
            nonlocal drawn, is_repeated
            fresh = trajectories if self._run.algorithm.on_policy else []
            if is_repeated:
                fresh = [t for t in fresh if not self._calls.failed(t)]
                if self._shards is not None:
                    self._shards.insert([])  # replaces those that died
                if self._run.algorithm.on_policy and not fresh:
                    return []
            is_repeated = True
            sampled = batches - int(self._run.algorithm.on_policy)
            drawn = self._sample(sampled, env_steps)
            return [*fresh, *drawn]

        def end_late(missing: Sequence[Any]) -> None:
            for reference in missing:
                if self._shards is not None and reference in drawn:
                    self._shards.replace(drawn.pop(reference), "hangs")

        self._learner.learn(Phase(batch, env_steps, statistics, end_late))
        ahead = self._pipeline.policy_lag > 0 and not self._pipeline.asynchronous
        if ahead:  # the next rollouts need not wait until this driver has the metrics
            self._fleet.launch(self._learner.weights, env_steps)
        return self._learner.finish(but=int(ahead))

    def drain(self) -> list[dict[str, float]]:
        """Wait for the learning phases that are in progress."""
        return [] if self._calls.is_lost else self._learner.finish()

    def scale_lr(self, factor: float) -> float:
        """Multiply the learning rates; return the new one."""
        lr = float(self._learner.call("scale_lr", factor))
        self._learner.state()  # a learner that comes back must know of it
        return lr

    def snapshot(self) -> Snapshot:
        """Refer to copies of the state of the learner and the env actors."""
        actors = []
        # Without those of all env actors, all begin other episodes when it is resumed.
        if self._pipeline.policy_lag == 0 and self._actors.is_complete:
            actors = [actor.state.remote() for actor in self._actors.handles]
        return Snapshot(self._learner.actor.state.remote(), actors)

    def fetch(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot's arrays in place of references."""
        error, began = self._ray.exceptions.RayError, time.monotonic()
        get, patience = self._calls.get, self._patience
        if self._calls.is_lost:
            self._calls.begin_saving()
        try:
            learner = get(snapshot.learner, _STATE_SECONDS, patience)
        except (error, LateError):
            ending = self._calls.is_ending
            learner = self._learner.held if ending else self._learner.state()
        except Stopped:
            if not self._calls.is_lost:
                raise
            learner = self._learner.held
        except Broken:
            if not self._calls.is_saving:
                raise
            learner = self._learner.held
        actors = []
        for each in snapshot.actors:
            waited = time.monotonic() - began
            # One without its state begins anew when the run is resumed.
            with contextlib.suppress(error, LateError, Broken, Stopped):
                left = _STATE_SECONDS - waited
                actors.append(get(each, left, patience - waited))
        return Snapshot(learner, actors)

    def save_replay(self, directory: Path) -> None:
        """Let the replay write its files there."""
        if self._shards is not None:
            self._shards.save(directory)

    def restore(self, checkpoint: Checkpoint, session: int) -> int:
        """Go on from a checkpoint; return how many unfinished games it dropped."""
        self._learner.restore(checkpoint.arrays)
        if self._shards is not None:
            self._shards.load(checkpoint.path)
        shares = [end - first for first, end in itertools.pairwise(self._bounds)]
        states = actor_states(checkpoint, shares)
        if states is None:
            self._actors.restart(session)
            return unfinished(checkpoint, self._run.config.env.n_envs)
        return self._actors.restore(states, session)

    def encode(self, snapshot: Snapshot, paths: Sequence[str]) -> list[WeightsFile]:
        """Return a snapshot's models as weights files with these paths."""
        files: list[WeightsFile]
        files = self._learner.call("encode", snapshot.learner, paths)
        return files

    def evaluate(self, env_steps: int) -> bool:
        """Begin an evaluation in an env actor of its own, beside training."""
        return self._evaluations.begin(env_steps, self._learner.weights)

    def evaluations(self, is_last: bool) -> list[tuple[int, float]]:
        """Return (env step, mean return) of those that ended; wait for the last."""
        return self._evaluations.ended(is_last)

    def close(self) -> None:
        """End every part, and Ray where this run started it."""
        connection.disconnect(self._ray, self._end_parts)

    def _end_parts(self) -> None:
        shards = self._shards.actors if self._shards else []
        parts = [*self._actors.handles, self._learner.actor, *shards]
        for actor in (*parts, self._evaluations.actor):
            if actor is not None:
                self._ray.kill(actor)
        self._placement.release()

    @property
    def _patience(self) -> float:
        """Seconds that a pass may go on after a signal; frames take longer."""
        return _ENDING_SECONDS * (3 if self._run.spec.is_image else 1)

    def _take(self, env_steps: int) -> list[Rollout]:
        """Return finished rollouts: one of each actor, or as many that ran free."""
        if self._pipeline.asynchronous:
            wanted = self.n_actors if self._run.algorithm.on_policy else 1
            return self._fleet.newest(wanted, env_steps)
        self._fleet.launch(self._learner.weights, env_steps)
        return self._fleet.round()

    def _is_stale(self, rollout: Rollout) -> bool:
        """Return whether a rollout is too old to be learnt from directly."""
        lag = self._learner.version - rollout.report.weights_version
        return self._run.algorithm.on_policy and lag > self._pipeline.policy_lag

    def _sample(self, batches: int, env_steps: int) -> dict[Any, int]:
        """Return references to batches of the replay, each with its shard's number."""
        config = self._config.replay
        if self._shards is None or config is None or not batches:
            return {}
        generator = np.random.default_rng([self._run.seed, env_steps])
        return self._shards.sample(batches, config.buffer_batch_size, generator)

    def _make_learner(self) -> Any:
        service = self._ray.remote(concurrency_groups={"control": 1})(LearnerService)
        options = self._placement.learner()
        return service.options(**options).remote(self._run)

    def _make_shards(self) -> Shards | None:
        if self._config.replay is None:
            return None
        shards = Shards(
            self._calls,
            self._log,
            self._config.replay.replay_shards,
            self._make_shard,
            self._run.algorithm.on_policy,
            rollout_bytes(self._run),
        )
        shards.wait_until_ready()
        return shards

    def _make_shard(self, number: int) -> Any:
        service = self._ray.remote(concurrency_groups={"control": 1})(ReplayService)
        options = self._placement.service()
        return service.options(**options).remote(self._run, number)

    def _make_actor(self, number: int) -> Any:
        is_first = number not in self._made
        self._made.add(number)
        options = self._placement.env_actor(number, is_first)
        first, end = self._bounds[number : number + 2]
        setup = self._setup(first, end - first, self._placement.threads)
        return self._ray.remote(EnvActor).options(**options).remote(setup)

    def _make_evaluator(self, evaluator: type, n_envs: int) -> Any:
        remote = self._ray.remote(evaluator).options(**self._placement.service())
        return remote.remote(self._setup(0, n_envs, 1))

    def _setup(self, first: int, count: int, threads: int) -> ActorSetup:
        run = self._run
        return ActorSetup(
            run.algorithm.name,
            run.config,
            run.layout,
            run.seed,
            first,
            count,
            threads,
            self._definitions,
        )


def start(run: Run, signals: Signals) -> RayDriver:
    """Start Ray, or join a cluster, and return the parts of a run."""
    definitions = export(str(run.config.env.env))
    signals.on_first = None  # heard by polling: Ray must not be interrupted
    ray = connection.start(run.config.placement, store_bytes(run), signals)
    try:
        return RayDriver(run, ray, signals, definitions)
    except BaseException:
        connection.disconnect(ray)
        raise
