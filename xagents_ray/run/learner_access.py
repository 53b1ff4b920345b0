"""Access to the learner of a run, in the process that calls it.

Higher packages use `learners/` only through this module and `weights_formats`. The
first call imports TensorFlow, which takes seconds.
"""

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

import cloudpickle

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core import objects
from xagents_ray.core.trajectory import Array, WeightsFile
from xagents_ray.run import weights_formats
from xagents_ray.storage.weights import is_empty

LEARNERS = "xagents_ray.learners.build"
"""Module that creates learners; importing it imports all of their dependencies."""
_PEERS = "xagents_ray.learners.peers"


def load_tensorflow() -> Any:
    """Import TensorFlow quietly; return the module with its process-wide settings."""
    return import_module("xagents_ray.learners.runtime")


_TENSORFLOW: bytes = cloudpickle.dumps(load_tensorflow)
"""Definition that stands before those of what networks are made of."""


def learner_gpus() -> list[str]:
    """Return the names of the GPUs on which a learner would run."""
    return list(load_tensorflow().usable_gpus())


def export_parts(
    run: RunSpec, more: Iterable[tuple[str, str]] = ()
) -> tuple[bytes, ...]:
    """Return definitions of what a run's networks are made of, for `install_parts`.

    Where there are any, the first one imports TensorFlow, as the others may import
    Keras.

    Args:
        run: the run.
        more: setting and name of further registered objects.
    Raises:
        UserError: an object can't be serialized; the message names it.
    """
    found = objects.export_each([*run.parts_of_networks, *more])
    return (_TENSORFLOW, *found) if found else ()


def install_parts(definitions: Sequence[bytes]) -> None:
    """Register what another process exported, after TensorFlow if it is needed.

    Raises:
        UserError: a module is missing or different in this process.
    """
    if _TENSORFLOW in definitions:
        load_tensorflow()
    objects.install_definitions(definitions)


def make_learner(
    run: RunSpec, rank: int = 0, addresses: tuple[str, ...] = ()
) -> tuple[Any, list[str]]:
    """Create the learner of a run; return it with notes on its initial weights.

    The arguments are those of `build_learner`.

    Raises:
        UserError: a weights file is damaged or of other models, or this machine can't
            compute fast in the run's precision.
    """
    learner = import_module(LEARNERS).build_learner(run, rank, addresses)
    row, notes = run.algorithm, list[str]()
    has_arrays = not all(map(is_empty, run.weights))
    for model, layout, file in zip(row.models, run.layouts, run.weights, strict=False):
        if has_arrays and is_empty(file):
            continue
        extras = row.extras(model, run.config.algorithm, run.spec)
        arrays, more = weights_formats.decode_weights(file, layout, extras)
        learner.load({f"{model.name}/{name}": array for name, array in arrays.items()})
        notes += more
    return learner, notes


def has_lost_learner(error: BaseException) -> bool:
    """Return whether a learning phase failed because another learner is lost."""
    lost: bool = import_module(_PEERS).has_lost_peer(error)
    return lost


def encode_models(
    run: RunSpec, arrays: Mapping[str, Array], paths: Sequence[str]
) -> list[WeightsFile]:
    """Return the models within a learner's state as weights files.

    The state's names are like `policy/dense-0/kernel`. There is one path per model; its
    ending determines the format.
    """
    parts = zip(run.algorithm.models, run.layouts, paths, strict=True)
    return [
        weights_formats.encode_weights(model.own(arrays), layout, path)
        for model, layout, path in parts
    ]
