"""What runs in Ray's actor processes: plain classes, wrapped where they are used."""

import importlib
from collections.abc import Sequence
from typing import Any

from xagents_ray.algorithms import resolve
from xagents_ray.config import OffPolicyConfig
from xagents_ray.replay import Fill, TransitionReplay, replay_for
from xagents_ray.training import Run
from xagents_ray.trajectory import Trajectory, Transitions, Weights


class ReplayService:
    """The replay buffer of a run."""

    def __init__(self, run: Run) -> None:
        config = run.config.algorithm
        assert isinstance(config, OffPolicyConfig)
        self._batch_size = config.buffer_batch_size
        self._replay: TransitionReplay = replay_for(
            run.spec, config, run.config.env.n_envs, run.seed
        )

    def insert(self, *trajectories: Trajectory) -> Fill:
        """Copy trajectories in; return how full it is."""
        for trajectory in trajectories:
            self._replay.insert(trajectory)
        return self._replay.fill

    def sample(self, batches: int) -> Transitions:
        """Draw K batches."""
        return self._replay.sample(batches, self._batch_size)


class LearnerService:
    """The learner of a run; `stop` is heard while `update` is at work."""

    def __init__(self, run: Run, threads: int) -> None:
        runtime = importlib.import_module("xagents_ray.learners.runtime")
        runtime.configure(threads, run.is_seeded)
        learner = resolve(run.algorithm.learner)
        self._learner = learner(run.config.algorithm, run.spec, run.layout, run.seed)

    def weights(self) -> Weights:
        """Return the newest weights under a new version."""
        return self._learner.policy_weights()

    def update(
        self, env_steps: int, *batch: Trajectory | Transitions
    ) -> tuple[dict[str, float], Weights]:
        """Run one learning phase; return its metrics and the weights after it."""
        data: Sequence[Any] | Any = batch
        if isinstance(batch[0], Transitions):
            data = batch[0]
        metrics = self._learner.update(data, env_steps)
        return metrics, self._learner.policy_weights()

    def stop(self) -> None:
        """Make an update in progress end after its current pass."""
        self._learner.stop()
