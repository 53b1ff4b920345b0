"""The parts of a work, timed one by one: `python -m benchmarks.parts JSON`.

It is a process of its own, as TensorFlow's threads are set once in a process. The
argument holds a work's name, `settings` beside the work's own, and for how many
`seconds` each part is timed; with `one_core` everything runs on a single one. The last
line printed is JSON, see `measure`.
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
from xagents_ray.actors.env_actor import ActorSetup, EnvActor
from xagents_ray.actors.policies.base import noise_generators
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.errors import UserError
from xagents_ray.core.trajectory import (
    Array,
    Batch,
    RolloutReport,
    Trajectory,
    Transitions,
    Weights,
    assemble_batch,
    stack_frames,
)
from xagents_ray.replay.base import Replay
from xagents_ray.run.prepare import prepare_run
from xagents_ray.run.replay_buffer import replay_for
from xagents_ray.run.run_state import UpdateSchedule

_MOST_CALLS = 2_000
_ENV_STEPS = 1_000_000
"""Of a run so far, for what changes with them."""


def repeat(part: Callable[[], Any], seconds: float) -> list[float]:
    """Return the seconds of each call of a part; three at least, one before them."""
    part()
    spans: list[float] = []
    while len(spans) < 3 or (sum(spans) < seconds and len(spans) < _MOST_CALLS):
        began = time.perf_counter()
        part()
        spans.append(time.perf_counter() - began)
    return spans


class Parts:
    """The parts of a run, made as the in-process driver makes them."""

    def __init__(self, run: RunSpec) -> None:
        # It imports TensorFlow, which looks at how many cores there are.
        from xagents_ray.run.learner_access import make_learner

        self._run, self._n_envs = run, run.config.env.n_envs
        self._length = run.config.algorithm.batch_steps
        self._setup = ActorSetup.of(run, self._n_envs)
        self._actor = EnvActor(self._setup)
        self._learner, _ = make_learner(run)
        self._policy = self._setup.make_policy(run.spec)
        self._weights = self.publish()
        self.bind()
        self._trajectory, self.report = self.roll_out()
        self._replay = self._filled_replay()
        self._batch = self.draw()

    def roll_out(self) -> tuple[Trajectory, RolloutReport]:
        """Roll every environment out."""
        return self._actor.rollout(self._weights, self._length, _ENV_STEPS)

    def stepper(self) -> Callable[[], None]:
        """Return a rollout's steps of the environments, with random actions."""
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
        """Return a rollout's choices of actions."""
        rows, stack = self._trajectory, self._run.spec.stack
        window = rows.observations[:stack], rows.starts[:stack]
        seen = stack_frames(*window) if self._run.spec.is_image else window[0][0]
        generators = noise_generators(self._run.seed, 0, self._n_envs)

        def act() -> None:
            for drawn in self._policy.noise(generators, self._length):
                self._policy.act(seen, drawn, _ENV_STEPS)

        return act

    def insert(self) -> None:
        """Copy a rollout into the replay."""
        assert self._replay is not None
        self._replay.insert(self._trajectory)

    def draw(self) -> Batch:
        """Return what a learning phase learns from."""
        run, config = self._run, self._run.config.algorithm.replay
        fresh = [self._trajectory] if run.algorithm.on_policy else []
        if self._replay is None or config is None:
            return assemble_batch(fresh, 0, [run.seed])
        rows = self._length * self._n_envs
        due = UpdateSchedule(run).batches(0, rows, self._replay.fill) - len(fresh)
        size = config.buffer_batch_size
        parts = [*fresh, self._replay.sample(due, size)] if due else fresh
        return assemble_batch(parts, size, [run.seed])

    def sampler(self, batches: int, size: int) -> Callable[[], Any]:
        """Return sampling so many batches of so many transitions."""
        replay = self._replay
        assert replay is not None
        return lambda: replay.sample(batches, size)

    def prioritizer(self) -> Callable[[], None]:
        """Return setting the priorities of 1,000 transitions."""
        replay = self._replay
        assert replay is not None
        drawn = replay.sample(1, 1_000)
        assert isinstance(drawn, Transitions) and drawn.rows is not None
        rows, errors = drawn.rows[0], drawn.rewards[0]

        def prioritize() -> None:
            replay.update(rows, errors)

        return prioritize

    def learn(self) -> int:
        """Do a learning phase; return its updates."""
        statistics = self.report.statistics
        outputs = self._learner.learn(
            self._batch, _ENV_STEPS, statistics, self._weights.version + 1
        )
        self._weights = outputs.weights
        return int(outputs.metrics["updates"])

    def publish(self) -> Weights:
        """Copy the weights to act with."""
        self._weights = self._learner.policy_weights(1)
        return self._weights

    def bind(self) -> None:
        """Make the policy act with them."""
        self._policy.load(self._weights)

    def sizes(self) -> dict[str, int]:
        """Return the transitions that a phase samples, and the bytes of the weights."""
        sampled = self._batch.sampled
        weights = sum(array.nbytes for array in self._weights.arrays.values())
        return {
            "sampled": 0 if sampled is None else sampled.rewards.size,
            "weights_nbytes": weights,
        }

    def _filled_replay(self) -> Replay | None:
        run = self._run
        kind, config = run.algorithm.replay, run.config.algorithm.replay
        if kind is None or config is None:
            return None
        replay = replay_for(kind, run.spec, config, self._n_envs, run.seed)
        while not replay.fill.is_full:
            replay.insert(self._trajectory)
        return replay


def measure(parts: Parts, names: list[str], seconds: float) -> dict[str, Any]:
    """Return the seconds of each call of the parts with these names, and its sizes.

    `first` is the first learning phase: what is traced and compiled is so in it. Env
    steps are those of a rollout, updates those of a learning phase.
    """
    began = time.perf_counter()
    updates = parts.learn() if "learn" in names else 0
    first = time.perf_counter() - began
    calls: dict[str, Callable[[], Callable[[], Any]]] = {
        "roll_out": lambda: parts.roll_out,
        "step": parts.stepper,
        "act": parts.actor,
        "insert": lambda: parts.insert,
        "draw": lambda: parts.draw,
        "sample_32": lambda: parts.sampler(1, 32),
        "sample_4096": lambda: parts.sampler(64, 64),
        "prioritize": parts.prioritizer,
        "learn": lambda: parts.learn,
        "publish": lambda: parts.publish,
        "bind": lambda: parts.bind,
    }
    spans = {name: repeat(calls[name](), seconds) for name in names}
    steps = int(parts.report.steps.sum())
    sizes = {"env_steps": steps, "updates": updates, "first": first}
    return {**sizes, **parts.sizes(), "spans": spans}


def main() -> None:
    """Time what the first argument asks for."""
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
