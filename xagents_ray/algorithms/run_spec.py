"""A run before it starts: all that its parts are made from."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.core.process import available_cores
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import WeightsFile
from xagents_ray.networks.keras_layers import WholeModel
from xagents_ray.networks.layout import Layout
from xagents_ray.settings.config import Config

SEED_LIMIT = 2**30
"""Above all seeds of first environments: emulators take 31 bits, and the environments
after the first one have the next numbers.
"""
_SMALL, _LARGE = 1e7, 1e8
"""FLOPs of an update's largest matrix product. A large one gains from all cores; below,
threads wait for each other longer than they compute. On CPUs, XLA makes updates faster
whose operations are small, and others slower. docs/adr/0007 has the measurements.
"""


class Threads(NamedTuple):
    """Threads of TensorFlow."""

    within: int  # one operation
    across: int  # operations that don't wait for each other


@dataclass(frozen=True)
class RunSpec:
    """A run before it starts."""

    algorithm: Algorithm  # its row of the table
    config: Config  # all settings
    spec: EnvSpec  # of the environments
    layouts: tuple[Layout, ...]  # of the networks; the first one acts
    seed: int  # given, or drawn
    weights: tuple[WeightsFile, ...] = ()  # files that the models begin with, if any
    # Keras files that the models were made of, whose weights they begin with, if any.
    networks: tuple[bytes | None, ...] = ()
    # Cores that one part of it may use; None for all of its machine.
    threads: int | None = None
    notes: tuple[str, ...] = ()  # what the user should know, one sentence each

    @property
    def cores(self) -> int:
        """Cores that a part of it may use on this machine, where it is asked."""
        return min(available_cores(), self.threads or available_cores())

    @property
    def learner_threads(self) -> Threads:
        """Threads of the learner; the networks of one size may take one each."""
        given = self.config.placement.learner_threads
        cores, flops = given or self.cores, self._update_flops
        if self.compiles(on_gpu=False) and flops >= _SMALL:
            return Threads(cores, 1)
        if flops >= _LARGE:
            # Off-policy, a target network computes beside the one that learns.
            within = cores if self.algorithm.on_policy else (cores + 1) // 2
            return Threads(within, min(cores, 2))
        if flops >= _SMALL and len(self.layouts) > 1:
            return Threads(1, min(cores, len(self.layouts)))
        return Threads(given or 1, 1)

    @property
    def learner_cores(self) -> int:
        """Cores that the learner's threads keep busy."""
        most = self.config.placement.learner_threads or self.cores
        return min(math.prod(self.learner_threads), most)

    def compiles(self, on_gpu: bool) -> bool:
        """Return whether XLA compiles learning phases, on a GPU or a CPU."""
        jit = self.config.placement.jit
        # What is unknown may have operations that XLA lacks.
        layers = [layer for layout in self.layouts for layer in layout.layers]
        is_known = not any(isinstance(layer, WholeModel) for layer in layers)
        gains = on_gpu or self._update_flops < _SMALL
        return jit == "on" or (jit == "auto" and is_known and gains)

    @property
    def _update_flops(self) -> float:
        """Of the largest matrix product of an update."""
        rows = self.config.algorithm.update_rows(self.config.env.n_envs)
        layers = [layer for layout in self.layouts for layer in layout.layers]
        return float(rows * max(layer.flops for layer in layers))

    @property
    def layout(self) -> Layout:
        """Layout of the network that acts."""
        return self.layouts[0]

    @property
    def is_seeded(self) -> bool:
        """Whether the user gave the seed, and so expects a reproducible run."""
        return self.config.training.seed is not None

    @property
    def evaluation_seed(self) -> int:
        """Of the episodes of evaluations, which differ from those of training."""
        return (self.seed + 2**20) % SEED_LIMIT
