"""The specification that all parts of a run are constructed from."""

import math
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.algorithms.off_policy import TransitionReplayGroup
from xagents_ray.algorithms.trajectory_replay import TrajectoryReplayGroup
from xagents_ray.core import objects
from xagents_ray.core.plugins import Place
from xagents_ray.core.process import available_cores
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import WeightsFile
from xagents_ray.networks.keras_layers import WholeModel
from xagents_ray.networks.layers import Convolutional
from xagents_ray.networks.layout import Layout
from xagents_ray.networks.onnx_trunk import is_installed, trunk_gains
from xagents_ray.settings.config import Config

TRANSITIONS = "xagents_ray.replay.transitions:TransitionReplay"
SEQUENCES = "xagents_ray.replay.sequences:SequenceReplay"
SEED_LIMIT = 2**30
"""Exclusive limit of the first environment's seed. Emulators take 31 bits, and further
environments count up from it.
"""
_SMALL, _LARGE = 1e7, 1e8
"""Thresholds for the FLOPs of an update's largest matrix product. Large ones benefit
from all cores; with smaller ones, threads spend more time waiting than computing. On
CPUs, XLA speeds up small operations and slows down others; see docs/adr/0007.
"""


def seed_after(restarts: int, seed: int) -> int:
    """Return the seed of a run's first environment after so many restarts."""
    seed %= SEED_LIMIT
    if not restarts:
        return seed
    mixed = np.random.SeedSequence([seed, restarts]).generate_state(1)
    return int(mixed[0] >> 2)


class Threads(NamedTuple):
    """TensorFlow's thread counts."""

    within: int  # intra-op parallelism
    across: int  # inter-op parallelism


@dataclass(frozen=True)
class RunSpec:
    """Specification of a run."""

    algorithm: Algorithm
    config: Config  # all settings
    spec: EnvSpec  # specification of the environments
    layouts: tuple[Layout, ...]  # layouts of the networks; the first one acts
    seed: int  # the user's seed, or a random one
    # Initial weights of the models, if any; beside others, an empty file leaves a
    # model's own.
    weights: tuple[WeightsFile, ...] = ()
    # Contents of the models' Keras files, with their initial weights; None for others.
    networks: tuple[bytes | None, ...] = ()
    # Cores that each part of the run may use; None for all cores of its machine.
    threads: int | None = None
    notes: tuple[str, ...] = ()  # notes for the user, one sentence each
    longest_episode: int = 0  # env steps of the longest one in training; 0 if unknown

    @property
    def cores(self) -> int:
        """Cores that a part of the run may use on the machine that evaluates this."""
        return min(available_cores(), self.threads or available_cores())

    @property
    def learner_threads(self) -> Threads:
        """Threads of each learner; medium networks get one inter-op thread each."""
        given = self.config.placement.learner_threads
        cores, flops = given or self.cores, self._update_flops
        if (count := self.config.placement.n_learners) > 1:
            # In one process, all but one of them may wait for the last.
            across = count + 1 if self.config.placement.local else 2
            return Threads(given or max(1, cores // count), across)
        if self.compiles(on_gpu=False) and flops >= _SMALL:
            return Threads(cores, 1)
        if flops >= _LARGE:
            # Off-policy, a target network computes in parallel with the online one.
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

    @property
    def spared_cores(self) -> int:
        """Cores that env actors leave to a learner on CPUs.

        With rollouts ahead, a multithreaded learner runs at the same time as they do.
        """
        return int(self.config.pipeline.ahead > 0 and self.learner_cores > 1)

    def busy_cores(self, threads: Threads) -> int:
        """Return the cores of this machine that a process with these threads occupies.

        A count of 0 stands for all cores.
        """
        if threads == self.learner_threads:
            return self.learner_cores
        counts = (each or available_cores() for each in threads)
        return min(math.prod(counts), available_cores())

    def compiles(self, on_gpu: bool) -> bool:
        """Return whether XLA compiles the learning phases on a GPU or a CPU."""
        jit = self.config.placement.jit
        if self.config.placement.n_learners > 1:  # XLA has no sums over processes
            return False
        # The user's Keras models may have operations that XLA doesn't support.
        layers = [layer for layout in self.layouts for layer in layout.layers]
        is_known = not any(isinstance(layer, WholeModel) for layer in layers)
        # Without XLA, each row of a sequence waits for its operations one by one.
        loops = any(layer.state_units for layer in layers)
        loops = loops and not any(isinstance(x, Convolutional) for x in layers)
        gains = on_gpu or loops or self._update_flops < _SMALL
        return jit == "on" or (jit == "auto" and is_known and gains)

    def serves(self, on_gpu: bool, shares_process: bool) -> bool:
        """Return whether the learner's process computes the network that acts.

        Args:
            on_gpu: whether the learner has a GPU.
            shares_process: whether env actors are in its process, as with --local.
        """
        given = self.config.placement.inference
        if given != "auto":
            return given == "learner"
        # Parameter noise gives each environment a network of its own.
        noise = vars(self.config.algorithm).get("noise")
        if noise == "parameter" or sys.platform != "linux":
            return False
        layout = self.layout
        has_images = any(len(each.shape) > 1 for each in layout.arrays)
        is_whole = any(isinstance(layer, WholeModel) for layer in layout.layers)
        return (on_gpu and has_images) or (is_whole and not shares_process)

    def onnx_rows(self, n_envs: int) -> float:
        """Return on how many rows ONNX Runtime acts with each version of the weights.

        They are 0 if NumPy computes the whole network, and infinite if ONNX Runtime has
        to compute what it can. `n_envs` is the number of environments of an env actor.
        """
        given = self.config.placement.inference
        if given != "auto":
            return math.inf if given == "onnx" else 0
        rows = n_envs * self.config.algorithm.batch_steps
        return rows if is_installed() and trunk_gains(self.layout, rows) else 0

    @property
    def served_versions(self) -> int:
        """Number of the newest weights with which rollouts may act."""
        return self.config.pipeline.policy_lag + 2

    @property
    def _update_flops(self) -> float:
        """FLOPs of the largest matrix product of an update."""
        rows = self.config.algorithm.update_rows(self.config.env.n_envs)
        rows *= self.sequence_length
        layers = [layer for layout in self.layouts for layer in layout.layers]
        return float(rows * max(layer.flops for layer in layers))

    @property
    def layout(self) -> Layout:
        """Layout of the network that acts."""
        return self.layouts[0]

    @property
    def parts_of_networks(self) -> list[tuple[str, str]]:
        """Setting and name of each initializer and kind of layer of the user's."""
        layers = [layer for layout in self.layouts for layer in layout.layers]
        names = {getattr(layer, "initializer", None) for layer in layers}
        kinds = set(map(type, layers))
        return [
            *(key for key in objects.kept_names("initializer") if key[1] in names),
            *(k for k in objects.kept_names("layer") if objects.find_kept(*k) in kinds),
        ]

    @property
    def stored_noise_units(self) -> int:
        """Size of the network's noise in each trajectory of the replay; 0 for none."""
        replay = self.config.algorithm.replay
        stores = isinstance(replay, TrajectoryReplayGroup)
        return self.layout.noise_units if stores else 0

    @property
    def stored_state_units(self) -> int:
        """Size of the recurrent layers' state that the replay stores; 0 for none."""
        return self.layout.state_units

    @property
    def replay_kind(self) -> Place | None:
        """Class of the replay buffer; with memory, transitions are in sequences."""
        kind = self.algorithm.replay
        return SEQUENCES if kind == TRANSITIONS and self.layout.state_units else kind

    @property
    def sequence_length(self) -> int:
        """Steps of each sampled sequence; 1 if the replay has none."""
        is_long = self.replay_kind == SEQUENCES
        return self.config.algorithm.batch_steps if is_long else 1

    @property
    def step_bytes(self) -> int:
        """Size of one environment's data per step in a rollout, in bytes."""
        spec = self.spec
        arrays = [(spec.observation_dtype, spec.observation_shape)]
        if spec.has_several_arrays:
            arrays = [*spec.arrays.values()]
        sizes = [(1 if x == "uint8" else 4) * math.prod(shape) for x, shape in arrays]
        masks = spec.action_units if spec.has_action_masks else 0
        states = 4 * self.layout.state_units / self.config.algorithm.batch_steps
        return sum(sizes) + masks + math.ceil(states) + 64

    @property
    def sampled_bytes(self) -> int:
        """Size of what a learning phase samples from the replay; 0 without one."""
        replay, n_envs = self.config.algorithm.replay, self.config.env.n_envs
        if replay is None:
            return 0
        rows = replay.sampled_rows(n_envs, self.spec.stack)
        if self.replay_kind == SEQUENCES and isinstance(replay, TransitionReplayGroup):
            rows = replay.sequence_rows(n_envs, self.spec.stack)
        return rows * self.step_bytes

    @property
    def batch_bytes(self) -> int:
        """Size of a batch of transitions that one learner gets; 0 for other data."""
        if self.config.placement.n_learners > 1:  # all of them get a phase at once
            return 0
        replay = self.config.algorithm.replay
        if self.replay_kind != TRANSITIONS or not isinstance(
            replay, TransitionReplayGroup
        ):
            return 0
        rows = replay.buffer_batch_size * replay.sample_rows(self.spec.stack)
        return rows * self.step_bytes

    @cached_property
    def learns_online(self) -> bool:
        """Whether each round is learned from when it arrives."""
        return self.algorithm.on_policy and self.config.algorithm.learns_online

    def requests_at_once(self, on_gpu: bool) -> int:
        """Return how many rollouts are requested of an asynchronous env actor at once.

        A replay takes rollouts of any age: the second one acts with weights that are
        one rollout older, and its actor doesn't wait for the driver in between. There
        is none where the learner's process acts, which holds the newest weights only.
        `on_gpu` says whether the learner uses a GPU.
        """
        serves = self.serves(on_gpu, shares_process=False)
        return 1 if self.algorithm.on_policy or serves else 2

    @property
    def is_seeded(self) -> bool:
        """Whether the user set the seed and so expects a reproducible run."""
        return self.config.training.seed is not None

    @property
    def evaluation_seed(self) -> int:
        """Seed of evaluation episodes, different from the seeds of training."""
        return (self.seed + 2**20) % SEED_LIMIT
