"""The in-process driver: `--local`, no Ray."""

import importlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from xagents_ray.algorithms import resolve
from xagents_ray.config import OffPolicyConfig
from xagents_ray.machine import cores
from xagents_ray.replay import TransitionReplay, replay_for
from xagents_ray.signals import Signals
from xagents_ray.training import Collected, Run
from xagents_ray.trajectory import Trajectory


class LocalBackend:
    """One env actor, one learner and one replay as plain objects.

    The learner runs in a thread of its own, so that a signal is heard while
    TensorFlow is busy.
    """

    def __init__(self, run: Run) -> None:
        self._run, self._config = run, run.config.algorithm
        self._thread = ThreadPoolExecutor(1, "learner")
        self._learner = self._thread.submit(_make_learner, run).result()
        env_actor = importlib.import_module("xagents_ray.actors.env_actor")
        config = run.config.env
        setup = env_actor.ActorSetup(
            run.algorithm.name,
            run.config,
            run.layout,
            run.seed,
            0,
            config.n_envs,
            cores(),
        )
        self._actor = env_actor.EnvActor(setup)
        self._replay: TransitionReplay | None = None
        if isinstance(self._config, OffPolicyConfig):
            self._replay = replay_for(run.spec, self._config, config.n_envs, run.seed)
        self._weights = self._learner.policy_weights()
        self._round: Trajectory | None = None

    def collect(self, env_steps: int) -> Collected:
        """Roll every environment out with the newest weights; fill the replay."""
        length = self._config.batch_steps
        trajectory, report = self._actor.rollout(self._weights, length, env_steps)
        if self._replay is None:
            self._round = trajectory
            return Collected([report], None)
        self._replay.insert(trajectory)
        return Collected([report], self._replay.fill)

    def learn(self, batches: int, env_steps: int) -> dict[str, float]:
        """Run one learning phase and take its weights."""
        batch: Any = [self._round]
        if self._replay is not None and isinstance(self._config, OffPolicyConfig):
            batch = self._replay.sample(batches, self._config.buffer_batch_size)
        metrics, self._weights = self._thread.submit(
            lambda: (
                self._learner.update(batch, env_steps),
                self._learner.policy_weights(),
            )
        ).result()
        return metrics  # type: ignore[no-any-return]

    def stop(self) -> None:
        """End what is in progress early."""
        self._actor.stop()
        self._learner.stop()

    def close(self) -> None:
        """End the environments."""
        self._thread.shutdown()
        self._actor.close()


def _make_learner(run: Run) -> Any:
    runtime = importlib.import_module("xagents_ray.learners.runtime")
    runtime.configure(cores(), run.is_seeded)
    learner = resolve(run.algorithm.learner)
    return learner(run.config.algorithm, run.spec, run.layout, run.seed)


def start(run: Run, signals: Signals) -> LocalBackend:
    """Return the parts of a run in this process."""
    backend = LocalBackend(run)
    signals.on_first = backend.stop
    return backend
