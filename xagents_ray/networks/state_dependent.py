"""Standard deviations of continuous actions that depend on the state.

Source: generalized state-dependent exploration (gSDE), arXiv:2005.05719.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pkgutil import resolve_name
from typing import Any

import numpy as np

from xagents_ray.core.errors import UserError
from xagents_ray.core.trajectory import Array, FloatArray
from xagents_ray.networks.keras_layers import LayerWithoutSection
from xagents_ray.networks.layers import Dense, Initializer, Step
from xagents_ray.networks.layout import Layout

VARIANCE_EPSILON = 1e-6
"""Added to variances, which are 0 if all features are; as in Stable-Baselines3."""
_NAME = "sde"


@dataclass(frozen=True, kw_only=True)
class StateDependentLogStd(LayerWithoutSection):
    """Outputs log standard deviations of noise that is linear in the features.

    Each entry of a noise matrix [L, A] has a learned deviation. The deviation of
    `features @ matrix` is then the square root of `features**2 @ deviations**2`.
    """

    features: int  # number of features, L
    initial: float  # initial log standard deviation
    learns_features: bool  # whether gradients flow into the layers before it
    draws: bool = False  # whether it takes noise matrices; see `bind`

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of the log standard deviations by name."""
        return {f"{self.name}/log_std": (self.features, *self.output_shape)}

    @property
    def flops(self) -> int:
        """Return the floating-point operations of the forward pass on one input."""
        return 2 * self.features * self.output_shape[0]

    @property
    def noise_units(self) -> int:
        """Size of a noise matrix if the layer takes one, else 0."""
        return self.features * self.output_shape[0] if self.draws else 0

    def bind(self, arrays: Mapping[str, FloatArray], scale: float) -> Step:
        """Return the forward pass in NumPy, from [B, L] multiplied by `scale`.

        Given standard normal matrices, float32 [B, L * A], it returns [B, 2 * A]: the
        log deviations, then the matrices' noise divided by its deviations.
        """
        deviations = np.exp(arrays[f"{self.name}/log_std"]) * np.float32(scale)
        variances = np.square(deviations)

        def log_std(x: Array, noise: FloatArray | None = None) -> FloatArray:
            x = x.astype(np.float32, copy=False)
            y: FloatArray = np.log(np.square(x).dot(variances) + VARIANCE_EPSILON) / 2
            if noise is None:
                return y
            matrices = noise.reshape(len(x), *deviations.shape) * deviations
            drawn = np.matmul(x[:, None], matrices)[:, 0]
            return np.concatenate([y, drawn * np.exp(-y)], axis=-1)

        return log_std

    def keras(self, layers: Any, initializer: Initializer) -> Any:
        made = resolve_name(
            "xagents_ray.networks.keras_heads:KerasStateDependentLogStd"
        )
        return made(self)


def with_log_std(
    layout: Layout,
    initial: float,
    output: int | None = None,
    learns_features: bool = False,
) -> Layout:
    """Return a policy network with a `StateDependentLogStd` as an additional output.

    The new layer has the same input as the last dense layer of the first output, which
    is the means.

    Args:
        layout: layout of the network.
        initial: initial log standard deviation.
        output: index of the output to replace; None appends one.
        learns_features: whether its gradients flow into the layers before it.
    Raises:
        UserError: the first output has no dense layer.
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
        more_sources=layer.more_sources,
        output_shape=layout.layers[layout.outputs[0]].output_shape,
        features=layer.kernel_shape[0],
        initial=initial,
        learns_features=learns_features,
    )
    begin = len(layout.outputs) if output is None else output
    ends = layout.outputs[:begin], (len(layout.layers),), layout.outputs[begin + 1 :]
    layers = (*layout.layers, added)
    return replace(layout, layers=layers, outputs=sum(ends, ())).pruned()


def with_drawn_noise(layout: Layout) -> tuple[Layout, int]:
    """Return a network whose `StateDependentLogStd` takes noise matrices.

    Also return the index of this layer among the outputs.
    """
    [added] = [x for x in layout.layers if isinstance(x, StateDependentLogStd)]
    place, layers = layout.layers.index(added), [*layout.layers]
    layers[place] = replace(added, draws=True)
    return replace(layout, layers=tuple(layers)), layout.outputs.index(place)
