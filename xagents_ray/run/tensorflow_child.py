"""Work that needs TensorFlow, in a process of its own."""

import time
from typing import Any

from xagents_ray.core.errors import Broken, UserError
from xagents_ray.core.installation import check_complete
from xagents_ray.core.trajectory import WeightsFile
from xagents_ray.run.child import Child, Job, Outcome
from xagents_ray.storage.weights import read_file, readable_kind

FROM_H5 = "xagents_ray.networks.keras_conversion:keras_file_of_h5"
"""Function that converts a file of Keras 2 with a whole model."""
_SECONDS = 300


def with_tensorflow(path: str, function: str, *arguments: Any) -> Any:
    """Call a function in a child process; return its result.

    TensorFlow and Mesa, which renders windows, each bundle LLVM; loading both in one
    process causes a segmentation fault.
    """
    check_complete(path)
    until = time.monotonic() + _SECONDS
    with Child.start(Job(function, arguments, seconds=_SECONDS)) as child:
        try:
            outcome: Outcome = child.receive(until)
        except TimeoutError:
            raise UserError(
                f"{path}: TensorFlow took longer than {_SECONDS} s; try again when the "
                "machine is less busy, or take a .npz file."
            ) from None
    if outcome.is_advice:
        raise UserError(outcome.failure)
    if outcome.failure:
        raise Broken(f"{path}: TensorFlow failed: {outcome.failure}.")
    return outcome.value


def read_any_weights(path: str) -> WeightsFile:
    """Read a weights file, or the weights of a whole model in `.keras` or `.h5`.

    Raises:
        UserError: the ending is unknown, or the file is missing or damaged.
    """
    file = read_file(path)
    if readable_kind(path) != ".h5":
        return file
    content = with_tensorflow(path, FROM_H5, path, file.files[""])
    return WeightsFile(f"{path}:model.keras", {"": content})
