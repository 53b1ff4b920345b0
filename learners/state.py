"""The state of a learner: the variables that checkpoints store, by name."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from xagents_ray.core.errors import UserError
from xagents_ray.core.moments import WRAPPER
from xagents_ray.core.schedule import Schedule
from xagents_ray.core.trajectory import Array
from xagents_ray.learners import runtime
from xagents_ray.networks import keras as networks

__autograph__ = False

COUNT = "count/"
"""Prefix of the names of counters, which are 0 if a checkpoint lacks them."""


class LearnerState:
    """Variables of a learner by name: `policy/dense-0/kernel`, `count/version`, …."""

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
        names = tuple(self.variables)
        # Traced now: how long the first snapshot takes decides when the next one is.
        self._readers = {names: self._reader(names)}
        self._optimizers = dict(optimizers)
        self._first_lr = {k: float(x.learning_rate) for k, x in optimizers.items()}

    def arrays(self, models: Sequence[str] | None = None) -> dict[str, Array]:
        """Return a copy of variables and counters by name.

        Args:
            models: names of the models whose variables are read; None for everything.
        """
        names = tuple(self.variables)
        if models is not None:
            starts = tuple(f"{model}/" for model in models)
            names = tuple(name for name in names if name.startswith(starts))
        if names not in self._readers:
            self._readers[names] = self._reader(names)
        tensors = self._readers[names]()
        return {k: np.array(t) for k, t in zip(names, tensors, strict=True)}

    def _reader(self, names: Sequence[str]) -> Callable[[], list[tf.Tensor]]:
        """Return a function that reads variables in one call.

        That takes a tenth of the time of a call for each.
        """

        def read() -> list[tf.Tensor]:
            return [tf.convert_to_tensor(self.variables[name]) for name in names]

        return runtime.traced(tf.function(read, autograph=False))

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore all variables from a copy; counters that it lacks become 0.

        Raises:
            UserError: the copy is from another kind of learner.
        """
        counters = {k for k in self.variables if k.startswith(COUNT)}
        # Runs of earlier versions have no statistics of wrappers.
        optional = counters | {k for k in self.variables if f"/{WRAPPER}" in k}
        if missing := self.variables.keys() - optional - arrays.keys():
            raise UserError(
                f"The checkpoint has no {min(missing)}: it is of another agent or "
                "model; resume with the versions that wrote it."
            )
        self.assign({**dict.fromkeys(counters, np.array(0, np.int64)), **arrays})

    def assign(self, arrays: Mapping[str, Array]) -> None:
        """Assign some variables from arrays.

        Raises:
            UserError: no variable has an array's name and shape.
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
        """Scale all learning rates; return the first optimizer's new one."""
        self._lr_scale.assign(self._lr_scale * factor)
        for optimizer in self._optimizers.values():
            optimizer.learning_rate.assign(optimizer.learning_rate * factor)
        return float(next(iter(self._optimizers.values())).learning_rate)

    def decay_lr(self, remaining: float) -> None:
        """Scale all initial learning rates by the remaining fraction of the run."""
        scale = float(self._lr_scale) * remaining
        for key, first in self._first_lr.items():
            self._optimizers[key].learning_rate.assign(first * scale)

    def schedule_lr(self, schedules: Mapping[str, Schedule], done: float) -> None:
        """Set the learning rates of optimizers by key, after a fraction of the run."""
        scale = float(self._lr_scale)
        for key, schedule in schedules.items():
            self._optimizers[key].learning_rate.assign(schedule.at(done) * scale)
