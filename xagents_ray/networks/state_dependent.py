"""Deviations of continuous actions that depend on what the policy's last layer reads.

Source: generalized state-dependent exploration (gSDE), arXiv:2005.05719.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pkgutil import resolve_name
from typing import Any

import numpy as np

from xagents_ray.core.errors import UserError
from xagents_ray.core.trajectory import Array, FloatArray
from xagents_ray.networks.keras_layers import Unreadable
from xagents_ray.networks.layers import Dense, Initializer, Step
from xagents_ray.networks.layout import Layout

EPSILON = 1e-6
"""Added to variances, which are 0 where all features are; Stable-Baselines3's."""
_NAME = "sde"


@dataclass(frozen=True, kw_only=True)
class StateDependentLogStd(Unreadable):
    """Returns the logarithms of the deviations of noise that is linear in features.

    Each number of a matrix [L, A] has a learned deviation: that of `features @ matrix`
    is the root of `features**2 @ deviations**2`.
    """

    features: int  # L
    initial: float  # logarithm of the deviations at the start
    learns_features: bool  # whether gradients flow through it to the layers before it
    draws: bool = False  # takes matrices as noise; see `bind`

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of the logarithms of deviations by name."""
        return {f"{self.name}/log_std": (self.features, *self.output_shape)}

    @property
    def flops(self) -> int:
        """Floating-point operations of its forward pass on one input."""
        return 2 * self.features * self.output_shape[0]

    @property
    def noise_units(self) -> int:
        """The numbers of a matrix if it draws, else none."""
        return self.features * self.output_shape[0] if self.draws else 0

    def bind(self, arrays: Mapping[str, FloatArray], scale: float) -> Step:
        """Return its forward pass in NumPy, of [B, L] times a scale.

        With standard normal matrices, float32 [B, L * A], it returns [B, 2 * A]: after
        the logarithms, the noise that the matrices make, divided by its deviations.
        """
        deviations = np.exp(arrays[f"{self.name}/log_std"]) * np.float32(scale)
        variances = np.square(deviations)

        def log_std(x: Array, noise: FloatArray | None = None) -> FloatArray:
            x = x.astype(np.float32, copy=False)
            y: FloatArray = np.log(np.square(x).dot(variances) + EPSILON) / 2
            if noise is None:
                return y
            matrices = noise.reshape(len(x), *deviations.shape) * deviations
            drawn = np.matmul(x[:, None], matrices)[:, 0]
            return np.concatenate([y, drawn * np.exp(-y)], axis=-1)

        return log_std

    def keras(self, layers: Any, initializer: Initializer) -> Any:
        """Return it as a layer of Keras."""
        made = resolve_name("xagents_ray.networks.keras_heads:StateDependentLogStd")
        return made(self)


def with_log_std(
    layout: Layout,
    initial: float,
    output: int | None = None,
    learns_features: bool = False,
) -> Layout:
    """Return a policy network with a `StateDependentLogStd` as one more output.

    It reads what the last dense layer of the first output, the means, reads.

    Args:
        layout: of the network.
        initial: logarithm of the deviations at the start.
        output: the one whose place it takes; None for one after all others.
        learns_features: whether gradients flow through it to the layers before it.
    Raises:
        UserError: there is no such layer.
    """
    layer = layout.layers[layout.outputs[0]]
    while not isinstance(layer, Dense) and layer.source >= 0:
        layer = layout.layers[layer.source]
    if not isinstance(layer, Dense) or len(layer.kernel_shape) != 2:
        raise UserError(
            "--sde-frequency makes noise of what the actions' last dense layer reads, "
            "and the model has none: end it in dense layers, or leave the flag out."
        )
    added = StateDependentLogStd(
        name=_NAME,
        source=layer.source,
        output_shape=layout.layers[layout.outputs[0]].output_shape,
        features=layer.kernel_shape[0],
        initial=initial,
        learns_features=learns_features,
    )
    begin = len(layout.outputs) if output is None else output
    ends = layout.outputs[:begin], (len(layout.layers),), layout.outputs[begin + 1 :]
    layers = (*layout.layers, added)
    return _pruned(replace(layout, layers=layers, outputs=sum(ends, ())))


def drawing(layout: Layout) -> tuple[Layout, int]:
    """Return a network with its `StateDependentLogStd` drawing, and which output it is.

    The network takes matrices as noise.
    """
    [added] = [x for x in layout.layers if isinstance(x, StateDependentLogStd)]
    place, layers = layout.layers.index(added), [*layout.layers]
    layers[place] = replace(added, draws=True)
    return replace(layout, layers=tuple(layers)), layout.outputs.index(place)


def _pruned(layout: Layout) -> Layout:
    """Return a network without layers that no output reads."""
    used, new = set[int](), [*layout.outputs]
    while new:
        if (i := new.pop()) >= 0 and i not in used:
            used.add(i)
            layer = layout.layers[i]
            new += layer.source, *layer.more_sources
    places = {-1: -1} | {i: place for place, i in enumerate(sorted(used))}
    layers = tuple(layout.layers[i].moved(places) for i in sorted(used))
    outputs = tuple(places[i] for i in layout.outputs)
    return replace(layout, layers=layers, outputs=outputs)
