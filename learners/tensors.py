"""What crosses into the graph: tensors by name, each with its dtype and shape.

A field's annotation gives its dtype, or what sets it (`observation`, `action`), and
how many dimensions of unknown size come first: [T, B, …] of rollouts, [K, N, …] of K
minibatches.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints

import numpy as np
import tensorflow as tf

from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Array, Batch, Replayed

_T = TypeVar("_T", bound=tuple[Any, ...])


class Phase(NamedTuple):
    """Facts of one learning phase besides its data.

    Attributes:
        env_steps: int64 [], of the whole run, after the batch was collected.
        remaining: float32 [], the part of --max-steps that was ahead when the batch's
            first step was taken; 1 without --max-steps.
        weights_version: int64 [], of the newest published weights.
        batches: int32 [], minibatches to learn from; the data may hold more.
        width: int32 [], trajectories side by side; the data may hold more.
    """

    env_steps: tf.Tensor
    remaining: tf.Tensor
    weights_version: tf.Tensor
    batches: tf.Tensor
    width: tf.Tensor


class Rollout(NamedTuple):
    """One round of trajectories side by side; the fields are a Trajectory's.

    Attributes:
        values: values of the network that acted; zeros if it gives none.
        weights_version: the oldest that acted.
    """

    observations: Annotated[tf.Tensor, "observation", 2]
    starts: Annotated[tf.Tensor, "bool", 2]
    actions: Annotated[tf.Tensor, "action", 2]
    rewards: Annotated[tf.Tensor, "float32", 2]
    terminated: Annotated[tf.Tensor, "bool", 2]
    truncated: Annotated[tf.Tensor, "bool", 2]
    valid: Annotated[tf.Tensor, "bool", 2]
    behavior_log_probs: Annotated[tf.Tensor, "float32", 2]
    values: Annotated[tf.Tensor, "float32", 2]
    weights_version: Annotated[tf.Tensor, "int64", 0]

    @classmethod
    def of(cls, batch: Batch) -> "Rollout":
        """Return the fresh round of a batch."""
        t = batch.fresh
        assert t is not None
        length, width = t.rewards.shape
        values = t.values
        if values is None:
            values = np.zeros((length + 1, width), np.float32)
        return cls(*t[:7], t.log_probs, values, np.int64(t.weights_version))


class RolloutBatches(NamedTuple):
    """K batches of trajectories; the fields are a Trajectory's."""

    observations: Annotated[tf.Tensor, "observation", 3]
    starts: Annotated[tf.Tensor, "bool", 3]
    actions: Annotated[tf.Tensor, "action", 3]
    rewards: Annotated[tf.Tensor, "float32", 3]
    terminated: Annotated[tf.Tensor, "bool", 3]
    truncated: Annotated[tf.Tensor, "bool", 3]
    valid: Annotated[tf.Tensor, "bool", 3]
    behavior_probs: Annotated[tf.Tensor, "probabilities", 3]

    @classmethod
    def of(cls, batch: Batch) -> "RolloutBatches":
        """Return the fresh round of a batch, and what was sampled behind it."""
        return cls(*_with_replayed(batch, "probabilities"))


class CorrectedBatches(NamedTuple):
    """K batches of trajectories that V-trace corrects; the fields are a Trajectory's.

    Attributes:
        weights_version: the oldest that acted in a batch, -1 of those replayed.
    """

    observations: Annotated[tf.Tensor, "observation", 3]
    starts: Annotated[tf.Tensor, "bool", 3]
    actions: Annotated[tf.Tensor, "action", 3]
    rewards: Annotated[tf.Tensor, "float32", 3]
    terminated: Annotated[tf.Tensor, "bool", 3]
    truncated: Annotated[tf.Tensor, "bool", 3]
    valid: Annotated[tf.Tensor, "bool", 3]
    behavior_log_probs: Annotated[tf.Tensor, "float32", 3]
    weights_version: Annotated[tf.Tensor, "int64", 1]

    @classmethod
    def of(cls, batch: Batch) -> "CorrectedBatches":
        """Return the fresh round of a batch, and what was sampled behind it."""
        assert batch.fresh is not None
        arrays = _with_replayed(batch, "log_probs")
        versions = np.full(len(arrays[0]), -1, np.int64)
        versions[0] = batch.fresh.weights_version
        return cls._make([*arrays, versions])


class TransitionBatches(NamedTuple):
    """K minibatches of transitions; the fields are those of Transitions."""

    observations: Annotated[tf.Tensor, "observation", 3]
    starts: Annotated[tf.Tensor, "bool", 3]
    actions: Annotated[tf.Tensor, "action", 2]
    rewards: Annotated[tf.Tensor, "float32", 2]
    discounts: Annotated[tf.Tensor, "float32", 2]

    @classmethod
    def of(cls, batch: Batch) -> "TransitionBatches":
        """Return what was sampled."""
        assert batch.sampled is not None
        return cls(*batch.sampled[: len(cls._fields)])


class PrioritizedBatches(NamedTuple):
    """TransitionBatches that were drawn in proportion to their priorities."""

    observations: Annotated[tf.Tensor, "observation", 3]
    starts: Annotated[tf.Tensor, "bool", 3]
    actions: Annotated[tf.Tensor, "action", 2]
    rewards: Annotated[tf.Tensor, "float32", 2]
    discounts: Annotated[tf.Tensor, "float32", 2]
    priorities: Annotated[tf.Tensor, "float32", 2]

    @classmethod
    def of(cls, batch: Batch) -> "PrioritizedBatches":
        """Return what was sampled."""
        assert batch.sampled is not None
        return cls(*batch.sampled[: len(cls._fields)])


SampledBatches = TransitionBatches | PrioritizedBatches


def _with_replayed(batch: Batch, behavior: str) -> list[Array]:
    """Return a fresh round's arrays, [1, T, B, …], and those sampled behind them.

    The last one is what `behavior` names of the policies that acted.
    """
    t = batch.fresh
    assert t is not None
    names = [*Replayed._fields[:7], behavior]
    fresh = [getattr(t, name)[None] for name in names]
    if batch.sampled is None:
        return fresh
    # As many trajectories as the round, which may lack those of a lost actor; where
    # one actor made it, its own.
    width, held = t.rewards.shape[1], batch.sampled.rewards.shape[2]
    columns = (t.first_env + np.arange(width)) % held
    sampled = [getattr(batch.sampled, name) for name in names]
    return [
        np.concatenate([x, y if width == held else np.take(y, columns, axis=2)])
        for x, y in zip(fresh, sampled, strict=True)
    ]


def tensor_signature(tensors: type[_T], spec: EnvSpec) -> _T:
    """Return the dtypes and shapes of tensors, as their fields are annotated."""
    observation = spec.observation_shape
    action = ("int32" if spec.is_discrete else "float32", spec.action_shape)
    kinds: dict[str, tuple[str, tuple[int, ...]]] = {
        "observation": (spec.observation_dtype, observation),
        "action": action,
        "probabilities": ("float32", (spec.n_actions,)),
    }
    specs = []
    for hint in get_type_hints(tensors, include_extras=True).values():
        kind, unknown = hint.__metadata__
        dtype, shape = kinds.get(kind, (kind, ()))
        specs.append(tf.TensorSpec([*[None] * unknown, *shape], dtype))
    return tensors(*specs)


def pad_batches(batches: _T) -> _T:
    """Return K batches with copies of the first ones behind, 4, 16, 64, … in total.

    XLA compiles a program for each K.
    """
    count, size = len(batches[0]), 4
    while size < count:
        size *= 4
    rows = np.arange(size) % count
    return batches if size == count else type(batches)(*(x[rows] for x in batches))


def round_widths(n_envs: int, has_replay: bool) -> tuple[int, ...]:
    """Return the widths that rounds of a run's environments take, ascending.

    The largest is for rounds of actors that run free, of which some came twice. What
    was replayed has several numbers of batches, and a program for each.
    """
    parts = () if has_replay else (16, 4)
    return (*(-(-n_envs // part) for part in parts), n_envs, 2 * n_envs)


def widen_rounds(rounds: Any, widths: Sequence[int]) -> Any:
    """Return trajectories [..., T, B, ...] with copies beside them that are not valid.

    B becomes the next of the widths: XLA compiles a program for each, and rounds that
    lack late or lost env actors have any.
    """
    count = rounds.valid.shape[-1]
    width = min((each for each in widths if each >= count), default=count)
    if width == count:
        return rounds
    axis, columns = rounds.valid.ndim - 1, np.arange(width) % count
    wide = rounds._make(
        np.take(x, columns, axis) if np.ndim(x) > axis else x for x in rounds
    )
    wide.valid[..., count:] = False
    return wide


def batch_at(batches: _T, k: tf.Tensor) -> _T:
    """Return batch k of K."""
    return type(batches)(*(x[k] for x in batches))


def take_rows(x: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Return rows, int32 [M], of a tensor [N, ...].

    Bytes are taken as words where those fit: TensorFlow has no kernel that takes bytes
    on a GPU, and would bring all of `x` to the CPU.
    """
    size, shape = tf.int64.size, x.shape[1:]
    if x.dtype != tf.uint8 or math.prod(shape) % size:
        return tf.gather(x, rows)
    words = tf.bitcast(tf.reshape(x, [-1, math.prod(shape) // size, size]), tf.int64)
    taken = tf.bitcast(tf.gather(words, rows), tf.uint8)
    return tf.reshape(taken, [-1, *shape])


def flatten_time(x: tf.Tensor) -> tf.Tensor:
    """Return [T, B, ...] as [T * B, ...]."""
    return tf.reshape(x, [-1, *x.shape[2:]])
