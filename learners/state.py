"""What a learner must keep to go on exactly: its variables and counters, by name."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from xagents_ray.errors import UserError
from xagents_ray.networks import keras as networks
from xagents_ray.trajectory import Array

_COUNT = "count/"


class LearnerState:
    """Variables of a learner by name (`policy/dense-0/kernel`), and its counters.

    Attributes:
        counts: whole numbers by name, from 0: `version`, `updates`, ….
    """

    def __init__(
        self, models: Mapping[str, Any], optimizers: Mapping[str, Any]
    ) -> None:
        self.variables: dict[str, Any] = {}
        for name, model in models.items():
            for key, variable in networks.named_weights(model).items():
                self.variables[f"{name}/{key}"] = variable
        for name, optimizer in optimizers.items():
            for i, variable in enumerate(optimizer.variables):
                self.variables[f"{name}/{i}"] = variable
        self._optimizers = list(optimizers.values())
        self.counts: Counter[str] = Counter()

    def arrays(self) -> dict[str, Array]:
        """Return a copy of everything by name."""
        counts = {_COUNT + k: np.array(n, np.int64) for k, n in self.counts.items()}
        return {k: np.array(v.numpy()) for k, v in self.variables.items()} | counts

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
        for optimizer in self._optimizers:
            optimizer.learning_rate.assign(optimizer.learning_rate * factor)
        return float(self._optimizers[0].learning_rate)
