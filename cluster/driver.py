"""The distributed driver: env actors, replay service and learner as Ray actors."""

import atexit
import contextlib
import math
import os
import threading
import time
from concurrent.futures import Future, wait
from typing import Any

import numpy as np
import psutil

from xagents_ray.actors.env_actor import ActorSetup, EnvActor
from xagents_ray.cluster.connection import connect
from xagents_ray.cluster.remotes import LearnerService, ReplayService
from xagents_ray.config import OffPolicyConfig
from xagents_ray.errors import Stopped, UserError
from xagents_ray.machine import cores
from xagents_ray.signals import Signals
from xagents_ray.training import Collected, Run

_POLL_SECONDS = 0.2
_RETAKE_SECONDS = 0.02
_START_SECONDS = 120.0
_ENDING_SECONDS = 3.0
"""How long a pass may go on after a stop; frames take three times that."""


class RayBackend:
    """The parts of a run as Ray actors; the driver moves references only."""

    def __init__(self, run: Run, ray: Any, signals: Signals) -> None:
        self._run, self._ray, self._signals = run, ray, signals
        self._config = run.config.algorithm
        self._round: list[Any] = []
        service = ray.remote(LearnerService).options(num_cpus=0, max_concurrency=2)
        self._learner = service.remote(run, cores())
        self._weights = self._learner.weights.remote()
        self._actors = self._make_actors()
        self._replay = None
        if isinstance(self._config, OffPolicyConfig):
            self._replay = ray.remote(ReplayService).options(num_cpus=0).remote(run)
            self._get(self._replay.insert.remote(), _START_SECONDS)
        ready = [actor.ready.remote() for actor in self._actors]
        for each in ready:
            self._get(each, _START_SECONDS)
        self._wait(self._weights, _START_SECONDS)

    def collect(self, env_steps: int) -> Collected:
        """Roll every environment out with the newest weights; fill the replay."""
        self._heed_signals()
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

    def learn(self, batches: int, env_steps: int) -> dict[str, float]:
        """Run one learning phase; its weights stay in the object store."""
        batch = self._round
        if self._replay is not None:
            batch = [self._replay.sample.remote(batches)]
        update = self._learner.update.options(num_returns=2)
        metrics, self._weights = update.remote(env_steps, *batch)
        try:
            return self._get(metrics)
        except Stopped:
            self._learner.stop.remote()
            limit = _ENDING_SECONDS * (3 if self._run.spec.is_image else 1)
            done, _ = self._ray.wait([metrics], timeout=limit)
            if not done:
                raise
            return self._ray.get(metrics)

    def close(self) -> None:
        """End every part, and Ray where this run started it."""
        for actor in (*self._actors, self._learner, self._replay):
            if actor is not None:
                self._ray.kill(actor)
        _shut_down(self._ray)

    def _make_actors(self) -> list[Any]:
        run, placement = self._run, self._run.config.placement
        n_envs = run.config.env.n_envs
        cpus = int(self._ray.cluster_resources().get("CPU", 1))
        count = placement.n_actors or min(n_envs, max(1, cpus))
        shares = np.diff(np.linspace(0, n_envs, count + 1).astype(int))
        # With more actors than cores, none of them claims one.
        remote = self._ray.remote(EnvActor).options(
            num_cpus=1 if count <= cpus else 0, scheduling_strategy="SPREAD"
        )
        threads = max(1, cpus // count)
        actors, first = [], 0
        for share in map(int, shares):
            setup = ActorSetup(
                run.algorithm.name,
                run.config,
                run.layout,
                run.seed,
                first,
                share,
                threads,
            )
            actors.append(remote.remote(setup))
            first += share
        return actors

    def _get(self, reference: Any, limit: float = math.inf) -> Any:
        """Return an object when it is there; Stopped when the run is to end."""
        self._wait(reference, limit)
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, UserError):
                raise error.cause from None
            raise

    def _heed_signals(self) -> None:
        if self._signals.received is not None:
            raise Stopped

    def _wait(self, reference: Any, limit: float = math.inf) -> None:
        deadline = time.monotonic() + limit
        while not self._ray.wait([reference], timeout=_POLL_SECONDS, fetch_local=False)[
            0
        ]:
            self._heed_signals()
            if time.monotonic() > deadline:
                raise UserError(
                    f"Ray started no actor within {limit:.0f} s: the cluster lacks "
                    "free cores, see `ray status`."
                )


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
    if isinstance(config, OffPolicyConfig):
        steps = config.batch_steps * run.config.env.n_envs
        updates = (steps // config.train_frequency + 1) * config.gradient_steps
        frames = updates * config.buffer_batch_size * (spec.stack + 1)
        bytes_ += frames * observation
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
