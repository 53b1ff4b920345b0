"""Inputs of the graph: tensors named after the fields of a record."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from xagents_ray.core.batches import Batch
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import (
    ACTION_MASKS,
    FRAME_FIELDS,
    NETWORK_NOISE,
    RECURRENT_STATE,
    Observations,
    Trajectory,
    Transitions,
    field_types,
    map_array,
    map_arrays,
    required_fields,
)
from xagents_ray.learners.runtime import tensor_of
from xagents_ray.networks.layout import Layout
from xagents_ray.settings.algorithm import AlgorithmConfig

__autograph__ = False


class Phase(NamedTuple):
    """Scalars of one learning phase.

    Attributes:
        env_steps: int64 [], env steps of the run after the batch was collected.
        remaining: float32 [], the fraction of --max-steps that was left before the
            batch's first step; 1 without --max-steps.
        weights_version: int64 [], version of the newest published weights.
        batches: int32 [], minibatches to learn from; the data may be padded with more.
        width: int32 [], trajectories side by side; the data may be padded with more.
        later: int32 [], minibatches of the phase that are in later chunks.
    """

    env_steps: tf.Tensor
    remaining: tf.Tensor
    weights_version: tf.Tensor
    batches: tf.Tensor
    width: tf.Tensor
    later: tf.Tensor


@dataclass(frozen=True)
class Reader:
    """Selects what an algorithm reads from each batch.

    Attributes:
        record: type of the record that it reads, `Trajectory` or `Transitions`.
        optional: names of the fields that it reads besides the required ones; all
            others are None.
        sources: function of a batch that returns the records to read, which are joined
            along their first dimension.
        dims: number of leading dimensions of unknown size in each field.
        other_dims: exceptions to `dims`, by field.
        is_joint: whether one update uses several of the K batches, so that a phase
            can't be split into chunks.
    """

    record: type[Any]
    optional: tuple[str, ...]
    sources: Callable[[Batch], Sequence[Any]]
    dims: int
    other_dims: Mapping[str, int] = field(default_factory=dict)
    is_joint: bool = False

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields that it reads."""
        return (*required_fields(self.record), *self.optional)

    def with_noise_of(self, layout: Layout) -> "Reader":
        """Return a reader that also reads the network's noise, if its layers have any.

        `layout` is that of the network that acts.
        """
        if not layout.noise_units:
            return self
        return replace(self, optional=(*self.optional, NETWORK_NOISE))

    def with_masks_of(self, spec: EnvSpec) -> "Reader":
        """Return a reader that also reads action masks, if environments give any."""
        if not spec.has_action_masks:
            return self
        return replace(self, optional=(*self.optional, ACTION_MASKS))

    def with_memory_of(self, layout: Layout) -> "Reader":
        """Return a reader that also reads the state of recurrent layers, if any.

        `layout` is that of the network that acts.
        """
        if not layout.state_units:
            return self
        return replace(self, optional=(*self.optional, RECURRENT_STATE))

    def of(self, batch: Batch) -> Any:
        """Return a batch's arrays as one record, with None for fields not read."""
        records = [
            self.record(**{name: getattr(each, name) for name in self.fields})
            for each in self.sources(batch)
        ]
        if len(records) == 1:
            return records[0]
        return map_arrays(lambda *x: np.concatenate(x), *records)

    def tensors(self, record: Any) -> dict[str, tf.Tensor]:
        """Return tensors of a record's arrays by name; the arrays must not change."""
        values = {name: getattr(record, name) for name in self.fields}
        return {name: map_array(tensor_of, x) for name, x in values.items()}

    def signature(
        self, spec: EnvSpec, noise_units: int = 0, state_units: int = 0
    ) -> dict[str, Any]:
        """Return the dtypes and shapes of the tensors by name; see `field_types`."""
        types = field_types(spec, noise_units, state_units)
        specs = dict[str, Any]()
        for name in self.fields:
            dims = self.other_dims.get(name, self.dims)
            specs[name] = map_array(partial(_tensor_spec, dims), types[name])
        return specs


def _tensor_spec(dims: int, kind: tuple[str, tuple[int, ...]]) -> tf.TensorSpec:
    """Return the spec of a tensor of a dtype and shape, after unknown dimensions."""
    dtype, shape = kind
    return tf.TensorSpec([*[None] * dims, *shape], dtype)


def _round(batch: Batch) -> list[Trajectory]:
    """Return the fresh round of a batch, with zeros if it has no values."""
    fresh = batch.fresh
    assert fresh is not None
    if fresh.values is None:
        length, width = fresh.rewards.shape
        fresh = fresh._replace(values=np.zeros((length + 1, width), np.float32))
    version: Any = np.int64(fresh.weights_version)
    return [fresh._replace(weights_version=version)]


def _round_and_replayed(batch: Batch) -> list[Trajectory]:
    """Return the fresh round of a batch, [1, T, B, ...], and the replayed ones, if any.

    There may be only replayed ones. The versions of the weights are int64, one per
    round.
    """
    fresh, sampled = batch.fresh, batch.sampled
    assert not isinstance(sampled, Transitions)
    found: list[Trajectory] = []
    if fresh is not None:
        version: Any = np.array([fresh.weights_version])
        first = map_arrays(lambda x: x[None], fresh)
        found = [first._replace(weights_version=version)]
    if sampled is None:
        return found
    if fresh is not None and fresh.rewards.shape[1] != sampled.rewards.shape[2]:
        # Take as many trajectories as the round has, which may lack those of a lost
        # actor; for a round of one actor, take those of its environments.
        width, held = fresh.rewards.shape[1], sampled.rewards.shape[2]
        columns = (fresh.first_env + np.arange(width)) % held
        sampled = map_arrays(lambda x: np.take(x, columns, axis=2), sampled)
    versions: Any = np.full(len(sampled.rewards), sampled.weights_version)
    return [*found, sampled._replace(weights_version=versions)]


ROLLOUT = Reader(
    record=Trajectory,
    optional=("log_probs", "values", "weights_version"),
    sources=_round,
    dims=2,
    other_dims={"weights_version": 0},
)
"""One round of trajectories side by side; its version is that of the oldest weights."""

ROLLOUT_BATCHES = Reader(
    record=Trajectory,
    optional=("probabilities",),
    sources=_round_and_replayed,
    dims=3,
)
"""K batches of trajectories with the probabilities of all actions."""

CORRECTED_BATCHES = Reader(
    record=Trajectory,
    optional=("log_probs", "weights_version"),
    sources=_round_and_replayed,
    dims=3,
    other_dims={"weights_version": 1},
)
"""K batches of trajectories that V-trace corrects."""

TRANSITION_BATCHES = Reader(
    record=Transitions,
    optional=(),
    sources=lambda batch: [batch.sampled],
    dims=2,
    other_dims=dict.fromkeys(FRAME_FIELDS, 3),
)
"""K minibatches of transitions; see `priorities.sampled_batches`."""


SEQUENCE_BATCHES = Reader(
    record=Trajectory,
    optional=(),
    sources=lambda batch: [batch.sampled],
    dims=3,
)
"""K minibatches of sequences, for networks with memory."""


def rounds_of(config: AlgorithmConfig) -> Reader:
    """Return the reader of rounds, and of replayed ones if there is a replay."""
    return CORRECTED_BATCHES if config.replay else ROLLOUT


def batch_at(batches: Any, k: tf.Tensor) -> Any:
    """Return batch k of K."""
    return map_arrays(lambda x: x[k], batches)


def first_rows(x: Observations, count: tf.Tensor) -> Observations:
    """Return the first rows of a tensor [N, ...], or of each in a dict."""
    return map_array(lambda each: each[:count], x)


def take_rows(x: Observations, rows: tf.Tensor) -> Observations:
    """Return rows, int32 [M], of a tensor [N, ...], or of each in a dict."""
    return map_array(lambda each: _taken_rows(each, rows), x)


def _taken_rows(x: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Return rows, int32 [M], of a tensor [N, ...].

    Bytes are gathered as 64-bit words if the row size allows it: TensorFlow has no GPU
    kernel that gathers bytes and would copy all of `x` to the CPU.
    """
    size, shape = tf.int64.size, x.shape[1:]
    if x.dtype != tf.uint8 or math.prod(shape) % size:
        return tf.gather(x, rows)
    words = tf.bitcast(tf.reshape(x, [-1, math.prod(shape) // size, size]), tf.int64)
    taken = tf.bitcast(tf.gather(words, rows), tf.uint8)
    return tf.reshape(taken, [-1, *shape])


def masks_of(record: Any) -> tf.Tensor | None:
    """Return the masks of a rollout's rows and of the last one, bool [(T + 1) * B, n].

    None if there are none.
    """
    masks = record.action_masks
    return None if masks is None else flatten_time(masks)


def flatten_time(x: tf.Tensor) -> tf.Tensor:
    """Return [T, B, ...] as [T * B, ...]."""
    return tf.reshape(x, [-1, *x.shape[2:]])
