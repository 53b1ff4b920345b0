"""Noise that is the same with XLA and without, against quantiles of the bits."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from actor_and_critics_by_hand import quantile

from xagents_ray.learners.math.noise import normal_noise, normal_of


def test_normal_noise_is_the_updates_own() -> None:
    def drawn(seed: int, update: int) -> Any:
        return normal_noise(seed, tf.constant(update, tf.int64), [4000, 2]).numpy()

    noise = drawn(3, 5)
    np.testing.assert_array_equal(noise, drawn(3, 5))
    others = [drawn(3, 6), drawn(4, 5), drawn(3, 5 + 2**32), drawn(2**31 - 1, 5)]
    for other in others:
        assert abs(np.corrcoef(noise.flat, other.flat)[0, 1]) < 5 / 8000**0.5
    assert abs(noise.mean()) < 5 / 8000**0.5
    assert noise.std() == pytest.approx(1, rel=5 / 16000**0.5)


def test_normal_numbers_of_all_bits() -> None:
    """From the least integer to the largest; none is infinite."""
    rng = np.random.default_rng(0)
    bits = rng.integers(-(2**31), 2**31, 500, np.int32)
    bits[:4] = -(2**31), -1, 0, 2**31 - 1
    got = normal_of(tf.constant(bits)).numpy()
    np.testing.assert_allclose(got, np.vectorize(quantile)(bits), rtol=1e-5, atol=1e-7)
    assert got.max() < 6 and got.min() == -got.max()


def test_xla_draws_the_same() -> None:
    @tf.function(jit_compile=True)
    def compiled(update: tf.Tensor) -> tf.Tensor:
        return normal_noise(3, update, [400, 2])

    update = tf.constant(5, tf.int64)
    expected = normal_noise(3, update, [400, 2])
    np.testing.assert_allclose(compiled(update), expected, rtol=1e-5, atol=1e-6)
