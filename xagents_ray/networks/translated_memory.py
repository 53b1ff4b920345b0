"""Converts recurrent layers of Keras models, which read sequences of one step."""

from collections.abc import Mapping
from typing import Any

from xagents_ray.networks.layers import Flatten, Layer
from xagents_ray.networks.recurrent import GRU, LSTM, Recurrent

_KINDS: dict[str, type[Recurrent]] = {"GRU": GRU, "LSTM": LSTM}
_USUAL = {
    "activation": "tanh",
    "recurrent_activation": "sigmoid",
    "use_bias": True,
    "dropout": 0,
    "recurrent_dropout": 0,
    "return_sequences": False,
    "return_state": False,
    "go_backwards": False,
    "stateful": False,
}


def memory_layer(
    kind: str, own: Mapping[str, Any], shape: tuple[int, ...], facts: Mapping[str, Any]
) -> Layer | None:
    """Convert `Reshape((1, -1))` of a vector, or an LSTM or GRU of such a sequence.

    The layer then has memory from step to step. Return None for other layers.

    Args:
        kind: class name of the layer.
        own: config of the layer.
        shape: shape of what it reads.
        facts: name and source of the converted layer.
    """
    common = {**facts, "activation": "linear"}
    if kind == "Reshape" and len(shape) == 1:
        if tuple(own["target_shape"]) not in ((1, -1), (1, *shape)):
            return None
        return Flatten(**common, output_shape=(1, *shape))
    if kind not in _KINDS or len(shape) != 2 or shape[0] != 1:
        return None
    is_usual = all(own[key] == value for key, value in _USUAL.items())
    if not is_usual or not own.get("reset_after", True):
        return None
    return _KINDS[kind](
        **common,
        output_shape=(int(own["units"]),),
        inputs=shape[1],
        initializer="glorot_uniform",
        gain=1.0,
    )
