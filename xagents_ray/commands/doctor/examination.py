"""Checks everything that a run requires, within 20 seconds."""

import os
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pkgutil import resolve_name
from typing import Any

import cloudpickle

from xagents_ray.actors.actor_setup import ActorSetup
from xagents_ray.actors.diagnosis import (
    ActedWithPolicy,
    EnvsMade,
    StepBegan,
    SteppedAtRandom,
)
from xagents_ray.actors.envs.notes import env_notes
from xagents_ray.actors.envs.registry import export_definitions
from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.commands.doctor import cores, machine
from xagents_ray.commands.doctor.checks import (
    Check,
    error_check,
    failed_call,
    format_seconds,
    hanging_env,
    warning_check,
)
from xagents_ray.core.env_shares import EnvShares
from xagents_ray.core.errors import UserError, pluralize
from xagents_ray.core.spec import VECTOR, EnvSpec
from xagents_ray.run.child import Child, Job, Outcome
from xagents_ray.run.prepare import build_run
from xagents_ray.run.request import Request
from xagents_ray.settings.config import Config

_ALL_SECONDS = 12.0
_MAKE_SECONDS = 8.0
_STEP_SECONDS = 1.0
_SLOW_RATE = 100
"""Env steps per second; one core manages thousands with an Atari game."""
_FIRST_ROWS = (
    *("environment", "spaces", "network", "worker", "step", "rewards", "acting"),
    *("transition", "memory"),
)
"""First rows of each table, checked or not; on Ray, "object store" follows."""


def examine_run(algorithm: Algorithm, given: Mapping[str, Any]) -> list[Check]:
    """Check what a run with these settings requires, without starting it.

    Raises:
        UserError: a setting is invalid.
    """
    load = os.getloadavg()[0]
    config, source = _placed(Request.of(algorithm, given, needs_end=False).config)
    with ExitStack() as stack:
        every = _Examination(algorithm, config, source, load, stack).rows()
        found = {row.name: row for row in every if row is not None}
    names = _FIRST_ROWS if config.placement.local else (*_FIRST_ROWS, "object store")
    rows = [found.pop(n, Check(n, "not checked", verdict="-")) for n in names]
    return [*rows, *found.values()]


def _placed(config: Config) -> tuple[Config, str]:
    """Return settings with the address of the cluster to join, and what named it."""
    if config.placement.local:
        return config, ""
    resolve = resolve_name("xagents_ray.cluster.ray.addresses:resolve")
    address, source = resolve(config.placement.address, os.environ)
    placement = replace(config.placement, address=address)
    return replace(config, placement=placement), source


class _Examination:
    """The checks of one run; those that may hang use child processes."""

    def __init__(
        self,
        algorithm: Algorithm,
        config: Config,
        source: str,
        load: float,
        stack: ExitStack,
    ) -> None:
        self._algorithm, self._config, self._stack = algorithm, config, stack
        self._source = source
        self._load, self._until = load, time.monotonic() + _ALL_SECONDS
        self._definitions = export_definitions(config.env)
        self._cluster: Any = None
        self._run: RunSpec | None = None
        self._has_gpu = False
        self._acted: ActedWithPolicy | None = None

    def rows(self) -> Iterator[Check | None]:
        """Yield all checks; the environment and the cluster are checked in parallel."""
        config, address = self._config, self._config.placement.address
        lacking, ray = machine.check_tensorflow(), list[Check | None]()
        path = "xagents_ray.actors.envs.make:probe"
        probe = self._start(path, config.env, self._definitions)
        if address is not None:
            path = "xagents_ray.cluster.run.preflight:inspect_cluster"
            connecting = self._start(path, address)
            connect_until = time.monotonic() + machine.CONNECT_SECONDS
            yield from self._environment(probe)
            row, self._cluster = machine.check_joining(
                f"{self._source} {address}", connecting, connect_until
            )
            if self._cluster is not None:
                row = cores.with_room(row, self._cluster, config)
                self._has_gpu = self._cluster.free_gpus > 0
            ray += [lacking, row, machine.check_token(self._cluster)]
            ray.append(machine.check_ray_folder(self._cluster))
        else:
            gpus, asking = machine.list_gpus(), None
            self._has_gpu = bool(gpus)
            if gpus and machine.has_cuda():
                asking = self._start("xagents_ray.run.learner_access:learner_gpus")
            yield from self._environment(probe)
            usable, flags = self._usable(asking), config.placement
            ray.append(lacking or machine.check_gpu(gpus, usable, flags))
            ray.append(machine.check_bytecode())
            if not config.placement.local:
                ray.append(machine.ray_here())
        if self._acted is not None:
            yield _speed(config, self._acted, self._shares)
        yield from self._memory()
        yield cores.check_cores(config, self._load, self._shares)
        yield cores.check_gpu_feed(self._run, self._has_gpu, self._shares)
        yield from ray
        yield machine.check_disk(config, self._run)
        yield machine.check_preset(self._algorithm, config)

    def _start(self, path: str, *arguments: Any) -> Child:
        return self._stack.enter_context(Child.start(Job(path, arguments)))

    def _environment(self, probe: Child) -> Iterator[Check]:
        """Check that an environment can be made, fits the agent, and can be stepped."""
        env = f"--env {self._config.env.env}"
        found = _answer(probe, "environment", "can't be made", env)
        if isinstance(found, Check):
            yield found
            return
        made, noted = "one made, in a process of its own", env_notes(self._config.env)
        remedy = f"{noted[0]}." if noted else ""
        yield Check("environment", made, remedy, "warning" if noted else "ok")
        spec = yield from self._goals(found, env)
        yield from self._fit(spec)
        if self._run is not None:
            yield from self._trial(self._run, env)

    def _goals(self, spec: EnvSpec, env: str) -> Generator[Check, None, EnvSpec]:
        """Check whether --her can relabel goals; return the spec with their info."""
        if not self._config.algorithm.relabels_goals:
            return spec
        path = "xagents_ray.actors.envs.goals:check_goal_rewards"
        check = self._start(path, self._config, spec, self._definitions)
        found = _answer(check, "goals", "can't be relabeled", env)
        if isinstance(found, Check):
            yield found
            return spec
        spec, noted = found
        remedy = f"{noted[0]}." if noted else ""
        yield Check("goals", "relabeled by --her", remedy, "warning" if noted else "ok")
        return spec

    def _fit(self, spec: EnvSpec) -> Iterator[Check]:
        """Check that the algorithm supports the spaces and has a network for them."""
        found = _described(spec)
        try:
            self._algorithm.check_spaces(spec)
        except UserError as refused:
            yield error_check("spaces", found, str(refused))
            return
        yield Check("spaces", found)
        try:
            self._run = build_run(self._algorithm, self._config, spec)
        except UserError as refused:
            yield error_check("network", "can't be made", str(refused))
            return
        sizes = (
            f"{model.name} {pluralize(layout.n_weights, 'weight')}"
            for model, layout in zip(
                self._run.algorithm.models, self._run.layouts, strict=True
            )
        )
        yield Check("network", ", ".join(sizes))

    def _trial(self, run: RunSpec, env: str) -> Iterator[Check]:
        """Check an env actor: making environments, stepping at random, acting."""
        count, cpus = len(self._shares.envs), int(self._shares.cores)
        n_envs, threads = run.config.env.n_envs // count, max(1, cpus // count)
        setup = ActorSetup.of(run, n_envs, 0, threads, self._definitions)
        setup = replace(setup, onnx_rows=run.onnx_rows(n_envs))
        path = "xagents_ray.actors.diagnosis:try_env_actor"
        diagnosis = self._start(path, setup, _STEP_SECONDS)
        size = len(cloudpickle.dumps(setup))
        name, doing, began = "worker", "be made", time.monotonic()
        envs = pluralize(n_envs, "environment")
        try:
            while not isinstance(event := diagnosis.receive(self._until), Outcome):
                match event:
                    case StepBegan(activity):
                        doing = activity
                    case EnvsMade(seconds):
                        made = f"{envs} made in {format_seconds(seconds)}"
                        yield Check(name, f"{made} from {size:,} pickled bytes")
                        name = "step"
                    case SteppedAtRandom():
                        yield _stepped(event, n_envs)
                        yield _rewards(event)
                        name = "acting"
                    case ActedWithPolicy():
                        self._acted = event
            if event.failure:
                yield failed_call(name, f"can't {doing}", env, event)
        except TimeoutError:
            waited = time.monotonic() - began
            if doing == "be made":  # a single one could be made before
                found = f"{envs} took more than {waited:.0f} s to make"
                remedy = "Expect train to start late, or lower --n-envs."
                yield warning_check(name, found, remedy)
            elif doing != "act":  # acting makes the environments again
                yield hanging_env(name, env, doing, waited)

    @property
    def _shares(self) -> EnvShares:
        """The environments of each env actor, and the cores available to them."""
        return cores.divide_envs(self._config, self._run, self._cluster, self._has_gpu)

    def _memory(self) -> Iterator[Check | None]:
        """Check the memory of transitions, the replay buffer and the object store."""
        run, placement = self._run, self._config.placement
        if run is None:
            return
        yield machine.transition_bytes(run, self._acted)
        yield machine.check_memory(run, self._cluster)
        cluster_is_gone = placement.address is not None and self._cluster is None
        if not (placement.local or cluster_is_gone):
            yield machine.object_store(run, self._cluster)

    def _usable(self, asking: Child | None) -> Sequence[str] | str:
        if asking is None:
            return "TensorFlow is built without CUDA"
        try:
            outcome: Outcome = asking.receive(self._until)
        except TimeoutError:
            return "TensorFlow took too long to start to be asked"
        found: Sequence[str] = outcome.value
        return outcome.failure or found


def _answer(call: Child, name: str, failure: str, env: str) -> Any:
    """Return the result of a child process that makes an environment, or its error."""
    try:
        outcome: Outcome = call.receive(time.monotonic() + _MAKE_SECONDS)
    except TimeoutError:
        return hanging_env(name, env, "be made", _MAKE_SECONDS)
    if outcome.failure:
        return failed_call(name, failure, env, outcome)
    return outcome.value


def _speed(config: Config, acted: ActedWithPolicy, shares: EnvShares) -> Check:
    """Estimate the speed of all env actors together, without learning."""
    rate = sum(shares.envs) / shares.round_steps / acted.microseconds * 1e6
    actors = (
        f"{pluralize(len(shares.envs), 'env actor')} on "
        f"{pluralize(int(shares.cores), 'core')}"
    )
    found = f"about {rate:,.0f} env steps/s by {actors}, without learning"
    if config.training.max_steps is not None:
        time_needed = format_seconds(config.training.max_steps / rate)
        found += f"; --max-steps takes {time_needed} of that"
    if rate >= _SLOW_RATE:
        return Check("acting", found)
    return warning_check(
        "acting",
        found,
        "Make the environment's step faster, or raise --n-envs and step on more "
        "cores: --vectorization async, --n-actors, a cluster's --address.",
    )


def _described(spec: EnvSpec) -> str:
    actions = "discrete action" if spec.is_discrete else "continuous action"
    units = pluralize(len(spec.action_sizes) or spec.action_units, actions)
    if spec.action_sizes:
        units += f" at once, of {', '.join(map(str, spec.action_sizes))}"
    seen = [_array(spec, spec.observation_dtype, spec.observation_shape)]
    if spec.has_several_arrays:
        pairs = spec.arrays.items()
        seen = [_array(spec, *x) + f" ({k})" * (k != VECTOR) for k, x in pairs]
    flat = f" (a {spec.flattened}, flattened)" if spec.flattened else ""
    return f"{', '.join(seen)}{flat}; {units}"


def _array(spec: EnvSpec, dtype: str, shape: tuple[int, ...]) -> str:
    kind = f"frames, {spec.stack} stacked" if len(shape) > 1 else "numbers"
    return f"{'×'.join(map(str, shape))} {dtype} {kind}"


def _stepped(steps: SteppedAtRandom, n_envs: int) -> Check:
    median = f"median of {pluralize(steps.count, 'vector step')} of {n_envs}"
    return Check("step", f"{steps.microseconds:,.1f} µs per env step, {median}")


def _rewards(steps: SteppedAtRandom) -> Check:
    found = f"finite, {steps.low:g} to {steps.high:g} at random"
    if steps.returns:
        mean = sum(steps.returns) / len(steps.returns)
        found += (
            f"; mean return {mean:.2f} of {pluralize(len(steps.returns), 'episode')}"
        )
    return Check("rewards", found)
