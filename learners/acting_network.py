"""The network that acts, as a function of its inputs and weights."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from xagents_ray.core.inference import (
    INPUTS,
    NEXT_STATE,
    NOISE,
    OUTPUTS,
    STATE,
    RowField,
)
from xagents_ray.core.moments import OBSERVATION
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Array
from xagents_ray.learners import runtime
from xagents_ray.learners.normalizer import normalized_inputs
from xagents_ray.networks.keras import build_model, final_state_model, named_weights
from xagents_ray.networks.layout import Layout
from xagents_ray.networks.state_dependent import with_drawn_noise
from xagents_ray.settings.algorithm import AlgorithmConfig

__autograph__ = False

_STATISTICS = f"{OBSERVATION}/mean", f"{OBSERVATION}/variance"


class ActingNetwork:
    """Computes the outputs that a policy in NumPy would compute with its network.

    Args:
        layout: layout of the network.
        config: settings of the algorithm.
        spec: spec of the environments.
    Attributes:
        inputs: arrays that the network takes for each environment.
        outputs: arrays that it returns for each environment.
    """

    def __init__(self, layout: Layout, config: AlgorithmConfig, spec: EnvSpec) -> None:
        if config.uses_sde:
            layout, _ = with_drawn_noise(layout)
        self._layout = layout
        noise, state = layout.noise_units, layout.state_units
        model = build_model(
            layout, None, "inference", config.precision, takes_noise=noise > 0
        )
        named = named_weights(model)
        ends = [f"{OUTPUTS}{i}" for i in range(len(layout.outputs))]
        if state:
            outputs = [*model.outputs, final_state_model(layout, model).output]
            model = keras.Model(model.input, outputs)
            ends.append(NEXT_STATE)
        self._model = model
        self.inputs = _input_fields(layout, spec)
        self.outputs = tuple(
            RowField(name, "float32", tuple(x.shape[1:]))
            for name, x in zip(ends, model.outputs, strict=True)
        )
        self._names = [*named, *(_STATISTICS if config.normalize_observations else ())]
        self._places = {id(variable): i for i, variable in enumerate(named.values())}
        shape, added = spec.observation_shape, len(self._names) - len(named)
        weights = [tf.TensorSpec(x.shape, tf.float32) for x in named.values()]
        self._outputs_of = runtime.traced(
            tf.function(self._compute),
            {x.name: tf.TensorSpec([None, *x.shape], x.dtype) for x in self.inputs},
            [*weights, *[tf.TensorSpec(shape, tf.float64)] * added],
        )

    def tensors(self, arrays: Mapping[str, Array]) -> list[tf.Tensor]:
        """Return the network's weights, and its statistics, for `compute`."""
        return [runtime.tensor_of(arrays[name]) for name in self._names]

    def compute(
        self, inputs: Mapping[str, Array], weights: Sequence[tf.Tensor]
    ) -> dict[str, Array]:
        """Return the outputs for B environments by name, [B, *shape] each."""
        given = {x.name: runtime.tensor_of(inputs[x.name]) for x in self.inputs}
        found = self._outputs_of(*tf.nest.flatten(given), *weights)
        return {x.name: y.numpy() for x, y in zip(self.outputs, found, strict=True)}

    def _compute(
        self, inputs: dict[str, tf.Tensor], weights: list[tf.Tensor]
    ) -> list[tf.Tensor]:
        """Compute the outputs in the graph."""
        arrays = {
            name.removeprefix(INPUTS): x
            for name, x in inputs.items()
            if name.startswith(INPUTS)
        }
        count = len(self._places)
        observations = arrays if self._layout.inputs else arrays[""]
        x = normalized_inputs(self._layout, observations, weights[count:])
        read = [x]
        if NOISE in inputs:
            read.append(inputs[NOISE])
        if STATE in inputs:  # policies in NumPy zero it at the start of episodes
            read += inputs[STATE], tf.zeros([1, tf.shape(inputs[STATE])[0]], tf.bool)
        outputs, _ = self._model.stateless_call(
            self._values(self._model.trainable_variables, weights),
            self._values(self._model.non_trainable_variables, weights),
            read if len(read) > 1 else x,
            training=False,
        )
        return tf.nest.flatten(outputs)

    def _values(self, variables: Sequence[Any], weights: Sequence[tf.Tensor]) -> Any:
        """Return the values of variables, given the weights."""
        # The state of a random generator isn't among the weights.
        places = [self._places.get(id(variable)) for variable in variables]
        pairs = zip(places, variables, strict=True)
        return [own.value if i is None else weights[i] for i, own in pairs]


def _input_fields(layout: Layout, spec: EnvSpec) -> tuple[RowField, ...]:
    """Return what the network takes for each environment."""
    dtypes = {name: dtype for name, (dtype, _) in spec.arrays.items()}
    fields = [
        RowField(INPUTS + x.name, dtypes.get(x.name, spec.observation_dtype), x.shape)
        for x in layout.arrays
    ]
    for name, units in ((NOISE, layout.noise_units), (STATE, layout.state_units)):
        fields += [RowField(name, "float32", (units,))] * bool(units)
    return tuple(fields)
