"""Times the parts of a work one by one: `python -m benchmarks.parts JSON`.

It uses a fresh process, as TensorFlow's threads can only be set once. The argument has
a work's name, `settings` in addition to the work's, the names of the `parts`, and the
`seconds` to time each of them; with `one_core`, everything runs on a single core. The
last line of the output is JSON, see `measure`.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.works import WORKS
from xagents_ray.actors.actor_setup import ActorSetup
from xagents_ray.actors.env_actor import EnvActor
from xagents_ray.actors.policies.base import noise_generators
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.batches import Batch, assemble_batch
from xagents_ray.core.errors import UserError
from xagents_ray.core.stacks import stack_frames
from xagents_ray.core.trajectory import (
    Array,
    RolloutReport,
    Trajectory,
    Transitions,
    Weights,
)
from xagents_ray.replay.base import Replay
from xagents_ray.run.prepare import prepare_run
from xagents_ray.run.replay_buffer import replay_for
from xagents_ray.run.run_state import UpdateSchedule

_MOST_CALLS = 2_000
_ENV_STEPS = 1_000_000
"""Env steps of the run so far, on which schedules depend."""


def repeat(part: Callable[[], Any], seconds: float) -> list[float]:
    """Return the seconds of each call of a part; at least three, after a warm-up."""
    part()
    spans: list[float] = []
    while len(spans) < 3 or (sum(spans) < seconds and len(spans) < _MOST_CALLS):
        began = time.perf_counter()
        part()
        spans.append(time.perf_counter() - began)
    return spans


class ActingParts:
    """The parts of a run's rollouts, in one env actor for all environments.

    Args:
        run: the run.
        weights: weights of the network that acts.
    Attributes:
        weights: these weights.
        trajectory: trajectory of a rollout.
        report: report of that rollout.
    """

    def __init__(self, run: RunSpec, weights: Weights) -> None:
        self._run, self._n_envs = run, run.config.env.n_envs
        self._length = run.config.algorithm.batch_steps
        onnx_rows = run.onnx_rows(self._n_envs)
        self._setup = ActorSetup.of(run, self._n_envs, onnx_rows=onnx_rows)
        self._actor = EnvActor(self._setup)
        self._policy = self._setup.make_policy(run.spec)
        self.weights = weights
        self.bind()
        self.trajectory, self.report = self.roll_out()

    def roll_out(self) -> tuple[Trajectory, RolloutReport]:
        """Collect a rollout of all environments."""
        return self._actor.rollout(self.weights, self._length, _ENV_STEPS)

    def stepper(self) -> Callable[[], None]:
        """Return a function that steps the environments for a rollout, at random."""
        envs, spec = self._setup.make_envs(), self._run.spec
        envs.reset(self._run.seed)
        generator = np.random.default_rng(self._run.seed)

        def actions() -> Array:
            if spec.n_actions:
                return generator.integers(spec.n_actions, size=self._n_envs, dtype="i4")
            shape = self._n_envs, spec.action_units
            return generator.uniform(-1, 1, shape).astype(np.float32)

        drawn = [actions() for _ in range(self._length)]

        def step() -> None:
            for each in drawn:
                envs.step(each)

        return step

    def actor(self) -> Callable[[], None]:
        """Return a function that chooses the actions of a rollout."""
        rows, stack = self.trajectory, self._run.spec.stack
        window = rows.observations[:stack], rows.starts[:stack]
        seen = stack_frames(*window) if self._run.spec.is_image else window[0][0]
        generators = noise_generators(self._run.seed, 0, self._n_envs)

        def act() -> None:
            for drawn in self._policy.noise(generators, self._length):
                self._policy.act(seen, drawn, _ENV_STEPS)

        return act

    def bind(self) -> None:
        """Load the weights into the policy."""
        self._policy.load(self.weights)


class Parts:
    """The parts of a run, constructed as in the in-process driver.

    Attributes:
        acting: the parts of rollouts.
    """

    def __init__(self, run: RunSpec) -> None:
        # Imported late: TensorFlow reads the number of cores, which `main` may limit.
        from xagents_ray.run.learner_access import make_learner

        self._run, self._n_envs = run, run.config.env.n_envs
        self._length = run.config.algorithm.batch_steps
        self._learner, _ = make_learner(run)
        self.acting = ActingParts(run, self.publish())
        self._replay = self._filled_replay()
        self._batch = self.draw()

    def insert(self) -> None:
        """Copy a rollout into the replay."""
        assert self._replay is not None
        self._replay.insert(self.acting.trajectory)

    def draw(self) -> Batch:
        """Return the data of a learning phase."""
        run, config = self._run, self._run.config.algorithm.replay
        fresh = [self.acting.trajectory] if run.learns_online else []
        if self._replay is None or config is None:
            return assemble_batch(fresh, 0, [run.seed])
        rows = self._length * self._n_envs
        due = UpdateSchedule(run).batches(0, rows, self._replay.fill) - len(fresh)
        size = config.buffer_batch_size
        parts = [*fresh, self._replay.sample(due, size)] if due else fresh
        return assemble_batch(parts, size, [run.seed])

    def sampler(self, batches: int, size: int) -> Callable[[], Any]:
        """Return a function that samples batches of `size` transitions."""
        replay = self._replay
        assert replay is not None
        return lambda: replay.sample(batches, size)

    def prioritizer(self) -> Callable[[], None]:
        """Return a function that sets the priorities of 1,000 transitions."""
        replay = self._replay
        assert replay is not None
        drawn = replay.sample(1, 1_000)
        assert isinstance(drawn, Transitions) and drawn.rows is not None
        rows, errors = drawn.rows[0], drawn.rewards[0]

        def prioritize() -> None:
            replay.update(rows, errors)

        return prioritize

    def learn(self) -> int:
        """Run a learning phase; return the number of updates."""
        acting = self.acting
        outputs = self._learner.learn(
            self._batch,
            _ENV_STEPS,
            acting.report.statistics,
            acting.weights.version + 1,
        )
        acting.weights = outputs.weights
        return int(outputs.metrics["updates"])

    def publish(self) -> Weights:
        """Copy the acting weights from the learner."""
        weights: Weights = self._learner.policy_weights(1)
        return weights

    def sizes(self) -> dict[str, int]:
        """Return the sampled transitions per phase, and the bytes of the weights."""
        sampled = self._batch.sampled
        weights = sum(array.nbytes for array in self.acting.weights.arrays.values())
        return {
            "sampled": 0 if sampled is None else sampled.rewards.size,
            "weights_nbytes": weights,
        }

    def _filled_replay(self) -> Replay | None:
        run = self._run
        kind, config = run.replay_kind, run.config.algorithm.replay
        if kind is None or config is None:
            return None
        replay = replay_for(
            kind,
            run.spec,
            config,
            self._n_envs,
            run.seed,
            noise_units=run.stored_noise_units,
            state_units=run.stored_state_units,
        )
        while not replay.fill.is_full:
            replay.insert(self.acting.trajectory)
        return replay


def measure(parts: Parts, names: list[str], seconds: float) -> dict[str, Any]:
    """Return the seconds of each call of the named parts, and the sizes.

    `first` is the first learning phase, which includes tracing and compilation.
    `env_steps` are per rollout, `updates` per learning phase.
    """
    began = time.perf_counter()
    updates = parts.learn() if "learn" in names else 0
    first = time.perf_counter() - began
    calls: dict[str, Callable[[], Callable[[], Any]]] = {
        "roll_out": lambda: parts.acting.roll_out,
        "step": parts.acting.stepper,
        "act": parts.acting.actor,
        "insert": lambda: parts.insert,
        "draw": lambda: parts.draw,
        "sample_32": lambda: parts.sampler(1, 32),
        "sample_4096": lambda: parts.sampler(64, 64),
        "prioritize": parts.prioritizer,
        "learn": lambda: parts.learn,
        "publish": lambda: parts.publish,
        "bind": lambda: parts.acting.bind,
    }
    spans = {name: repeat(calls[name](), seconds) for name in names}
    steps = int(parts.acting.report.steps.sum())
    sizes = {"env_steps": steps, "updates": updates, "first": first}
    return {**sizes, **parts.sizes(), "spans": spans}


def main() -> None:
    """Time the parts that the first argument names."""
    asked = json.loads(sys.argv[1])
    if asked["one_core"] and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    try:
        run = prepare_run(*WORKS[asked["work"]].config(**asked["settings"]))
        if asked["one_core"]:
            run = replace(run, threads=1)
        measured = measure(Parts(run), asked["parts"], asked["seconds"])
    except UserError as error:
        sys.exit(str(error))
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
