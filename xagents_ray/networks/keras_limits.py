"""Checks with Keras what a model in a file would take, before it makes that."""

import math
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from xagents_ray.core.errors import UserError
from xagents_ray.core.process import drawing_by, quiet_stderr
from xagents_ray.networks.keras_archive import check_size, unusable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
with quiet_stderr():  # hides TensorFlow's output during import
    import keras

_MOST_NUMBERS = 2**24
"""Numbers that a layer may return for one observation: 512 × 512 pixels × 64."""


def check_weights(name: str, config: Mapping[str, Any], nbytes: int) -> None:
    """Raise UserError if the model in a `.keras` file needs more weights than it has.

    Args:
        name: name of the file, for messages.
        config: config of the model, whose classes were checked.
        nbytes: size of the weights in the file, in bytes.
    """
    plain = {**config, "compile_config": None}
    check_model(name, lambda: keras.saving.deserialize_keras_object(plain), nbytes)


def check_model(name: str, make: Callable[[], Any], nbytes: int) -> None:
    """Raise UserError if a model needs more weights than its file has, or much memory.

    It is made without memory for its weights, in a thread whose end discards what Keras
    holds to initialize them later.

    Args:
        name: name of the file, for messages.
        make: function that returns a new instance of the model.
        nbytes: size of the weights in the file, in bytes.
    """
    without_weights = keras.StatelessScope(initialize_variables=False)

    def shapes() -> tuple[list[tuple[int, ...]], dict[str, int]]:
        with without_weights, drawing_by(name):
            model = make()
            return [tuple(each.shape) for each in model.weights], dict(_outputs(model))

    with ThreadPoolExecutor(1) as thread:
        try:
            weights, outputs = thread.submit(shapes).result()
        except Exception as error:
            raise unusable(name, error) from None
    check_size(name, weights, nbytes)
    largest, size = max(outputs.items(), key=lambda item: item[1], default=("", 0))
    if size > _MOST_NUMBERS:
        raise UserError(
            f"{name}: its layer {largest!r:.80} returns {size:,} numbers for one "
            f"observation, and {_MOST_NUMBERS:,} is the most: make it smaller."
        )


def _outputs(model: Any) -> Iterator[tuple[str, int]]:
    """Yield layers, those of inner models too, with the size of their output."""
    for layer in model.layers:
        nodes = [
            tensor for node in layer._inbound_nodes for tensor in node.output_tensors
        ]
        sizes = (math.prod(x or 1 for x in each.shape[1:]) for each in nodes)
        yield layer.name, max(sizes, default=0)
        if isinstance(layer, keras.Model):
            yield from _outputs(layer)
