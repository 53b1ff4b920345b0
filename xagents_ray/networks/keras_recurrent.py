"""Recurrent Keras layers for whole sequences, with resets and gradients of their own.

All rows' products with the input are one matrix product; a loop over time computes the
rest. Its gradient is a loop back in time and one matrix product for the recurrent
kernel. It reads only inputs and outputs of the operation, so it can be differentiated
again.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import tensorflow as tf

from xagents_ray.networks.layers import Initializer
from xagents_ray.networks.recurrent import GRU, LSTM, Recurrent

__autograph__ = False

_Tensors = list[tf.Tensor]


class _KerasRecurrent(keras.layers.Layer):
    """Base of recurrent layers; see `Recurrent` for inputs and outputs."""

    def __init__(self, layer: Recurrent, initializer: Initializer) -> None:
        super().__init__(name=layer.name, autocast=False)
        self._layer = layer
        self._kernel_initializer = initializer(layer.initializer, layer.gain)
        self._orthogonal = initializer("orthogonal", 1.0)

    def build(self, *_: Any) -> None:
        """Add the weights."""
        initializers = (
            self._kernel_initializer,
            self._reversed_orthogonal,
            self._initial_bias,
        )
        self._kernel, self._recurrent_kernel, self._bias = (
            self.add_weight(shape, initializer, name=key.split("/")[1], autocast=False)
            for (key, shape), initializer in zip(
                self._layer.shapes.items(), initializers, strict=True
            )
        )
        self.built = True

    def compute_output_spec(self, *_: Any) -> tuple[Any, Any]:
        """Return the shapes of output and final state."""
        sizes = self._layer.units, self._layer.state_units
        first, last = (keras.KerasTensor((None, n), "float32") for n in sizes)
        return first, last

    def call(self, x: Any, state: Any, starts: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """Return float32 [T * B, units] and the final state, [B, state_units].

        Args:
            x: [T * B, inputs], time-major.
            state: float32 [B, state_units], before the first row.
            starts: bool [T, B]; the state is zeroed before these rows.
        """
        kernel = tf.cast(self._kernel, self.compute_dtype)
        products = tf.matmul(tf.cast(x, self.compute_dtype), kernel)
        shape = tf.shape(starts)
        width = self._layer.gates * self._layer.units
        rows = tf.reshape(tf.cast(products, tf.float32), [shape[0], shape[1], width])
        kept = 1 - tf.cast(starts, tf.float32)[..., None]
        state = tf.cast(state, tf.float32)
        outputs, final = self._unroll(rows, state, kept)
        return tf.reshape(outputs, [-1, self._layer.units]), final

    def _unroll(
        self, rows: tf.Tensor, state: tf.Tensor, kept: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the outputs, [T, B, units], and the final state."""
        raise NotImplementedError

    def _initial_bias(self, shape: Any, dtype: Any = None) -> tf.Tensor:
        return tf.zeros(shape)

    def _reversed_orthogonal(self, shape: Any, dtype: Any = None) -> tf.Tensor:
        """Return an orthogonal matrix unlike a kernel that has the same seed."""
        return tf.reverse(tf.convert_to_tensor(self._orthogonal(shape)), axis=[0, 1])


class KerasLSTM(_KerasRecurrent):
    """An LSTM with the equations and weights of `keras.layers.LSTM`."""

    _layer: LSTM

    def _initial_bias(self, shape: Any, dtype: Any = None) -> tf.Tensor:
        """Return zeros, and ones for the forget gate."""
        units = self._layer.units
        return tf.concat([tf.zeros(units), tf.ones(units), tf.zeros(2 * units)], 0)

    def _unroll(
        self, rows: tf.Tensor, state: tf.Tensor, kept: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        h, c = tf.split(state, 2, axis=-1)
        rows += tf.convert_to_tensor(self._bias)
        kernel = tf.convert_to_tensor(self._recurrent_kernel)
        outputs, cells, _ = unroll_lstm(rows, kernel, h, c, kept)
        return outputs, tf.concat([outputs[-1], cells[-1]], axis=-1)


class KerasGRU(_KerasRecurrent):
    """A GRU with the equations and weights of `keras.layers.GRU`."""

    _layer: GRU

    def _unroll(
        self, rows: tf.Tensor, state: tf.Tensor, kept: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        bias = tf.convert_to_tensor(self._bias)
        kernel = tf.convert_to_tensor(self._recurrent_kernel)
        outputs, _ = unroll_gru(rows + bias[0], kernel, bias[1], state, kept)
        return outputs, outputs[-1]


def unroll_lstm(
    rows: tf.Tensor, kernel: tf.Tensor, h: tf.Tensor, c: tf.Tensor, kept: tf.Tensor
) -> _Tensors:
    """Return an LSTM's outputs, cells and activated gates at each row.

    Args:
        rows: float32 [T, B, 4 * units], products with the input, with the bias.
        kernel: float32 [units, 4 * units], the recurrent kernel.
        h: float32 [B, units], the output before the first row.
        c: float32 [B, units], the cell before the first row.
        kept: float32 [T, B, 1], 0 where the state is zeroed before a row, else 1.
    Returns:
        float32 [T, B, units] twice and [T, B, 4 * units].
    """

    def step(t: tf.Tensor, given: _Tensors, h: tf.Tensor, c: tf.Tensor) -> _Tensors:
        rows, kernel = given
        h, c = h * kept[t], c * kept[t]
        z = tf.split(rows[t] + tf.matmul(h, kernel), 4, axis=-1)
        i, f, o = (tf.sigmoid(z[k]) for k in (0, 1, 3))
        g = tf.tanh(z[2])
        c = f * c + i * g
        h = o * tf.tanh(c)
        return [h, c, h, c, tf.concat([i, f, g, o], axis=-1)]

    gradient = partial(_lstm_gradient, kept)
    return _unroll(step, gradient, (1, 1, 4), [rows, kernel], [h, c])


def _lstm_gradient(
    kept: tf.Tensor, given: _Tensors, state: _Tensors, outputs: _Tensors, up: _Tensors
) -> _Tensors:
    """Return the gradients of rows, kernel, h and c; `up` has those of the outputs."""
    i, f, g, o = tf.split(outputs[2], 4, axis=-1)
    before = [_before(*pair) * kept for pair in zip(state, outputs, strict=False)]
    tanh = tf.tanh(outputs[1])
    of_cell = o * (1 - tanh * tanh)
    slopes = tf.concat([i * (1 - i), f * (1 - f), 1 - g * g, o * (1 - o)], axis=-1)
    factors = slopes * tf.concat([g, before[1], i, tanh], axis=-1)
    added = slopes * up[2]
    last, transposed = tf.shape(kept)[0] - 1, tf.transpose(given[1])

    def step(t: tf.Tensor, h: tf.Tensor, c: tf.Tensor) -> _Tensors:
        t = last - t
        h += up[0][t]
        c += up[1][t] + h * of_cell[t]
        z = tf.concat([c, c, c, h], axis=-1) * factors[t] + added[t]
        return [tf.matmul(z, transposed) * kept[t], c * f[t] * kept[t], z]

    zeros = [tf.zeros_like(each) for each in state]
    (h, c), (z,) = _loop(step, zeros, last + 1, (4,))
    z = tf.reverse(z, axis=[0])
    return [z, _kernel_gradient(before[0], z), h, c]


def unroll_gru(
    rows: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor, h: tf.Tensor, kept: tf.Tensor
) -> _Tensors:
    """Return a GRU's outputs at each row, and its gates and products.

    Args:
        rows: float32 [T, B, 3 * units], products with the input, with their bias.
        kernel: float32 [units, 3 * units], the recurrent kernel.
        bias: float32 [3 * units], bias of the products with the state.
        h: float32 [B, units], the state before the first row.
        kept: float32 [T, B, 1], 0 where the state is zeroed before a row, else 1.
    Returns:
        float32 [T, B, units] and [T, B, 4 * units].
    """

    def step(t: tf.Tensor, given: _Tensors, h: tf.Tensor) -> _Tensors:
        rows, kernel, bias = given
        h = h * kept[t]
        xz, xr, xn = tf.split(rows[t], 3, axis=-1)
        hz, hr, hn = tf.split(tf.matmul(h, kernel) + bias, 3, axis=-1)
        z, r = tf.sigmoid(xz + hz), tf.sigmoid(xr + hr)
        new = tf.tanh(xn + r * hn)
        h = new + z * (h - new)
        return [h, h, tf.concat([z, r, new, hn], axis=-1)]

    gradient = partial(_gru_gradient, kept)
    return _unroll(step, gradient, (1, 4), [rows, kernel, bias], [h])


def _gru_gradient(
    kept: tf.Tensor, given: _Tensors, state: _Tensors, outputs: _Tensors, up: _Tensors
) -> _Tensors:
    """Return the gradients of rows, kernel, bias and h; `up` has the outputs'."""
    z, r, new, product = tf.split(outputs[1], 4, axis=-1)
    before = _before(state[0], outputs[0]) * kept
    slope, of_reset, of_new = z * (1 - z), r * (1 - r), 1 - new * new
    last, transposed = tf.shape(kept)[0] - 1, tf.transpose(given[1])
    up_z, up_r, up_new, up_product = tf.split(up[1], 4, axis=-1)

    def step(t: tf.Tensor, h: tf.Tensor) -> _Tensors:
        t = last - t
        h += up[0][t]
        dz = (h * (before[t] - new[t]) + up_z[t]) * slope[t]
        dn = (h * (1 - z[t]) + up_new[t]) * of_new[t]
        dr = (dn * product[t] + up_r[t]) * of_reset[t]
        of_products = tf.concat([dz, dr, dn * r[t] + up_product[t]], axis=-1)
        h = (h * z[t] + tf.matmul(of_products, transposed)) * kept[t]
        return [h, tf.concat([dz, dr, dn], axis=-1), of_products]

    (h,), found = _loop(step, [tf.zeros_like(state[0])], last + 1, (3, 3))
    rows, products = (tf.reverse(each, axis=[0]) for each in found)
    of_kernel = _kernel_gradient(before, products)
    return [rows, of_kernel, tf.reduce_sum(products, axis=[0, 1]), h]


def _unroll(
    step: Callable[..., _Tensors],
    gradient: Callable[..., _Tensors],
    widths: tuple[int, ...],
    given: _Tensors,
    state: _Tensors,
) -> _Tensors:
    """Return what each step of a loop over rows returned, [T, ...] each.

    Args:
        step: returns the next state and its results, given the row's number, `given`
            and the state.
        gradient: returns the gradients of `given` and `state`, given both, the results
            and their gradients.
        widths: sizes of the results in units.
        given: the rows, [T, ...], and the weights.
        state: float32 [B, units] each, before the first row.
    """

    @tf.custom_gradient
    def unroll(*tensors: tf.Tensor) -> tuple[_Tensors, Any]:
        given, state = [*tensors[:count]], [*tensors[count:]]
        _, outputs = _loop(
            lambda t, *h: step(t, given, *h), state, tf.shape(given[0])[0], widths
        )
        return outputs, lambda *up: gradient(given, state, outputs, up)

    count = len(given)
    found: _Tensors = unroll(*given, *state)
    return found


def _loop(
    step: Any, state: _Tensors, count: tf.Tensor, widths: tuple[int, ...]
) -> tuple[_Tensors, _Tensors]:
    """Return the last state of a loop, and what each of its steps returned.

    Args:
        step: returns the next state and its results, given its number and the state.
        state: float32 [B, units] each.
        count: number of steps, at least 1.
        widths: sizes of the results in units.
    """
    shape = state[0].shape
    lists = tuple(
        tf.TensorArray(
            tf.float32, count, element_shape=(shape[0], width * (shape[1] or 0))
        )
        for width in widths
    )

    def body(t: tf.Tensor, state: Any, lists: Any) -> Any:
        results = step(t, *state)
        after, rows = results[: len(state)], results[len(state) :]
        written = (x.write(t, row) for x, row in zip(lists, rows, strict=True))
        return t + 1, tuple(after), tuple(written)

    _, after, lists = tf.while_loop(
        lambda t, *_: t < count,
        body,
        (tf.constant(0), tuple(state), lists),
        maximum_iterations=count,
    )
    return [*after], [each.stack() for each in lists]


def _before(first: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Return the state before each row, given the first one and those after rows."""
    return tf.concat([first[None], rows[:-1]], axis=0)


def _kernel_gradient(before: tf.Tensor, products: tf.Tensor) -> tf.Tensor:
    """Return the gradient of a recurrent kernel, given that of its products."""
    x, dz = (tf.reshape(each, [-1, each.shape[-1]]) for each in (before, products))
    return tf.matmul(x, dz, transpose_a=True)
