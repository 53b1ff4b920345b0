"""Several learners that share the work of each update."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import tensorflow as tf

from xagents_ray.core.errors import UserError
from xagents_ray.learners.math.flat import concat_flat

__autograph__ = False

_CHECKED_VERSIONS = 100
"""Interval at which learners check that they are equal, in versions of the weights."""


class Shares:
    """One learner's share of the work of several, which all get the same data.

    In every network, a learner computes its share of the rows, or with memory of the
    environments, forwards and backwards. Outputs and gradients are then summed over all
    learners. Everything else is computed by each of them, from the same numbers, so
    that losses, metrics, optimizers and counters stay equal.

    Args:
        rank: index of the learner, from 0.
        size: number of learners.
        reduce: function of a tensor to the sum of this tensor over all learners, in a
            graph; all of them run it equally often, in the same order.
    """

    def __init__(
        self, rank: int, size: int, reduce: Callable[[tf.Tensor], tf.Tensor]
    ) -> None:
        self.rank, self.size, self._reduce = rank, size, reduce
        self._shared = set[int]()
        self._checksums: Any = None
        self._turn: tf.Variable | None = None
        if size > 1:
            with tf.device("CPU"):
                self._turn = tf.Variable(0, trainable=False)

    def network(self, model: Any, has_memory: bool) -> Any:
        """Return the network as this learner calls it.

        `has_memory` says whether the model has recurrent layers.
        """
        if self.size == 1:
            return model
        self._shared.update(id(variable) for variable in model.variables)
        return SharedNetwork(model, self, has_memory)

    @property
    def turn(self) -> int:
        """Number of sums that were begun plus those that have ended: odd during one."""
        return 0 if self._turn is None else int(self._turn)

    def total(self, x: tf.Tensor) -> tf.Tensor:
        """Return the sum of a tensor over all learners."""
        if self._turn is None:
            return x
        # TensorFlow keeps the order of the operations on a variable, and of no others.
        with tf.control_dependencies([self._turn.assign_add(1)]):
            whole = self._reduce(x)
        with tf.control_dependencies([whole]):
            self._turn.assign_add(1)
        return whole

    def summed(
        self, gradients: Sequence[Any], variables: Sequence[Any]
    ) -> list[tf.Tensor]:
        """Return gradients of a loss, which each learner has computed in part.

        Those of variables outside the networks are complete in each learner already.
        """
        if self.size == 1:
            return list(gradients)
        parts = self.parts(gradients, variables)
        summed = tf.split(self.total(concat_flat(parts)), [tf.size(x) for x in parts])
        pairs = zip(summed, parts, strict=True)
        return [tf.reshape(x, tf.shape(part)) for x, part in pairs]

    def penalty(self, value: tf.Tensor) -> tf.Tensor:
        """Return a float [] that all learners compute, with gradients in part."""
        if self.size == 1:
            return value
        part = value / self.size
        return part + tf.stop_gradient(value - part)

    def parts(
        self, gradients: Sequence[Any], variables: Sequence[Any]
    ) -> list[tf.Tensor]:
        """Return gradients scaled so that their sum over all learners is complete."""
        if self.size == 1:
            return list(gradients)
        return [
            tf.convert_to_tensor(x) if id(v) in self._shared else x / self.size
            for x, v in zip(gradients, variables, strict=True)
        ]

    def check_equal(self, version: int, variables: Sequence[Any]) -> None:
        """Raise UserError if the learners' variables differ; at some versions only."""
        if self.size == 1 or version % _CHECKED_VERSIONS:
            return
        if self._checksums is None:
            summed = partial(self._checksums_of, variables)
            self._checksums = tf.function(summed, autograph=False)
        found = self._checksums().numpy()
        if (found != found[0]).any():
            raise UserError(
                f"The {self.size} learners are no longer equal, so their results would "
                "be wrong: continue with --resume last --n-learners 1, and please "
                "report it."
            )

    def _checksums_of(self, variables: Sequence[Any]) -> tf.Tensor:
        """Return the checksum of each learner's variables, int32 [size]."""
        singles = [tf.cast(x, tf.float32) for x in variables]
        own = tf.add_n([tf.reduce_sum(tf.bitcast(x, tf.int32)) for x in singles])
        return self.total(tf.one_hot(self.rank, self.size, own, 0))

    def is_any(self, condition: tf.Tensor) -> tf.Tensor:
        """Return whether a condition, bool [], holds in any learner."""
        if self.size == 1:
            return condition
        return self.total(tf.cast(condition, tf.float32)) > 0


ALONE = Shares(0, 1, tf.identity)
"""The share of a run's only learner."""


class SharedNetwork:
    """A network of which each learner computes a share of the rows.

    It is called like the model, by all learners with the same inputs, and returns the
    outputs for all rows. A gradient with respect to its variables, or to its inputs, is
    the part that comes from this learner's rows.

    Args:
        model: the network, of `networks.keras.build_model`.
        shares: the learner's share.
        has_memory: whether it has recurrent layers; environments are shared then.
    Attributes:
        name: name of the model.
        trainable_variables: variables that are learned.
    """

    def __init__(self, model: Any, shares: Shares, has_memory: bool) -> None:
        self._model, self._shares, self._has_memory = model, shares, has_memory
        self.name, self.trainable_variables = model.name, model.trainable_variables

    def __call__(self, inputs: Any) -> Any:
        """Return the outputs for all rows, float32 [N, ...] each."""
        given = tf.nest.flatten(inputs)
        width = tf.shape(given[-2] if self._has_memory else given[0])[0]
        own = -(-width // self._shares.size)  # environments or rows of a share
        columns = tf.minimum(self._shares.rank * own + tf.range(own), width - 1)
        if self._has_memory:
            *rows, state, starts = given
            chosen = [_columns(x, columns, width) for x in rows]
            chosen += tf.gather(state, columns), tf.gather(starts, columns, axis=1)
        else:
            chosen = [_columns(x, columns, width) for x in given]
        outputs = self._model(tf.nest.pack_sequence_as(inputs, chosen))
        whole = self._gathered(tf.nest.flatten(outputs), own, width)
        return tf.nest.pack_sequence_as(outputs, whole)

    def _gathered(
        self, outputs: Sequence[tf.Tensor], own: tf.Tensor, width: tf.Tensor
    ) -> list[tf.Tensor]:
        """Return the outputs of all learners for `width` environments or rows.

        Those of this learner are for `own` of these, time-major with memory.
        """
        sizes = [x.shape[1:].num_elements() for x in outputs]
        joined = tf.concat(
            [tf.reshape(x, [-1, own, n]) for x, n in zip(outputs, sizes, strict=True)],
            axis=-1,
        )
        rank, after = self._shares.rank, self._shares.size - 1 - self._shares.rank
        placed = tf.pad(joined, [[0, 0], [rank * own, after * own], [0, 0]])[:, :width]
        # Gradients pass through this learner's rows only.
        others = tf.stop_gradient(self._shares.total(placed) - placed)
        whole = tf.split(placed + others, sizes, axis=-1)
        return [
            tf.reshape(part, [-1, *x.shape[1:]])
            for part, x in zip(whole, outputs, strict=True)
        ]


def _columns(x: tf.Tensor, columns: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """Return the rows of some columns of [T * width, ...], time-major.

    A single row, as of noise that all share, is returned as it is.
    """
    if x.shape[0] == 1:
        return x
    held = tf.gather(tf.reshape(x, [-1, width, *x.shape[1:]]), columns, axis=1)
    return tf.reshape(held, [-1, *x.shape[1:]])
