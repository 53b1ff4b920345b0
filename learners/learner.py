"""The learner of a run: state, normalization and publishing around its algorithm."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, final

import numpy as np
import tensorflow as tf

from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.core.batches import Batch, Chunks, PhaseBatch
from xagents_ray.core.errors import UserError
from xagents_ray.core.moments import OBSERVATION, Statistics
from xagents_ray.core.plugins import resolve_class
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import (
    VERSION,
    Array,
    PhaseOutputs,
    Weights,
)
from xagents_ray.learners import runtime
from xagents_ray.learners.inference_server import InferenceServer
from xagents_ray.learners.learning_algorithm import LearningAlgorithm
from xagents_ray.learners.math.flat import concat_flat, split_flat
from xagents_ray.learners.math.shares import ALONE, Shares
from xagents_ray.learners.metrics import (
    means_of_phase,
    pack_metrics,
    unpack_metrics,
)
from xagents_ray.learners.normalizer import Normalizer
from xagents_ray.learners.optimizer import update_targets
from xagents_ray.learners.padding import (
    pad_batches,
    round_widths,
    split_batches,
    widen_rounds,
)
from xagents_ray.learners.phase_results import PhaseResults
from xagents_ray.learners.setup import LearnerSetup
from xagents_ray.learners.state import COUNT, LearnerState
from xagents_ray.learners.tensors import Phase
from xagents_ray.networks.layout import Layout
from xagents_ray.settings.algorithm import AlgorithmConfig

_FACTS = tf.TensorSpec([5], tf.int64)
Metrics = dict[str, float]
"""Means over one learning phase by name, and its number of `updates`."""


@final
class Learner:
    """An algorithm with its state, normalizer, counters and weights to publish.

    Args:
        row: description of the algorithm.
        config: the algorithm's settings.
        spec: spec of the environments.
        layouts: layouts of the networks; the first network acts.
        seed: seed of the run.
        max_steps: env steps over which settings decay, or None.
        compiled: whether XLA compiles learning phases; `stop` can't interrupt these.
        n_envs: environments of the run, to pad rounds to few widths; None to not pad.
        shares: the learner's share of the work of several.
    Attributes:
        setup: registry of the algorithm's networks, optimizers and variables.
        algorithm: the algorithm that learns.
        normalizer: normalizer of observations and rewards.
        state: all variables that a checkpoint holds.
        server: computes the acting network for env actors; None if they do.
    """

    server: InferenceServer | None = None

    def __init__(
        self,
        row: Algorithm,
        config: AlgorithmConfig,
        spec: EnvSpec,
        layouts: Sequence[Layout],
        seed: int,
        max_steps: int | None = None,
        compiled: bool = False,
        n_envs: int | None = None,
        shares: Shares = ALONE,
    ) -> None:
        self._row, self._config, self._max_steps = row, config, max_steps
        self.normalizer = Normalizer(config, spec)
        with tf.device(device := runtime.device_of_loops(compiled)):
            self._stopping = tf.Variable(False, trainable=False)
        self.setup = setup = LearnerSetup[Any](
            config=config,
            spec=spec,
            layouts=tuple(layouts),
            seed=seed,
            inputs=partial(self.normalizer.inputs, layouts[0]),
            stop_flag=self._stopping,
            remaining=self._remaining,
            counter_device=device,
            shares=shares,
        )
        self.algorithm: LearningAlgorithm = resolve_class("learner", row.learner)(setup)
        if not isinstance(row.learner, str):
            runtime.check_source(self.algorithm)
        data = self.algorithm.data.with_masks_of(spec).with_memory_of(layouts[0])
        self._compiled, self._data = compiled, data
        self._version = setup.counter(VERSION.removeprefix(COUNT))
        self._env_steps = setup.counter("env_steps")
        variables = {**self.normalizer.named(row.models[0].name), **setup.variables}
        self.state = LearnerState(setup.models, setup.optimizers, variables)
        self._widths = tuple[int, ...]()
        if n_envs is not None and row.on_policy and "valid" in data.fields:
            self._widths = round_widths(n_envs, config.replay is not None)
        self._names = list[tuple[str, ...]]()
        noise, state = layouts[0].noise_units, layouts[0].state_units
        signature = data.signature(spec, noise, state), _FACTS
        self._phase = runtime.graph_of(self._learn, signature, compiled, self.algorithm)
        self._check_errors()
        self._publish = self._publishing()

    @property
    def version(self) -> int:
        """Version of the newest published weights."""
        return int(self._version)

    @property
    def remaining(self) -> float:
        """Fraction of the run after the newest batch; 1 without `max_steps`."""
        return float(self._remaining())

    def learn(
        self, batch: PhaseBatch, env_steps: int, statistics: Statistics, version: int
    ) -> PhaseOutputs:
        """Run one learning phase; return its results.

        Args:
            batch: data to learn from, or chunks of it.
            env_steps: env steps of the whole run, after the batch was collected.
            statistics: moments of the steps since the last phase, merged before this
                phase. An on-policy phase merges those of observations afterwards,
                except the first ones: the statistics are part of the policy, so the
                phase uses those of the behavior policy.
            version: version of the weights after the phase.
        """
        kept = self._row.on_policy and self.normalizer.has_seen(OBSERVATION)
        later = {k: m for k, m in statistics.items() if kept and k == OBSERVATION}
        now = {k: m for k, m in statistics.items() if k not in later}
        self.normalizer.take(now)
        self.setup.shares.check_equal(version, [*self.state.variables.values()])
        if self._config.lr_decay:
            self.state.decay_lr(self.remaining)
        elif self.setup.lr_schedules:
            self.state.schedule_lr(self.setup.lr_schedules, 1 - self.remaining)
        outputs = self._run(batch, env_steps, version)
        if not later:
            return outputs
        self.normalizer.take(later)
        return outputs._replace(weights=self.policy_weights(version))

    def update(self, batch: Batch, env_steps: int) -> Metrics:
        """Run the updates of one learning phase; return metrics, `updates` last."""
        return self._run(batch, env_steps, self.version).metrics

    def policy_weights(self, version: int) -> Weights:
        """Return the weights to act with, published under this version."""
        return self._weights(version, self._publish(tf.constant(version, tf.int64)))

    def _run(self, batch: PhaseBatch, env_steps: int, version: int) -> PhaseOutputs:
        """Run one learning phase without updating the normalizer."""
        results, flat = PhaseResults(), None
        for chunk, width, later in self._chunks(batch, results):
            new = self.version if later else version
            numbers, flat, own = self._run_chunk(chunk, env_steps, new, width, later)
            del chunk
            results.add(numbers.numpy(), own)
        assert flat is not None
        metrics = unpack_metrics(self._names, results.packed)
        return PhaseOutputs(metrics, self._weights(version, flat), results.priorities)

    def _chunks(
        self, batch: PhaseBatch, results: PhaseResults
    ) -> Iterator[tuple[Any, int, int]]:
        """Yield chunks, their widths without padding, and how many batches follow.

        None follow after `stop`. The rows of the samples are added to the results.
        """
        parts: Iterable[Batch] = [batch] if isinstance(batch, Batch) else batch.parts
        later = batch.total if isinstance(batch, Chunks) else 0
        for part in parts:
            data = self._data.of(part)
            results.add_rows(part.rows)
            del part
            width, later = data.rewards.shape[-1], max(later, len(data.rewards))
            if isinstance(batch, Chunks) and self._stopping:  # nothing more is learned
                return (yield data, width, 0)
            if self._widths:
                data = widen_rounds(data, self._widths)
            is_split = self._pads_batches and not self._data.is_joint
            for chunk in split_batches(data) if is_split else [data]:
                later -= len(chunk.rewards)
                yield chunk, width, later

    def _run_chunk(
        self, data: Any, env_steps: int, version: int, width: int, later: int
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor | None]:
        """Run a chunk of a learning phase; return the results of `_learn`.

        References to the padded data and its tensors end with the function.
        """
        facts = [env_steps, version, len(data.rewards), width, later]
        padded = pad_batches(data) if self._pads_batches else data
        tensors = self._data.tensors(padded)
        del padded  # XLA may copy the tensors: three copies otherwise
        result: tuple[tf.Tensor, tf.Tensor, tf.Tensor | None]
        phase = runtime.tensor_of(np.array(facts, np.int64))
        result = self.traced(*tf.nest.flatten((tensors, phase)))
        return result

    @cached_property
    def _pads_batches(self) -> bool:
        """Whether the number of batches is padded, as XLA compiles for each one."""
        return self._compiled and self._config.replay is not None

    def _weights(self, version: int, flat: tf.Tensor) -> Weights:
        """Return the network's weights, split from one float32 [P], and statistics."""
        arrays = split_flat(flat.numpy(), self._shapes)
        weights = Weights(version, arrays | self.normalizer.policy_arrays())
        return weights if self.server is None else self.server.hold(weights)

    def serve(self, slots: Sequence[tuple[int, int]], n_newest: int) -> None:
        """Compute the acting network for env actors from now on.

        The arguments are those of `InferenceServer`.
        """
        layout, spec = self.setup.layouts[0], self.setup.spec
        self.server = InferenceServer(layout, self._config, spec, slots, n_newest)

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Load weights by name, such as `policy/dense-0/kernel`, and sync the targets.

        Raises:
            UserError: a name or shape doesn't match the learner's.
        """
        self.state.assign(arrays)
        update_targets(self.setup.targets, 1)

    def stop(self) -> None:
        """Make an update in progress, and all later ones, end after the current pass.

        A pass is an epoch or a batch; later ones are skipped.
        """
        self._stopping.assign(True)

    @cached_property
    def traced(self) -> Any:
        """The learning phase as one graph, a function of flat tensors."""
        return runtime.traced(self._phase)

    def _check_errors(self) -> None:
        """Raise UserError if a prioritized replay would receive no errors."""
        if self._config.replay is None or not self._config.replay.takes_errors:
            return
        _, _, errors = self._phase.get_concrete_function().structured_outputs
        if errors is None:
            raise UserError(
                f"{self._row.name} returns no errors of what it samples: leave out "
                "--prioritized."
            )

    def _learn(
        self, tensors: dict[str, tf.Tensor], facts: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor | None]:
        """Run a learning phase in the graph.

        `facts`, int64 [5], are the env steps of the run, the new version of the
        weights, and the last three fields of `Phase`. All chunks of a phase see what
        was before its first one. Return packed metrics, the weights, and the
        algorithm's errors.
        """
        env_steps, version, *sizes = tf.unstack(facts)
        data = self._data.record(**tensors)
        data = data._replace(rewards=self.normalizer.rewards(data.rewards))
        sizes = [tf.cast(size, tf.int32) for size in sizes]
        before = self._version.read_value()
        phase = Phase(env_steps, self._remaining(), before, *sizes)
        learned = self.algorithm.learn(data, phase)
        is_last = phase.later == 0
        self._env_steps.assign(tf.where(is_last, env_steps, self._env_steps))
        measured = {name: read() for name, read in self.setup.measured.items()}
        means = learned.means | means_of_phase(measured, learned.updates)
        self._names = list(means)
        packed = pack_metrics(means, learned.updates)
        return packed, self._publish_as(version), learned.errors

    def _remaining(self) -> tf.Tensor:
        """Return the fraction of the run after the newest batch, float32 []."""
        if self._max_steps is None:
            return tf.constant(1.0)
        done = tf.cast(self._env_steps, tf.float64) / self._max_steps
        return tf.nn.relu(tf.cast(1 - done, tf.float32))

    def _publishing(self) -> Any:
        self._shapes = {name: tuple(x.shape) for name, x in self._published.items()}
        publish = tf.function(self._publish_as, autograph=False)
        return runtime.traced(publish, tf.TensorSpec([], tf.int64))

    def _publish_as(self, version: tf.Tensor) -> tf.Tensor:
        """Return the float32 weights to act with as one [P], in the graph."""
        self._version.assign(version)
        return concat_flat(list(self._published.values()))

    @cached_property
    def _published(self) -> dict[str, Any]:
        """Variables of the float32 weights to act with, by name."""
        acting = self._row.models[0]
        statistics = self.normalizer.named(acting.name)
        variables = self.state.variables
        own = {name: x for name, x in variables.items() if name not in statistics}
        return acting.own(own)
