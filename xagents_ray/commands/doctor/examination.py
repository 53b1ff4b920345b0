"""A look at everything that a run needs, before it starts; within 20 seconds."""

import os
import pickle
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from xagents_ray.actors.diagnosis import Acted
from xagents_ray.actors.env_actor import ActorSetup
from xagents_ray.actors.envs import definitions
from xagents_ray.algorithms import presets
from xagents_ray.algorithms.row import Algorithm
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.commands.doctor import environment, machine
from xagents_ray.commands.doctor.row import Row, unchecked
from xagents_ray.core.machine import cores
from xagents_ray.core.timed_subprocess import Failure, TimedSubprocess
from xagents_ray.run.prepare import find_resumed
from xagents_ray.settings.config import Config
from xagents_ray.storage.weights import check_paths

_ALL_SECONDS = 12.0
_STEP_SECONDS = 1.0
_ALWAYS = (
    *("environment", "spaces", "network", "worker", "step", "rewards", "acting"),
    *("transition", "memory"),
)
"""Rows that every table begins with; without an environment, most have no answer."""


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
        rows = _Examination(algorithm, config, load, stack).rows()
        found = {row.name: row for row in rows if row is not None}
    begin = [found.pop(name, unchecked(name)) for name in _ALWAYS]
    return [*begin, *found.values()]


class _Examination:
    """The checks of one run; what may hang has a process of its own."""

    def __init__(
        self, algorithm: Algorithm, config: Config, load: float, stack: ExitStack
    ) -> None:
        self._algorithm, self._config, self._stack = algorithm, config, stack
        self._load, self._until = load, time.monotonic() + _ALL_SECONDS
        self._definitions = definitions.export(str(config.env.env))
        self._cluster: Any = None
        self._run: RunSpec | None = None
        self._acted: Acted | None = None

    def rows(self) -> Iterator[Row | None]:
        """Yield what was checked; environment and cluster are checked side by side."""
        config, address = self._config, self._config.placement.address
        path = "xagents_ray.actors.envs.make:probe"
        probe = self._start(path, config.env, self._definitions)
        if address is not None:
            path = "xagents_ray.cluster.run.preflight:inspect_cluster"
            connecting = self._start(path, address)
            connect_until = time.monotonic() + machine.CONNECT_SECONDS
            yield from self._environment(probe)
            row, self._cluster = machine.joining(address, connecting, connect_until)
            if self._cluster is not None:
                row = machine.with_room(row, self._cluster, self._actors()[0])
            ray = [row]
        else:
            gpus, asking = machine.gpus(), None
            if gpus and machine.has_cuda():
                asking = self._start("xagents_ray.learners.runtime:usable_gpus")
            yield from self._environment(probe)
            ray = [machine.gpu(gpus, self._usable(asking))]
            if not config.placement.local:
                ray.append(machine.ray_here())
        if self._acted is not None:
            yield environment.speed(config, self._acted, *self._actors())
        yield from self._memory()
        yield machine.processors(config, self._load)
        yield from ray
        yield machine.disk(config, self._run)
        yield machine.preset(self._algorithm, config)

    def _start(self, path: str, *arguments: Any) -> TimedSubprocess:
        return self._stack.enter_context(TimedSubprocess(path, *arguments))

    def _environment(self, probe: TimedSubprocess) -> Iterator[Row]:
        """Make one, see whether the agent takes it, then step as an env actor does."""
        made, spec = environment.making(self._config, probe)
        yield made
        if spec is None:
            return
        fits, self._run = environment.fit(self._algorithm, self._config, spec)
        yield from fits
        if self._run is None:
            return
        count, cpus = self._actors()
        share, threads = self._config.env.n_envs // count, max(1, cpus // count)
        setup = ActorSetup.of(self._run, share, 0, threads, self._definitions)
        path, pickled = "xagents_ray.actors.diagnosis:diagnose", pickle.dumps(setup)
        diagnosis = self._start(path, setup, _STEP_SECONDS)
        env = f"--env {self._config.env.env}"
        rows, self._acted = environment.trial(
            diagnosis, env, share, len(pickled), self._until
        )
        yield from rows

    def _actors(self) -> tuple[int, int]:
        """Return the env actors of the run, and the cores that they have."""
        placement, n_envs = self._config.placement, self._config.env.n_envs
        cpus = cores() if self._cluster is None else max(1, self._cluster.cpus)
        if placement.local:
            return 1, cpus
        return placement.n_actors or min(n_envs, cpus), cpus

    def _memory(self) -> Iterator[Row | None]:
        """Yield what transitions, the replay buffer and the object store take."""
        run, placement = self._run, self._config.placement
        if run is not None:
            yield machine.transition(run, self._acted)
            yield machine.memory(run, self._cluster)
        if placement.local:
            return
        if run is None or (placement.address is not None and self._cluster is None):
            yield unchecked("object store")
        else:
            yield machine.object_store(run, self._cluster)

    def _usable(self, asking: TimedSubprocess | None) -> Sequence[str] | str:
        if asking is None:
            return "TensorFlow is built without CUDA"
        try:
            found = asking.result(self._until)
        except TimeoutError:
            return "TensorFlow took too long to start to be asked"
        return found.sentence if isinstance(found, Failure) else found
