"""How many batches the rollouts so far make due."""

import numpy as np

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.replay.base import Fill


class UpdateSchedule:
    """How many batches the next learning phase takes.

    Attributes:
        steps: env steps that have made no batch due yet.
    """

    def __init__(self, run: RunSpec) -> None:
        self._run = run
        self.steps = 0
        self._has_begun = False

    def batches(self, before: int, now: int, replay: Fill | None) -> int:
        """Return how many batches are due; on-policy, the newest round is one.

        Args:
            before: env steps of the whole run before the newest round.
            now: env steps after it.
            replay: how full it is; None without one.
        """
        c, fresh = self._run.config.algorithm.replay, int(self._run.algorithm.on_policy)
        if c is None or replay is None or replay.size == 0:
            return fresh
        # When a shard of the replay dies, learning continues from what is left.
        needed = c.initial_size
        if self._has_begun:
            needed = min(needed, c.buffer_batch_size)
        if not (replay.is_full or replay.size >= needed):
            return fresh
        self._has_begun = True
        # A resumed run draws what an unbroken one would have drawn.
        generator = np.random.default_rng([self._run.seed, now])
        sampled, self.steps = c.due(self.steps + now - before, generator)
        return fresh + sampled
