"""A look at everything that a run needs, before it starts; within 20 seconds."""

import os
import pickle
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from xagents_ray.actors.env_actor import ActorSetup
from xagents_ray.actors.envs import definitions
from xagents_ray.algorithms import presets
from xagents_ray.algorithms.row import Algorithm
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.commands.doctor import cluster, environment, machine
from xagents_ray.commands.doctor.row import Row, unchecked
from xagents_ray.core.machine import cores
from xagents_ray.core.timed_subprocess import Failure, TimedSubprocess
from xagents_ray.run.prepare import find_resumed
from xagents_ray.settings.config import Config
from xagents_ray.storage.weights import check_paths

_ALL_SECONDS = 12.0
_STEP_SECONDS = 1.0


def examine(algorithm: Algorithm, given: Mapping[str, Any]) -> list[Row]:
    """Check what a run with these settings needs; start none.

    Raises:
        UserError: a setting is wrong, as in `commands.train.train_with`.
    """
    load = os.getloadavg()[0]
    if given.get("resume") is not None:
        given = find_resumed(algorithm.name, given)[1]
    else:
        given = presets.apply(algorithm, given)
    if given.get("max_steps") is None and given.get("target_reward") is None:
        given = {**given, "target_reward": 0.0}  # a check needs no end
    config = Config.of(algorithm.config, given)
    check_paths(algorithm, "--weights", config.run.weights)
    check_paths(algorithm, "--checkpoints", config.run.checkpoints)
    with ExitStack() as stack:
        return _Examination(algorithm, config, load, stack).rows()


class _Examination:
    """The checks of one run; what may hang has a process of its own."""

    def __init__(
        self, algorithm: Algorithm, config: Config, load: float, stack: ExitStack
    ) -> None:
        self._algorithm, self._config, self._stack = algorithm, config, stack
        self._load, self._until = load, time.monotonic() + _ALL_SECONDS
        self._definitions = definitions.export(str(config.env.env))
        self._cluster: Any = None

    def rows(self) -> list[Row]:
        """Return all rows; environment and cluster are checked side by side."""
        config, address = self._config, self._config.placement.address
        path = "xagents_ray.actors.envs.make:probe"
        probe = self._start(path, config.env, self._definitions)
        if address is not None:
            path = "xagents_ray.cluster.run.preflight:inspect_cluster"
            connecting = self._start(path, address)
            connect_until = time.monotonic() + cluster.CONNECT_SECONDS
            rows, run, acted = self._environment(probe)
            ray = [self._join(address, connecting, connect_until)]
        else:
            gpus, asking = machine.gpus(), None
            if gpus and machine.has_cuda():
                asking = self._start("xagents_ray.learners.gpus:usable")
            rows, run, acted = self._environment(probe)
            ray = [machine.gpu(gpus, self._usable(asking))]
            if not config.placement.local:
                ray.append(machine.ray_here())
        if acted is not None:
            rows.append(environment.speed(config, acted, *self._actors()))
        return [
            *rows,
            *self._memory(run, None if acted is None else acted.row_bytes),
            machine.processors(config, self._load),
            *ray,
            machine.disk(config, run),
            machine.preset(self._algorithm, config),
        ]

    def _join(self, address: str, connecting: TimedSubprocess, until: float) -> Row:
        row, self._cluster = cluster.joining(address, connecting, until)
        if self._cluster is None:
            return row
        return cluster.with_room(row, self._cluster, self._actors()[0])

    def _start(self, path: str, *arguments: Any) -> TimedSubprocess:
        return self._stack.enter_context(TimedSubprocess(path, *arguments))

    def _environment(
        self, probe: TimedSubprocess
    ) -> tuple[list[Row], RunSpec | None, Any]:
        """Make one, see whether the agent takes it, then step as an env actor does."""
        rest = ["spaces", "network", "worker", "step", "rewards", "acting"]
        made, spec = environment.making(self._config, probe)
        if spec is None:
            return [made, *unchecked(*rest)], None, None
        fits, run = environment.fit(self._algorithm, self._config, spec)
        if run is None:
            return [made, *fits, *unchecked(*rest[2:])], None, None
        count, cpus = self._actors()
        share, threads = run.config.env.n_envs // count, max(1, cpus // count)
        setup = ActorSetup.of(run, share, 0, threads, self._definitions)
        path, pickled = "xagents_ray.actors.diagnosis:diagnose", pickle.dumps(setup)
        diagnosis = self._start(path, setup, _STEP_SECONDS)
        env = f"--env {self._config.env.env}"
        rows, acted = environment.trial(
            diagnosis, env, share, len(pickled), self._until
        )
        return [made, *fits, *rows], run, acted

    def _actors(self) -> tuple[int, int]:
        """Return the env actors of the run, and the cores that they have."""
        placement, n_envs = self._config.placement, self._config.env.n_envs
        cpus = cores() if self._cluster is None else max(1, self._cluster.cpus)
        if placement.local:
            return 1, cpus
        return placement.n_actors or min(n_envs, cpus), cpus

    def _memory(self, run: RunSpec | None, row_bytes: float | None) -> list[Row]:
        """Return what transitions, the replay buffer and the object store take."""
        placement = self._config.placement
        names = ["transition", "memory", "object store"][: 3 - placement.local]
        if run is None:
            return unchecked(*names)
        room = None if self._cluster is None else self._cluster.memory
        rows = [machine.transition(run, row_bytes), machine.memory(run, room)]
        if placement.address is not None and self._cluster is None:
            return [*rows, *unchecked("object store")]
        if not placement.local:
            rows.append(cluster.object_store(run, self._cluster))
        return rows

    def _usable(self, asking: TimedSubprocess | None) -> Sequence[str] | str:
        if asking is None:
            return "TensorFlow is built without CUDA"
        try:
            found = asking.result(self._until)
        except TimeoutError:
            return "TensorFlow took too long to start to be asked"
        return found.sentence if isinstance(found, Failure) else found
