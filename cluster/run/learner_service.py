"""A learner of a run as a Ray actor."""

import os
import socket
import time
from collections.abc import Sequence
from typing import Any

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.cluster.ray.actor_group import ActorGroup
from xagents_ray.cluster.run.feed import Receipt, pull
from xagents_ray.core.batches import Batch, BatchPart, Chunks, assemble_batch
from xagents_ray.core.moments import Statistics
from xagents_ray.core.objects import install_definitions
from xagents_ray.core.trajectory import (
    Array,
    PhaseOutputs,
    Weights,
    WeightsFile,
)
from xagents_ray.run.learner_access import (
    encode_models,
    has_lost_learner,
    load_tensorflow,
    make_learner,
)


class LearnerService:
    """A learner of a run; `stop` and `ping` are answered during `update`.

    Args:
        run: the run.
        definitions: definitions of initializers that its process lacks.
        slots: slots of the env actors for which it acts; see `InferenceServer`.
    """

    def __init__(
        self,
        run: RunSpec,
        definitions: tuple[bytes, ...] = (),
        slots: Sequence[tuple[int, int]] = (),
    ) -> None:
        self._run, self._definitions, self._slots = run, definitions, slots
        self._rank, self._addresses = 0, tuple[str, ...]()

    def address(self) -> str:
        """Return an address of this process at which other learners can reach it."""
        import ray

        # Open until this process ends: others can't take the port, but TensorFlow can.
        self._reserved = socket.socket(socket.AF_INET)
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, True)
        self._reserved.bind((host := ray.util.get_node_ip_address(), 0))
        return f"{host}:{self._reserved.getsockname()[1]}"

    def meet(self, rank: int, *addresses: str) -> None:
        """Share the work of each update with the learners at these addresses."""
        self._rank, self._addresses = rank, addresses

    def start(self) -> tuple[int, list[str]]:
        """Create the learner; return its cores, and notes on the initial weights."""
        if self._run.config.placement.n_learners > 1 and not self._addresses:
            os._exit(1)  # another one died before it gave its address
        load_tensorflow()  # quietly, before initializers import it
        install_definitions(self._definitions)
        self._learner, notes = make_learner(self._run, self._rank, self._addresses)
        if self._slots:
            self._learner.serve(self._slots, self._run.served_versions)
        return self._run.learner_cores, list(notes)

    def ping(self) -> None:
        """Show that the process is alive."""

    def acts(self) -> bool:
        """Return whether the learner acts for env actors, if it has to.

        It may hang; if it failed, its error is raised.
        """
        server = self._learner.server
        return server is None or server.is_working()

    def weights(self, version: int) -> Weights:
        """Return the newest weights, labeled with a version."""
        return self._learner.policy_weights(version)

    def publish(self, version: int) -> None:
        """Label the newest weights with a version, as the first learner does."""
        self._learner.policy_weights(version)

    def update(
        self,
        version: int,
        env_steps: int,
        statistics: Statistics,
        *batch: BatchPart | Receipt,
    ) -> PhaseOutputs:
        """Run one learning phase; return its results.

        If a shard fails while its samples are fetched, nothing of the phase is learned.

        Args:
            version: version of the weights after the phase.
            env_steps: env steps of the run, after the batch was collected.
            statistics: statistics of the steps since the previous phase.
            batch: trajectories of a round, and each replay shard's samples, or its
                receipt for them.
        """
        began = time.perf_counter()
        replay = self._run.config.algorithm.replay
        size = 0 if replay is None else replay.buffer_batch_size
        seed = [self._run.seed, env_steps]
        receipts = [each for each in batch if isinstance(each, Receipt)]
        if receipts:
            chunks = pull(receipts, size, seed)
            outputs = self._learn_chunks(chunks, env_steps, statistics, version)
        else:
            whole = [each for each in batch if not isinstance(each, Receipt)]
            data = assemble_batch(whole, size, seed)
            outputs = self._learn(data, env_steps, statistics, version)
        seconds = time.perf_counter() - began
        return outputs._replace(metrics={**outputs.metrics, "seconds": seconds})

    def _learn(
        self, data: Batch, env_steps: int, statistics: Statistics, version: int
    ) -> PhaseOutputs:
        """Run one learning phase; end this process if another learner is lost."""
        try:
            return self._learner.learn(data, env_steps, statistics, version)
        except Exception as error:
            if self._addresses and has_lost_learner(error):
                os._exit(1)
            raise

    def follow(self, *given: Any) -> None:
        """Run one learning phase like `update`, whose results the first one returns."""
        self.update(*given)

    def _learn_chunks(
        self, chunks: Chunks, env_steps: int, statistics: Statistics, version: int
    ) -> PhaseOutputs:
        """Run one learning phase; if a chunk is lost, as if it had not begun."""
        before = self._learner.state.arrays()
        try:
            return self._learner.learn(chunks, env_steps, statistics, version)
        except Exception:
            self._learner.state.restore(before)
            raise
        finally:
            chunks.parts.close()

    def scale_lr(self, factor: float) -> float:
        """Multiply the learning rates by a factor; return the new one."""
        return self._learner.state.scale_lr(factor)

    def state(self) -> dict[str, Array]:
        """Return a copy of the learner's state by name."""
        return self._learner.state.arrays()

    def restore(self, arrays: dict[str, Array]) -> None:
        """Restore the learner's state from a copy."""
        self._learner.state.restore(arrays)

    def encode(
        self, arrays: dict[str, Array], paths: Sequence[str]
    ) -> list[WeightsFile]:
        """Return the models in a state as weights files."""
        return encode_models(self._run, arrays, paths)

    def stop(self) -> None:
        """Make an update in progress end after its current pass."""
        self._learner.stop()


def learner_group(actors: Sequence[Any]) -> ActorGroup:
    """Return the actors of several learners as a group that shares each update.

    If one of them dies, the sums of the others fail, which ends their processes; so the
    whole group is replaced when its first learner is.
    """
    addresses = [each.address.remote() for each in actors]
    for rank, each in enumerate(actors):
        each.meet.remote(rank, *addresses)
    joint = {name: name for name in ("restore", "scale_lr", "start", "stop")}
    return ActorGroup(actors, {**joint, "update": "follow", "weights": "publish"})
