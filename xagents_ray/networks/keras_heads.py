"""Keras versions of noisy layers and of the layers at a network's end."""

from typing import Any

import keras
import numpy as np
from keras import ops

from xagents_ray.networks import heads, inputs, noisy, state_dependent


class KerasNoisy(keras.layers.Layer):
    """Keras layer of `noisy.Noisy`; without noise it uses the mean weights."""

    def __init__(
        self, layer: noisy.Noisy, is_factorised: bool, kernel: Any, sigma: float
    ) -> None:
        super().__init__(name=layer.name)
        self._activate = keras.activations.get(layer.activation)
        self._is_factorised, self._inputs = is_factorised, layer.kernel_shape[0]
        shape, deviation = layer.kernel_shape, keras.initializers.Constant(sigma)
        bias = kernel.from_config({**kernel.get_config(), "seed": kernel.seed + 1})
        self.kernel = self.add_weight(shape, kernel, name="kernel")
        self.bias = self.add_weight(shape[1:], bias, name="bias")
        self.kernel_sigma = self.add_weight(shape, deviation, name="kernel_sigma")
        self.bias_sigma = self.add_weight(shape[1:], deviation, name="bias_sigma")

    def call(self, x: Any, noise: Any = None) -> Any:
        """Return [B, units] from [B, inputs]; see `noisy.Noisy`."""
        y = ops.matmul(x, self.kernel) + self.bias
        if noise is not None:
            add = self._factorised if self._is_factorised else self._independent
            y += add(x, noise)
        return self._activate(y)

    def _factorised(self, x: Any, noise: Any) -> Any:
        scaled = ops.sign(noise) * ops.sqrt(ops.abs(noise))
        into, out = scaled[:, : self._inputs], scaled[:, self._inputs :]
        return (ops.matmul(x * into, self.kernel_sigma) + self.bias_sigma) * out

    def _independent(self, x: Any, noise: Any) -> Any:
        variance = ops.matmul(ops.square(x), ops.square(self.kernel_sigma))
        return ops.sqrt(variance + ops.square(self.bias_sigma)) * noise


class KerasDueling(keras.layers.Layer):
    """Keras layer of `heads.Dueling`."""

    def __init__(self, layer: heads.Dueling) -> None:
        super().__init__(name=layer.name)
        self._units, self._atoms = layer.output_shape[0], layer.atoms

    def call(self, x: Any) -> Any:
        """Return float32 [B, n * atoms] from [B, n * atoms + atoms]."""
        parts = ops.reshape(x, [-1, self._units // self._atoms + 1, self._atoms])
        advantages, values = parts[:, :-1], parts[:, -1:]
        advantages -= ops.mean(advantages, axis=1, keepdims=True)
        return ops.reshape(advantages + values, [-1, self._units])


class KerasExpectation(keras.layers.Layer):
    """Keras layer of `heads.Expectation`."""

    def __init__(self, layer: heads.Expectation) -> None:
        super().__init__(name=layer.name)
        self._shape = [-1, layer.output_shape[0], len(layer.atoms)]
        self._atoms = np.array(layer.atoms, np.float32)

    def call(self, x: Any) -> Any:
        """Return float32 [B, n] from [B, n * atoms]."""
        chances = ops.softmax(ops.reshape(x, self._shape))
        return ops.sum(chances * self._atoms, axis=-1)


class KerasClip(keras.layers.Layer):
    """Keras layer of `heads.Clip`."""

    def __init__(self, layer: heads.Clip) -> None:
        super().__init__(name=layer.name)
        self._largest = layer.largest

    def call(self, x: Any) -> Any:
        """Return the clipped input; the gradient of what is clipped is 0."""
        return ops.clip(x, -self._largest, self._largest)


class KerasScaledGradient(keras.layers.Layer):
    """Keras layer of `heads.ScaledGradient`."""

    def __init__(self, layer: heads.ScaledGradient) -> None:
        super().__init__(name=layer.name)
        self._factor = layer.factor

    def call(self, x: Any) -> Any:
        """Return the input unchanged."""
        held = ops.stop_gradient(x)
        return held + self._factor * (x - held)


class KerasStateDependentLogStd(keras.layers.Layer):
    """Keras layer of `state_dependent.StateDependentLogStd`."""

    def __init__(self, layer: state_dependent.StateDependentLogStd) -> None:
        super().__init__(name=layer.name)
        self._learns_features = layer.learns_features
        shape, initial = layer.shapes[f"{layer.name}/log_std"], layer.initial
        self.log_std = self.add_weight(
            shape, keras.initializers.Constant(initial), name="log_std"
        )

    def call(self, x: Any, noise: Any = None) -> Any:
        """Return float32 [B, A] from [B, L]; with noise, see the layer's `bind`."""
        x = x if self._learns_features else ops.stop_gradient(x)
        variances = ops.matmul(ops.square(x), ops.exp(2 * self.log_std))
        y = ops.log(variances + state_dependent.VARIANCE_EPSILON) / 2
        if noise is None:
            return y
        shape = -1, *self.log_std.shape
        matrices = ops.reshape(noise, shape) * ops.exp(self.log_std)
        drawn = ops.matmul(x[:, None], matrices)[:, 0]
        return ops.concatenate([y, drawn * ops.exp(-y)], axis=-1)


class KerasSelection(keras.layers.Layer):
    """Keras layer of `inputs.Selection`."""

    def __init__(self, layer: inputs.Selection) -> None:
        super().__init__(name=layer.name)
        self._ranges = layer.ranges

    def call(self, x: Any) -> Any:
        """Return [B, n] from [B, D]."""
        parts = [x[:, begin:end] for begin, end in self._ranges]
        return parts[0] if len(parts) == 1 else ops.concatenate(parts, axis=-1)
