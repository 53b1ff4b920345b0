"""A run before it starts: all that its parts are made from."""

from dataclasses import dataclass

from xagents_ray.algorithms.row import Algorithm
from xagents_ray.core.process import cores
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import WeightsFile
from xagents_ray.networks.layout import Layout
from xagents_ray.settings.config import Config


@dataclass(frozen=True)
class RunSpec:
    """A run before it starts."""

    algorithm: Algorithm  # its row of the table
    config: Config  # all settings
    spec: EnvSpec  # of the environments
    layouts: tuple[Layout, ...]  # of the networks; the first one acts
    seed: int  # given, or drawn
    weights: tuple[WeightsFile, ...] = ()  # files that the models begin with, if any
    # Cores that one part of it may use; None for all of its machine.
    threads: int | None = None
    notes: tuple[str, ...] = ()  # what the user should know, one sentence each

    @property
    def cores(self) -> int:
        """Cores that a part of it may use on this machine, where it is asked."""
        return min(cores(), self.threads or cores())

    @property
    def layout(self) -> Layout:
        """Of the network that acts."""
        return self.layouts[0]

    @property
    def is_seeded(self) -> bool:
        """Whether the user gave the seed, and so expects a reproducible run."""
        return self.config.training.seed is not None

    @property
    def evaluation_seed(self) -> int:
        """Of the episodes of evaluations, which differ from those of training."""
        return (self.seed + 2**20) % 2**30
