"""Noisy dense layers, for exploration."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pkgutil import resolve_name
from typing import Any

import numpy as np

from xagents_ray.core.errors import UserError
from xagents_ray.core.trajectory import Array, FloatArray
from xagents_ray.networks.activations import ACTIVATIONS
from xagents_ray.networks.layers import Dense, Initializer, Step, product_with
from xagents_ray.networks.layout import Layout

FACTORISED, INDEPENDENT = "factorised", "independent"
_SIGMA = {FACTORISED: 0.5, INDEPENDENT: 0.017}
"""The paper's initial standard deviations of the noise."""


@dataclass(frozen=True, kw_only=True)
class Noisy(Dense):
    """A dense layer whose weights and biases get Gaussian noise of learned deviation.

    Without noise, it uses the mean weights. Independent noise is sampled per unit
    instead of per weight, with the same distribution (arXiv:1506.02557, eq. 6).

    Source: arXiv:1706.10295, section 3.
    """

    noise: str  # FACTORISED or INDEPENDENT
    sigma: float  # initial deviation; if factorised, divided by sqrt(inputs)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of means and deviations of kernel and bias by name."""
        means = super().shapes
        return means | {f"{name}_sigma": shape for name, shape in means.items()}

    @property
    def noise_units(self) -> int:
        """One sample per unit and, with factorised noise, one per input."""
        inputs, units = self.kernel_shape
        return units + (inputs if self.noise == FACTORISED else 0)

    @property
    def flops(self) -> int:
        """Return the floating-point operations of the forward pass on one input."""
        return 2 * super().flops

    def bind(self, arrays: Mapping[str, FloatArray], scale: float) -> Step:
        """Return the forward pass in NumPy, from [B, inputs] multiplied by `scale`.

        Its second argument is optional noise, float32 [B, noise_units].
        """
        mean = super().bind(arrays, scale)
        exact = replace(self, activation="linear")
        linear = Dense.bind(exact, arrays, scale)
        kernel = arrays[f"{self.name}/kernel_sigma"] * np.float32(scale)
        bias = arrays[f"{self.name}/bias_sigma"]
        activate, inputs = ACTIVATIONS[self.activation], len(kernel)
        variance = np.square(bias)
        is_factorised = self.noise == FACTORISED
        product = product_with(kernel if is_factorised else np.square(kernel))

        def factorised(x: Array, noise: FloatArray) -> FloatArray:
            scaled = np.copysign(np.sqrt(np.abs(noise)), noise)
            into, out = scaled[:, :inputs], scaled[:, inputs:]
            y: FloatArray = (product(x * into) + bias) * out
            return y

        def independent(x: Array, noise: FloatArray) -> FloatArray:
            squares = np.square(x, dtype=np.float32)
            y: FloatArray = np.sqrt(product(squares) + variance) * noise
            return y

        added = factorised if is_factorised else independent

        def noisy(x: Array, noise: FloatArray | None = None) -> FloatArray:
            if noise is None:
                return mean(x)
            return activate(linear(x) + added(x, noise))

        return noisy

    def keras(self, layers: Any, initializer: Initializer) -> Any:
        inputs = self.kernel_shape[0]
        is_factorised = self.noise == FACTORISED
        bound = math.sqrt((1 if is_factorised else 3) / inputs)
        sigma = self.sigma / (math.sqrt(inputs) if is_factorised else 1)
        made = resolve_name("xagents_ray.networks.keras_heads:KerasNoisy")
        return made(self, is_factorised, initializer("uniform_within", bound), sigma)


def with_noise(layout: Layout, noise: str, sigma: float | None = None) -> Layout:
    """Return a network with noise on the weights of its dense layers.

    The first layer with weights of each branch extracts features and gets no noise,
    unless it is the branch's only one. The noise is FACTORISED or INDEPENDENT; its
    initial deviation `sigma` defaults to the paper's.

    Raises:
        UserError: no layer can have noise.
    """
    weighted = [i for i, layer in enumerate(layout.layers) if layer.shapes]
    before = {i: _layers_before(layout, i) for i in weighted}
    features = {i for each in before.values() for i in each if not before[i]}
    layers = [
        Noisy(**vars(layer), noise=noise, sigma=sigma or _SIGMA[noise])
        if type(layer) is Dense and i not in features
        else layer
        for i, layer in enumerate(layout.layers)
    ]
    noisy = replace(layout, layers=tuple(layers))
    if not noisy.noise_units:
        raise UserError(
            f"--noisy {noise} changes dense layers that follow another layer, and this "
            "network has none: add a [dense-N] section, or leave it out."
        )
    return noisy


def _layers_before(layout: Layout, index: int) -> set[int]:
    """Return the indices of the nearest layers with weights before a layer."""
    found, new = set[int](), [*layout.layers[index].sources]
    while new:
        if (i := new.pop()) < 0:
            continue
        layer = layout.layers[i]
        if layer.shapes:
            found.add(i)
        else:
            new += layer.sources
    return found
