"""Checks with Keras that a model's weights are in its file, before it makes them."""

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from xagents_ray.core.process import drawing_by, quiet_stderr
from xagents_ray.networks.keras_archive import check_size, unusable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
with quiet_stderr():  # hides TensorFlow's output during import
    import keras


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
    """Raise UserError if a model needs more weights than its file has.

    It is made without memory for its weights, in a thread whose end discards what Keras
    holds to initialize them later.

    Args:
        name: name of the file, for messages.
        make: function that returns a new instance of the model.
        nbytes: size of the weights in the file, in bytes.
    """
    without_weights = keras.StatelessScope(initialize_variables=False)

    def shapes() -> list[tuple[int, ...]]:
        with without_weights, drawing_by(name):
            return [tuple(variable.shape) for variable in make().weights]

    with ThreadPoolExecutor(1) as thread:
        try:
            found = thread.submit(shapes).result()
        except Exception as error:
            raise unusable(name, error) from None
    check_size(name, found, nbytes)
