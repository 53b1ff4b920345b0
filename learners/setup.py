"""What an algorithm is made from: its setup, target networks and counters."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import tensorflow as tf

from xagents_ray.core.spec import EnvSpec
from xagents_ray.networks import keras as networks
from xagents_ray.networks.layout import Layout
from xagents_ray.settings.algorithm import AlgorithmConfig

ConfigT = TypeVar("ConfigT", bound=AlgorithmConfig, covariant=True)


@dataclass(frozen=True)
class LearnerSetup(Generic[ConfigT]):
    """What an algorithm is made from.

    Attributes:
        config: settings of the algorithm.
        spec: spec of the environments.
        layouts: layouts of the networks, in the order of the row's models.
        seed: seed of the run.
        inputs: function of observations [..., *input_shape] to float32 network input.
        stopping: bool [] variable; a phase ends soon once it is set.
        counters: device of the variables that loops read: the GPU where XLA compiles
            learning phases for one, as all their variables must be there; else the CPU.
    """

    config: ConfigT
    spec: EnvSpec
    layouts: tuple[Layout, ...]
    seed: int
    inputs: Callable[[tf.Tensor], tf.Tensor]
    stopping: tf.Variable
    counters: str = "CPU"

    def counter(self) -> tf.Variable:
        """Return an int64 [] variable, 0."""
        with tf.device(self.counters):
            return tf.Variable(0, trainable=False, dtype=tf.int64)

    def network(self, layout: Layout, name: str) -> Any:
        """Return a new network, a `keras.Model`; see `networks.keras.build_model`."""
        takes_noise, dtype = layout.noise_units > 0, self.config.precision
        return networks.build_model(layout, self.seed, name, dtype, takes_noise)

    def with_target(self, layout: Layout, name: str) -> tuple[Any, Any]:
        """Return a new network and its target, another one of the same weights."""
        model, target = (self.network(layout, x) for x in (name, f"{name}-target"))
        target.set_weights(model.get_weights())
        return model, target
