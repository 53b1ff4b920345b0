"""Several learners in one process, called like one: `--local --n-learners`."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

from xagents_ray.core.batches import PhaseBatch
from xagents_ray.core.moments import Statistics
from xagents_ray.core.trajectory import Array, PhaseOutputs, Weights
from xagents_ray.learners.inference_server import InferenceServer
from xagents_ray.learners.learner import Learner
from xagents_ray.learners.math.shares import Shares
from xagents_ray.learners.state import LearnerState

__autograph__ = False

_T = TypeVar("_T")


class Replicas:
    """Learners that run each phase side by side, in a thread each.

    What one learner would return is that of the first; they are equal.

    Args:
        make: function that returns a learner with a share of the work.
        size: number of learners.
    Attributes:
        learners: the learners.
        state: the state of all of them.
    """

    def __init__(self, make: Callable[[Shares], Learner], size: int) -> None:
        self._meeting = threading.Barrier(size)
        self._parts: list[Any] = [None] * size
        shares = [Shares(rank, size, self._total(rank)) for rank in range(size)]
        self.learners = [make(each) for each in shares]
        self.state = _States([each.state for each in self.learners])
        self._threads = ThreadPoolExecutor(size, "replica")

    @property
    def version(self) -> int:
        """Version of the newest published weights."""
        return self.learners[0].version

    @property
    def server(self) -> InferenceServer | None:
        """Computes the acting network for env actors; None if they do."""
        return self.learners[0].server

    def serve(self, slots: Sequence[tuple[int, int]], n_newest: int) -> None:
        """Compute the acting network for env actors; see `Learner.serve`."""
        self.learners[0].serve(slots, n_newest)

    def learn(
        self, batch: PhaseBatch, env_steps: int, statistics: Statistics, version: int
    ) -> PhaseOutputs:
        """Run one learning phase in all learners; see `Learner.learn`."""
        first, *_ = self.together(
            lambda x: x.learn(batch, env_steps, statistics, version)
        )
        return first

    def policy_weights(self, version: int) -> Weights:
        """Return the weights to act with, published under this version."""
        first, *_ = [each.policy_weights(version) for each in self.learners]
        return first

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Load weights into all learners; see `Learner.load`."""
        for each in self.learners:
            each.load(arrays)

    def stop(self) -> None:
        """Make an update in progress end; see `Learner.stop`."""
        for each in self.learners:
            each.stop()

    def together(self, work: Callable[[Learner], _T]) -> list[_T]:
        """Return the results of a function of each learner, all at the same time."""
        self._meeting.reset()

        def guarded(learner: Learner) -> _T:
            try:
                return work(learner)
            except BaseException:
                self._meeting.abort()  # the others would wait forever
                raise

        waiting = [self._threads.submit(guarded, each) for each in self.learners]
        errors = [x for each in waiting if (x := each.exception()) is not None]
        own = [x for x in errors if threading.BrokenBarrierError.__name__ not in str(x)]
        for error in own or errors:
            raise error
        return [each.result() for each in waiting]

    def _total(self, rank: int) -> Callable[[tf.Tensor], tf.Tensor]:
        """Return the function of a tensor to its sum over all learners, for one."""

        def meet(part: Any) -> Any:
            self._parts[rank] = part
            self._meeting.wait()
            whole = sum(self._parts[1:], start=self._parts[0])
            self._meeting.wait()  # nobody replaces a part before all have read it
            return np.asarray(whole, part.dtype)

        def total(x: tf.Tensor) -> tf.Tensor:
            whole = tf.numpy_function(meet, [x], x.dtype)
            whole.set_shape(x.shape)
            return whole

        return total


class _States:
    """The states of several equal learners, called like that of one."""

    def __init__(self, states: Sequence[LearnerState]) -> None:
        self._states = states

    def arrays(self, models: Sequence[str] | None = None) -> dict[str, Array]:
        return self._states[0].arrays(models)

    def restore(self, arrays: Mapping[str, Array]) -> None:
        for each in self._states:
            each.restore(arrays)

    def assign(self, arrays: Mapping[str, Array]) -> None:
        for each in self._states:
            each.assign(arrays)

    def scale_lr(self, factor: float) -> float:
        first, *_ = [each.scale_lr(factor) for each in self._states]
        return first
