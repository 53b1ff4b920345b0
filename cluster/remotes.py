"""What runs in Ray's actor processes: plain classes, wrapped where they are used."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xagents_ray.backend import Run
from xagents_ray.hyperparameters import ReplayConfig
from xagents_ray.moments import Statistics
from xagents_ray.replay import Fill, replay_for
from xagents_ray.trajectory import Array, Replayed, Trajectory, Transitions, Weights
from xagents_ray.weights import WeightsFile


class ReplayService:
    """The replay buffer of a run."""

    def __init__(self, run: Run) -> None:
        config = run.config.algorithm
        kind = run.algorithm.replay
        assert kind is not None and isinstance(config, ReplayConfig)
        self._batch_size = config.buffer_batch_size
        self._replay = replay_for(
            kind, run.spec, config, run.config.env.n_envs, run.seed
        )

    def insert(self, *trajectories: Trajectory) -> Fill:
        """Copy trajectories in; return how full it is."""
        for trajectory in trajectories:
            self._replay.insert(trajectory)
        return self._replay.fill

    def nbytes(self) -> int:
        """Return the bytes of everything it holds."""
        return self._replay.nbytes

    def save(self, directory: str) -> None:
        """Write its file there."""
        self._replay.save(Path(directory))

    def load(self, checkpoint: str) -> None:
        """Take everything from a checkpoint with a replay."""
        self._replay.load(Path(checkpoint))

    def sample(self, batches: int) -> Transitions | Replayed:
        """Draw K batches."""
        return self._replay.sample(batches, self._batch_size)


class LearnerService:
    """The learner of a run; `stop` is heard while `update` is at work."""

    def __init__(self, run: Run, threads: int) -> None:
        self._run = run
        self._make = importlib.import_module("xagents_ray.learners.make")
        self._learner, self._notes = self._make.make_learner(run, threads)

    def notes(self) -> list[str]:
        """Return what the user should know of the first weights."""
        return self._notes

    def weights(self) -> Weights:
        """Return the newest weights under a new version."""
        return self._learner.policy_weights()

    def update(
        self,
        env_steps: int,
        statistics: Statistics,
        *batch: Trajectory | Replayed | Transitions,
    ) -> tuple[dict[str, float], Weights]:
        """Run one learning phase; return its metrics and the weights after it."""
        data: Sequence[Any] | Any = batch
        if isinstance(batch[0], Transitions):
            data = batch[0]
        return self._make.learn(self._run, self._learner, data, env_steps, statistics)

    def scale_lr(self, factor: float) -> float:
        """Multiply the learning rates; return the new one."""
        return self._learner.state.scale_lr(factor)

    def state(self) -> dict[str, Array]:
        """Return a copy of the learner's state by name."""
        return self._learner.state.arrays()

    def restore(self, arrays: dict[str, Array]) -> None:
        """Take the learner's state from a copy."""
        self._learner.state.restore(arrays)

    def encode(
        self, arrays: dict[str, Array], paths: Sequence[str]
    ) -> list[WeightsFile]:
        """Return the models in a state as weights files."""
        return self._make.encode_models(self._run, arrays, paths)

    def stop(self) -> None:
        """Make an update in progress end after its current pass."""
        self._learner.stop()
