"""A look at everything that a run needs, before it starts; within 20 seconds."""

import importlib
import math
import os
import pickle
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from xagents_ray.algorithms import presets
from xagents_ray.algorithms.row import Algorithm
from xagents_ray.commands.doctor import checks
from xagents_ray.commands.doctor.checks import (
    Row,
    error,
    size,
    unchecked,
    warning,
)
from xagents_ray.core.errors import UserError
from xagents_ray.core.machine import cores
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.timed_subprocess import Bounded, Failure
from xagents_ray.run import resume
from xagents_ray.run.driver import Run
from xagents_ray.run.prepare import lay_out
from xagents_ray.settings.config import Config
from xagents_ray.storage.weights import check_paths

_MAKE_SECONDS = 8.0
_ALL_SECONDS = 12.0
_REACH_SECONDS = 10.0
_MEASURE_SECONDS = 1.0
_SLOW_RATE = 100
"""Env steps a second; an Atari game alone on one core makes thousands."""


def examine(algorithm: Algorithm, given: Mapping[str, Any]) -> list[Row]:
    """Check what a run with these settings needs; start none.

    Raises:
        UserError: a setting is wrong, as in `training.train_with`.
    """
    load = os.getloadavg()[0]
    if given.get("resume") is not None:
        given = resume.find(algorithm.name, given)[1]
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
        self._load, self._began = load, time.monotonic()
        self._until = self._began + _ALL_SECONDS
        self._run: Run | None = None
        self._definitions: tuple[bytes, ...] = ()
        self._acting: Any = None
        self._reached: Any = None

    def rows(self) -> list[Row]:
        """Return all rows; environments and cluster are looked at side by side."""
        placement = self._config.placement
        if "gymnasium" in sys.modules:  # a script may have registered environments
            definitions = importlib.import_module("xagents_ray.actors.envs.definitions")
            self._definitions = definitions.export(str(self._config.env.env))
        path = "xagents_ray.actors.envs.make:probe"
        probing = self._start(path, self._config.env, self._definitions)
        reaching = None
        if placement.address is not None:
            reaching = self._start(
                "xagents_ray.cluster.run.preflight:reach", placement.address
            )
        shown = checks.gpus()
        looking = None
        if shown and placement.address is None and checks.has_cuda():
            looking = self._start("xagents_ray.learners.gpus:usable")
        rows = self._environment(probing)
        ray = [] if placement.local else [checks.ray_here()]
        if reaching is not None:
            ray = self._cluster(reaching)
        else:
            ray.insert(0, checks.gpu(shown, self._usable(looking)))
        if self._acting is not None:
            rows.append(self._speed(self._acting.microseconds))
        return [
            *rows,
            *self._memory(),
            checks.processors(self._config, self._load),
            *ray,
            checks.disk(self._config, self._run),
            checks.preset(self._algorithm, self._config),
        ]

    def _start(self, path: str, *arguments: Any) -> Bounded:
        child = Bounded(path, *arguments)
        self._stack.callback(child.end)
        return child

    def _environment(self, probing: Bounded) -> list[Row]:
        """Make one, see whether the agent takes it, then step as an env actor does."""
        env = f"--env {self._config.env.env}"
        rest = ["spaces", "network", "worker", "step", "rewards", "acting"]
        try:
            found = probing.one(self._began + _MAKE_SECONDS)
        except TimeoutError:
            return [
                _hangs("environment", env, "be made", _MAKE_SECONDS),
                *unchecked(*rest),
            ]
        if isinstance(found, Failure):
            return [
                _failed("environment", "can't be made", env, found),
                *unchecked(*rest),
            ]
        made = Row("environment", "one made, in a process of its own")
        environments = importlib.import_module("xagents_ray.actors.envs.make")
        for note in environments.notes(self._config.env):
            made = warning("environment", made.found, f"{note}.")
        spaces, network = self._fit(found)
        if self._run is None:
            return [made, spaces, network, *unchecked(*rest[2:])]
        return [made, spaces, network, *self._steps(self._run, env)]

    def _fit(self, spec: EnvSpec) -> tuple[Row, Row]:
        """Return whether the agent takes the spaces, and what it learns them with."""
        found = _described(spec)
        try:
            self._algorithm.check_spaces(spec)
        except UserError as refused:
            return error("spaces", found, str(refused)), unchecked("network")[0]
        spaces = Row("spaces", found)
        try:
            self._run = run = lay_out(self._algorithm, self._config, spec)
        except UserError as refused:
            return spaces, error("network", "can't be made", str(refused))
        shapes = importlib.import_module("xagents_ray.storage.weights").shapes
        sizes = [sum(map(math.prod, shapes(x).values())) for x in run.layouts]
        names = (model.name for model in run.algorithm.models)
        pairs = zip(names, sizes, strict=True)
        text = ", ".join(f"{name} {count:,} weights" for name, count in pairs)
        return spaces, Row("network", text)

    def _shared_out(self) -> tuple[int, int]:
        """Return the env actors of the run, and the cores that they have."""
        placement, n_envs = self._config.placement, self._config.env.n_envs
        cpus = cores() if self._reached is None else max(1, self._reached.cpus)
        if placement.local:
            return 1, cpus
        return placement.n_actors or min(n_envs, cpus), cpus

    def _steps(self, run: Run, env: str) -> list[Row]:
        """Let a process do what an env actor does, and say how that went."""
        count, cpus = self._shared_out()
        share, threads = run.config.env.n_envs // count, max(1, cpus // count)
        actor = importlib.import_module("xagents_ray.actors.env_actor")
        setup = actor.ActorSetup(
            run.algorithm.name,
            run.config,
            run.layout,
            run.seed,
            0,
            share,
            threads,
            self._definitions,
        )
        sent = len(pickle.dumps(setup))
        path = "xagents_ray.actors.diagnosis:diagnose"
        child = self._start(path, setup, _MEASURE_SECONDS)
        rows: list[Row] = []
        doing, names = "be made", ["worker", "step", "rewards", "acting"]
        began = time.monotonic()
        try:
            for item in child.items(self._until):
                if hasattr(item, "activity"):
                    doing = item.activity
                elif isinstance(item, Failure):
                    rows.append(_failed(names[len(rows)], f"can't {doing}", env, item))
                else:
                    rows += self._read(item, sent, share)
        except TimeoutError:
            waited = time.monotonic() - began
            if doing == "be made":  # one could be
                found = f"{share} environments took more than {waited:.0f} s to make"
                remedy = "Expect train to start late, or lower --n-envs."
                rows.append(warning(names[len(rows)], found, remedy))
            elif doing != "act":  # which makes them again
                rows.append(_hangs(names[len(rows)], env, doing, waited))
        return [*rows, *unchecked(*names[len(rows) + (self._acting is not None) :])]

    def _read(self, item: Any, sent: int, share: int) -> list[Row]:
        """Return the rows of what an env actor's trial gave."""
        if hasattr(item, "seconds"):
            envs = f"{share} environment{'s' * (share > 1)}"
            return [
                Row(
                    "worker",
                    f"{envs} made in {_span(item.seconds)} from {sent:,} pickled bytes",
                )
            ]
        if hasattr(item, "returns"):
            steps = f"median of {item.count} vector steps of {share}"
            return [
                Row("step", f"{item.microseconds:,.1f} µs per env step, {steps}"),
                _rewards(item),
            ]
        self._acting = item  # the cluster's cores come into it
        return []

    def _speed(self, microseconds: float) -> Row:
        """Return how fast all env actors together are, without learning."""
        count, cpus = self._shared_out()
        rate = min(count, cpus) / microseconds * 1e6
        actors = f"{count} env actor{'s' * (count > 1)} on {cpus} cores"
        found = f"about {rate:,.0f} env steps/s by {actors}, without learning"
        if self._config.training.max_steps is not None:
            span = _span(self._config.training.max_steps / rate)
            found += f"; --max-steps takes {span} of that"
        if rate < _SLOW_RATE:
            return warning(
                "acting",
                found,
                "Make the environment's step faster, or raise --n-envs and step on "
                "more cores: --vectorization async, --n-actors, a cluster's --address.",
            )
        return Row("acting", found)

    def _memory(self) -> list[Row]:
        """Return what transitions, the replay buffer and the object store take."""
        local = self._config.placement.local
        if self._run is None:
            names = ("transition", "memory", "object store")
            return unchecked(*(names[:2] if local else names))
        placement, reached = self._config.placement, self._reached
        row_bytes = None if self._acting is None else self._acting.row_bytes
        room = None if reached is None else reached.memory
        rows = [checks.transition(self._run, row_bytes), checks.memory(self._run, room)]
        if placement.local:
            return rows
        if placement.address is not None and reached is None:
            return [*rows, *unchecked("object store")]
        reach = importlib.import_module("xagents_ray.cluster.run.preflight")
        try:
            wanted, room = reach.store(self._run, reached)
        except UserError as refused:
            return [*rows, error("object store", "no room", str(refused))]
        found = f"{size(room)} of {size(wanted)} wanted for data in flight"
        if room >= wanted:
            return [*rows, Row("object store", f"{size(wanted)} for data in flight")]
        remedy = (
            "Enlarge /dev/shm (docker run --shm-size) or the cluster's object stores, "
            "or lower --n-envs: Ray writes to disk what does not fit."
        )
        return [*rows, warning("object store", found, remedy)]

    def _usable(self, looking: Bounded | None) -> Sequence[str] | str:
        if looking is None:
            return "TensorFlow is built without CUDA"
        try:
            found = looking.one(self._until)
        except TimeoutError:
            return "TensorFlow took too long to start to be asked"
        return found.sentence if isinstance(found, Failure) else found

    def _cluster(self, reaching: Bounded) -> list[Row]:
        """Return whether the cluster can be joined, and whether it has room."""
        address = self._config.placement.address
        try:
            found = reaching.one(min(self._began + _REACH_SECONDS, self._until))
        except TimeoutError:
            limit = f"{_REACH_SECONDS:.0f} s"
            remedy = f"Check --address {address}: nothing answered in {limit}."
            return [error("cluster", "no answer", remedy)]
        if isinstance(found, Failure):
            env = f"--address {address}"
            return [_failed("cluster", "can't be joined", env, found)]
        text = (
            f"{found.nodes} node{'s' * (found.nodes > 1)}, {found.free_cpus} of "
            f"{found.cpus} CPUs and {found.free_gpus} of {found.gpus} GPUs free; Ray "
            f"{found.ray}, Python {found.python}"
        )
        self._reached = found
        wanted, _ = self._shared_out()
        if wanted <= found.cpus and wanted > found.free_cpus:
            remedy = (
                f"Wait for others, or lower --n-actors to {max(1, found.free_cpus)}: "
                "a run that has no room within a minute ends."
            )
            return [warning("cluster", text, remedy)]
        return [Row("cluster", text)]


def _described(spec: EnvSpec) -> str:
    shape = "×".join(map(str, spec.observation_shape))
    kind = (
        f"{shape} {spec.observation_dtype} {'frames' if spec.is_image else 'numbers'}"
    )
    if spec.is_image:
        kind += f", {spec.stack} stacked"
    if spec.is_discrete:
        return f"{kind}; {spec.n_actions} discrete actions"
    return f"{kind}; {spec.action_units} continuous actions"


def _rewards(steps: Any) -> Row:
    games = len(steps.returns)
    found = f"finite, {steps.low:g} to {steps.high:g} at random"
    if games:
        found += f"; {games} games' mean return {sum(steps.returns) / games:.2f}"
    return Row("rewards", found)


def _span(seconds: float) -> str:
    """Return a time as a person says it: 12 minutes, 3.1 s, 20 ms."""
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds >= 0.1 else f"{seconds * 1000:.0f} ms"


def _failed(name: str, found: str, flag: str, failure: Failure) -> Row:
    """Return the error of work that raised."""
    if failure.is_advice:
        return error(name, found, failure.sentence)
    return error(name, found, f"{flag}: mend this: {failure.sentence}.")


def _hangs(name: str, env: str, doing: str, seconds: float) -> Row:
    """Return the error of an environment that gave no answer."""
    remedy = (
        f"{env} did not {doing} within {seconds:.0f} s: see what it waits for, a "
        "server or a lock perhaps."
    )
    return error(name, f"did not {doing}", remedy)
