"""What a learner must keep to go on exactly: its variables and counters, by name."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from xagents_ray.core.errors import UserError
from xagents_ray.core.trajectory import Array, Weights
from xagents_ray.networks import keras as networks

_COUNT = "count/"


class LearnerState:
    """Variables of a learner by name (`policy/dense-0/kernel`), and its counters.

    Attributes:
        counts: whole numbers by name, from 0: `version`, `updates`, ….
        remaining: float32 [], the part of --max-steps that was ahead when the newest
            batch's first step was taken; 1 without --max-steps.
    """

    def __init__(
        self,
        models: Mapping[str, Any],
        optimizers: Mapping[str, Any],
        others: Mapping[str, Any],
    ) -> None:
        self.variables: dict[str, Any] = {}
        for name, model in models.items():
            for key, variable in networks.named_weights(model).items():
                self.variables[f"{name}/{key}"] = variable
        for name, optimizer in optimizers.items():
            for i, variable in enumerate(optimizer.variables):
                self.variables[f"{name}/{i}"] = variable
        self._lr_scale = tf.Variable(1.0, trainable=False)
        self.variables |= {**others, "lr-scale": self._lr_scale}
        self.remaining = tf.Variable(1.0, trainable=False)
        self._optimizers = list(optimizers.values())
        self._first_lr = [float(x.learning_rate) for x in self._optimizers]
        self.counts: Counter[str] = Counter()

    def arrays(self) -> dict[str, Array]:
        """Return a copy of everything by name."""
        counts = {_COUNT + k: np.array(n, np.int64) for k, n in self.counts.items()}
        return {k: np.array(v.numpy()) for k, v in self.variables.items()} | counts

    def weights(self, model: str) -> Weights:
        """Return the newest weights of the model that acts, under a new version."""
        self.counts["version"] += 1
        start = f"{model}/"
        arrays = {
            name.removeprefix(start): np.array(variable.numpy())
            for name, variable in self.variables.items()
            if name.startswith(start)
        }
        return Weights(self.counts["version"], arrays)

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Take everything from a copy.

        Raises:
            UserError: it is of another learner.
        """
        counts = {k: n for k, n in arrays.items() if k.startswith(_COUNT)}
        self.assign({k: array for k, array in arrays.items() if k not in counts})
        if missing := self.variables.keys() - arrays.keys():
            raise UserError(
                f"The checkpoint has no {min(missing)}: it is of another agent or "
                "model; resume with the versions that wrote it."
            )
        self.counts.clear()
        self.counts.update({k.removeprefix(_COUNT): int(n) for k, n in counts.items()})

    def assign(self, arrays: Mapping[str, Array]) -> None:
        """Take some variables from arrays.

        Raises:
            UserError: one has another name or shape than here.
        """
        for name, array in arrays.items():
            variable = self.variables.get(name)
            if variable is None or tuple(variable.shape) != array.shape:
                has = None if variable is None else tuple(variable.shape)
                raise UserError(
                    f"{name} has shape {array.shape} there and {has or 'no place'} "
                    "here: take what the same agent, --env and --model saved."
                )
        for name, array in arrays.items():
            self.variables[name].assign(array)

    def scale_lr(self, factor: float) -> float:
        """Multiply every optimizer's learning rate; return the first one's new one."""
        self._lr_scale.assign(self._lr_scale * factor)
        for optimizer in self._optimizers:
            optimizer.learning_rate.assign(optimizer.learning_rate * factor)
        return float(self._optimizers[0].learning_rate)

    def decay_lr(self) -> None:
        """Set every optimizer's learning rate by what remains of the run."""
        scale = float(self._lr_scale) * float(self.remaining)
        for optimizer, first in zip(self._optimizers, self._first_lr, strict=True):
            optimizer.learning_rate.assign(first * scale)
