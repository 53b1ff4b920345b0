"""The weights of all networks of an agent, as arrays by name."""

from collections.abc import Mapping
from pathlib import Path

from xagents_ray.core.moments import POLICY_STATISTICS
from xagents_ray.core.trajectory import Array, WeightsFile
from xagents_ray.networks.layout import Layout
from xagents_ray.networks.matching import match_arrays
from xagents_ray.policy.loading import choose_checkpoint
from xagents_ray.run.tensorflow_child import read_any_weights
from xagents_ray.run.weights_formats import decode_unmatched
from xagents_ray.storage.checkpoints import load_checkpoint
from xagents_ray.storage.run_directory import RunDirectory
from xagents_ray.storage.weights import encode_npz, write_file


def read_weights(path: str, layout: Layout) -> dict[str, Array] | None:
    """Return the arrays of a weights file, in this process.

    Args:
        path: path of the file: .tf, .weights.h5 or .npz.
        layout: layout of the network.
    Returns:
        float32 arrays of the network, by names such as `dense-0/kernel`, and the
        `log_std`, `action_scaling` and float64 statistics that the file has. None if
        it is of another network.
    Raises:
        UserError: the file is missing or damaged.
    """
    file = read_any_weights(path)
    arrays = decode_unmatched(file, layout)
    extras = {
        name: array.shape
        for name, array in arrays.items()
        if name in ("log_std", "action_scaling") or name.startswith(POLICY_STATISTICS)
    }
    shapes = {k: array.shape for k, array in arrays.items() if k not in extras}
    if shapes != layout.shapes:
        return None
    return match_arrays(arrays, layout.shapes, extras, file.path, layout)[0]


def write_weights(path: str, arrays: Mapping[str, Array]) -> None:
    """Write arrays by name to a weights file, .npz.

    Raises:
        OSError: the file can't be written.
    """
    write_file(WeightsFile(path, encode_npz(arrays)))


def newest_arrays(directory: str) -> dict[str, Array]:
    """Return the arrays of a run's newest checkpoint: `policy/dense-0/kernel`, ….

    Raises:
        UserError: there is no checkpoint, or it is damaged.
    """
    path, _ = choose_checkpoint(RunDirectory(Path(directory)), None, "last")
    return load_checkpoint(path, "give --run").arrays
