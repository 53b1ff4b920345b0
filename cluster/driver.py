"""The distributed driver: env actors, replay service and learner as Ray actors."""

import atexit
import contextlib
import itertools
import math
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from xagents_ray.actors.env_actor import ActorSetup, EnvActor
from xagents_ray.actors.evaluator import Evaluator
from xagents_ray.backend import Collected, Run, Snapshot
from xagents_ray.checkpoints import Checkpoint
from xagents_ray.cluster.connection import connect
from xagents_ray.cluster.remotes import LearnerService, ReplayService
from xagents_ray.errors import Diverged, Stopped, UserError
from xagents_ray.hyperparameters import ReplayConfig
from xagents_ray.machine import cores
from xagents_ray.moments import Statistics
from xagents_ray.resume import actor_states, unfinished
from xagents_ray.signals import Signals
from xagents_ray.weights import WeightsFile

_POLL_SECONDS = 0.2
_RETAKE_SECONDS = 0.02
_START_SECONDS = 120.0
_ENDING_SECONDS = 3.0


class RayBackend:
    """The parts of a run as Ray actors; the driver moves references only."""

    def __init__(self, run: Run, ray: Any, signals: Signals) -> None:
        self._run, self._ray, self._signals = run, ray, signals
        self._config = run.config.algorithm
        self._round: list[Any] = []
        service = ray.remote(LearnerService).options(num_cpus=0, max_concurrency=2)
        self._learner = service.remote(run, cores())
        self._weights = self._learner.weights.remote()
        self._shares, self._actors = self._make_actors()
        self.n_actors = len(self._actors)
        self._replay: Any = None
        self.replay_nbytes = 0
        self._evaluator: Any = None
        self._evaluations: list[tuple[int, Any]] = []
        if isinstance(self._config, ReplayConfig):
            self._replay = ray.remote(ReplayService).options(num_cpus=0).remote(run)
            self.replay_nbytes = self._get(self._replay.nbytes.remote(), _START_SECONDS)
        ready = [actor.ready.remote() for actor in self._actors]
        for each in ready:
            self._get(each, _START_SECONDS)
        self.notes: list[str] = self._get(self._learner.notes.remote(), _START_SECONDS)

    def collect(self, env_steps: int) -> Collected:
        """Roll every environment out with the newest weights; fill the replay."""
        length = self._config.batch_steps
        pairs = [
            actor.rollout.options(num_returns=2).remote(
                self._weights, length, env_steps
            )
            for actor in self._actors
        ]
        self._round = [trajectory for trajectory, _ in pairs]
        fill = None
        if self._replay is not None:
            fill = self._get(self._replay.insert.remote(*self._round))
        return Collected([self._get(report) for _, report in pairs], fill)

    def learn(
        self, batches: int, env_steps: int, statistics: Statistics
    ) -> dict[str, float]:
        """Run one learning phase; its weights stay in the object store."""
        batch = list(self._round) if self._run.algorithm.on_policy else []
        sampled = batches - bool(batch)
        if sampled:
            batch.append(self._replay.sample.remote(sampled))
        update = self._learner.update.options(num_returns=2)
        metrics, self._weights = update.remote(env_steps, statistics, *batch)
        try:
            return self._get(metrics)
        except Stopped:
            self._learner.stop.remote()
            return self._get(metrics, patience=self._patience)

    def scale_lr(self, factor: float) -> float:
        """Multiply the learning rates; return the new one."""
        return self._get(self._learner.scale_lr.remote(factor))

    def snapshot(self) -> Snapshot:
        """Refer to copies of the state of the learner and the env actors."""
        actors = [actor.state.remote() for actor in self._actors]
        return Snapshot(self._learner.state.remote(), actors)

    def fetch(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot's arrays in place of references."""
        learner = self._get(snapshot.learner, patience=self._patience)
        actors = [self._get(each, patience=self._patience) for each in snapshot.actors]
        return Snapshot(learner, actors)

    def save_replay(self, directory: Path) -> None:
        """Let the replay write its file there."""
        if self._replay is not None:
            self._get(self._replay.save.remote(str(directory.absolute())))

    def restore(self, checkpoint: Checkpoint, session: int) -> int:
        """Go on from a checkpoint; return how many unfinished games it dropped."""
        self._get(self._learner.restore.remote(checkpoint.arrays))
        self._weights = self._learner.weights.remote()
        if self._replay is not None:
            path = str(checkpoint.path.absolute())
            self._get(self._replay.load.remote(path))
        states = actor_states(checkpoint, self._shares)
        if states is None:
            for actor in self._actors:
                actor.restart.remote(session)
            return unfinished(checkpoint)
        pairs = zip(self._actors, states, strict=True)
        dropped = [actor.restore.remote(state) for actor, state in pairs]
        return sum(self._get(each) for each in dropped)

    def encode(self, snapshot: Snapshot, paths: Sequence[str]) -> list[WeightsFile]:
        """Return a snapshot's models as weights files with these paths."""
        files = self._learner.encode.remote(snapshot.learner, paths)
        return self._get(files, patience=self._patience)

    def evaluate(self, env_steps: int) -> None:
        """Begin an evaluation in an env actor of its own, beside training."""
        count = self._run.config.run.eval_episodes
        if self._evaluator is None:
            remote = self._ray.remote(Evaluator).options(num_cpus=0)
            n_envs = min(count, self._run.config.env.n_envs)
            self._evaluator = remote.remote(self._setup(0, n_envs, 1))
        if len(self._evaluations) > 1:  # it is slower than training
            self._wait(self._evaluations[0][1])
        seed = self._run.evaluation_seed
        games = self._evaluator.evaluate.remote(self._weights, count, seed)
        self._evaluations.append((env_steps, games))

    def evaluations(self, is_last: bool) -> list[tuple[int, float]]:
        """Return (env step, mean return) of those that ended; wait for the last."""
        ended = []
        while self._evaluations:
            step, reference = self._evaluations[0]
            if not is_last and not self._is_there(reference, 0):
                break
            games = self._get(reference)
            del self._evaluations[0]
            ended.append((step, sum(g.episode_return for g in games) / len(games)))
        return ended

    def close(self) -> None:
        """End every part, and Ray where this run started it."""
        parts = (*self._actors, self._learner, self._replay, self._evaluator)
        for actor in parts:
            if actor is not None:
                self._ray.kill(actor)
        _shut_down(self._ray)

    @property
    def _patience(self) -> float:
        """Seconds that a pass may go on after a signal; frames take longer."""
        return _ENDING_SECONDS * (3 if self._run.spec.is_image else 1)

    def _make_actors(self) -> tuple[list[int], list[Any]]:
        """Return how many environments each env actor has, and the actors."""
        placement, n_envs = self._run.config.placement, self._run.config.env.n_envs
        cpus = int(self._ray.cluster_resources().get("CPU", 1))
        count = placement.n_actors or min(n_envs, max(1, cpus))
        bounds = np.linspace(0, n_envs, count + 1).astype(int).tolist()
        shares = [end - first for first, end in itertools.pairwise(bounds)]
        # With more actors than cores, none of them claims one.
        remote = self._ray.remote(EnvActor).options(
            num_cpus=1 if count <= cpus else 0, scheduling_strategy="SPREAD"
        )
        threads = max(1, cpus // count)
        pairs = zip(bounds, shares, strict=False)
        return shares, [remote.remote(self._setup(*p, threads)) for p in pairs]

    def _setup(self, first: int, count: int, threads: int) -> ActorSetup:
        run = self._run
        return ActorSetup(
            run.algorithm.name, run.config, run.layout, run.seed, first, count, threads
        )

    def _get(
        self, reference: Any, limit: float = math.inf, patience: float = 0.0
    ) -> Any:
        """Return an object when it is there; Stopped when the run is to end."""
        self._wait(reference, limit, patience)
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, Diverged | UserError | OSError):
                raise error.cause from None
            raise

    def _wait(
        self, reference: Any, limit: float = math.inf, patience: float = 0.0
    ) -> None:
        """Wait for an object.

        Args:
            reference: to it.
            limit: seconds; UserError after that.
            patience: seconds before a signal that presses raises Stopped.
        """
        began = time.monotonic()
        while not self._is_there(reference, _POLL_SECONDS):
            waited = time.monotonic() - began
            if self._signals.is_pressing and waited > patience:
                raise Stopped
            if waited > limit:
                raise UserError(
                    f"Ray started no actor within {limit:.0f} s: the cluster lacks "
                    "free cores, see `ray status`."
                )

    def _is_there(self, reference: Any, seconds: float) -> bool:
        """Return whether an object is there, or comes within some seconds."""
        wait = self._ray.wait
        there, _ = wait([reference], timeout=seconds, fetch_local=False)
        return bool(there)


def _shut_down(ray: Any) -> None:
    """Leave Ray; whatever it started here is gone afterwards."""
    children = psutil.Process().children(recursive=True)
    ray.shutdown()
    _end(children, seconds=2)


def _end(processes: list[psutil.Process], seconds: float) -> None:
    """Kill what is still alive after some seconds."""
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.kill()


def _store_bytes(run: Run) -> int:
    """Return what the data in flight needs, with room to spare."""
    spec, config = run.spec, run.config.algorithm
    item = 1 if spec.observation_dtype == "uint8" else 4
    observation = math.prod(spec.observation_shape) * item + 64
    rows = (config.batch_steps + spec.stack) * run.config.env.n_envs
    bytes_ = rows * observation
    if isinstance(config, ReplayConfig):
        sampled = config.sampled_rows(run.config.env.n_envs, spec.stack)
        bytes_ += sampled * observation
    return 3 * bytes_ + 128 * 2**20


def start(run: Run, signals: Signals) -> RayBackend:
    """Start Ray, or join a cluster, and return the parts of a run."""
    signals.on_first = None  # heard by polling: Ray must not be interrupted
    ray = _connect(run, signals)
    try:
        return RayBackend(run, ray, signals)
    except BaseException:
        _shut_down(ray)
        raise


def _connect(run: Run, signals: Signals) -> Any:
    """Connect in a thread, and take SIGTERM back from Ray as soon as it has it."""
    placement, outcome = run.config.placement, Future[Any]()

    def connecting() -> None:
        try:
            store = _store_bytes(run)
            outcome.set_result(connect(placement.address, placement.dashboard, store))
        except BaseException as error:
            outcome.set_exception(error)
        threading.Event().wait()  # Ray's processes end with the thread they began in

    threading.Thread(target=connecting, daemon=True).start()
    while not outcome.done():
        wait([outcome], timeout=_RETAKE_SECONDS)
        signals.take()
        if signals.received is not None:
            _end(psutil.Process().children(recursive=True), seconds=0)
            # Ray's client aborts when it misses what it was connecting to.
            atexit.register(os._exit, 128 + signals.received)
            raise Stopped
    return outcome.result()
