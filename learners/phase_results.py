"""Results of the chunks of one learning phase."""

import numpy as np
import tensorflow as tf

from xagents_ray.core.trajectory import FloatArray, IntArray, PriorityUpdate

__autograph__ = False


class PhaseResults:
    """Adds up metrics and errors of a phase's chunks.

    Attributes:
        packed: sum of the packed metrics, float32 [M]; its last entry is the number of
            updates.
    """

    packed: FloatArray

    def __init__(self) -> None:
        self._rows: list[IntArray] = []
        self._errors: list[FloatArray] = []

    def add_rows(self, rows: IntArray | None) -> None:
        """Add the rows of a chunk's samples, as in `Batch.rows`.

        They are copied: a view would keep the whole chunk in the object store.
        """
        if rows is not None:
            self._rows.append(rows.copy())

    def add(self, packed: FloatArray, errors: tf.Tensor | None) -> None:
        """Add a chunk's packed metrics, and the errors of its samples."""
        has_more = hasattr(self, "packed")
        self.packed = self.packed + packed if has_more else packed
        if errors is not None:
            self._errors.append(errors.numpy()[: int(packed[-1])])

    @property
    def priorities(self) -> PriorityUpdate | None:
        """Errors of the samples that were learned, if there are any errors."""
        if not self._errors or not self._rows:
            return None
        done = int(self.packed[-1])  # fewer if it was stopped
        learned = np.concatenate(self._rows)[:done].reshape(-1, 2)
        return PriorityUpdate(learned, np.concatenate(self._errors).ravel())
