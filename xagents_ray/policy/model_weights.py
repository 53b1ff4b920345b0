"""The weights of all networks of an agent, as arrays by name."""

import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

from xagents_ray.core.errors import UserError
from xagents_ray.core.files import read_regular
from xagents_ray.core.moments import POLICY_STATISTICS
from xagents_ray.core.parsing import parse_json, read_bounded
from xagents_ray.core.trajectory import Array, WeightsFile
from xagents_ray.networks import keras_archive
from xagents_ray.networks.hdf5 import read_hdf5
from xagents_ray.networks.layout import Layout
from xagents_ray.networks.matching import match_arrays
from xagents_ray.policy.chosen import load_chosen
from xagents_ray.run.tensorflow_child import read_any_weights
from xagents_ray.run.weights_formats import decode_unmatched
from xagents_ray.storage.run_directory import RunDirectory
from xagents_ray.storage.weights import encode_npz, write_file

_LARGEST_INDEX = 1 << 22  # maximum size of the index of a file in parts, in bytes


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


def check_weights_file(path: str) -> None:
    """Check a weights file that Keras itself will read, as it bounds no memory.

    Args:
        path: path of the file: .h5, .weights.h5, .keras, or .weights.json, whose parts
            are beside it; others are not checked.
    Raises:
        UserError: the file is missing or damaged, or has more than it has bytes for.
    """
    try:
        for content in _hdf5_files(Path(path)):
            read_hdf5(content, with_texts=True)
    except OSError as error:
        raise UserError(
            f"{path}: can't be read ({error.strerror}); give a weights file that you "
            "may read."
        ) from None
    except Exception:  # zipfile and zlib raise anything
        raise UserError(
            f"{path}: not a weights file of Keras, or a damaged one; give another or "
            "copy it again."
        ) from None


def _hdf5_files(path: Path) -> Iterator[bytes]:
    """Yield the contents of the HDF5 files with the weights of a file of Keras."""
    if path.suffix in (".h5", ".hdf5"):
        yield read_regular(path)
    elif path.suffix == ".keras":
        yield keras_archive.weights_file(read_regular(path))
    elif path.suffix == ".json":
        index = parse_json(read_bounded(path, _LARGEST_INDEX))
        names = {path.name.replace(".weights.json", "_00000.weights.h5")}
        for named in index["weight_map"].values():
            names.update(named if isinstance(named, list) else [named])
        for name in sorted(names):
            yield read_regular(path.with_name(name))


def write_weights(path: str, arrays: Mapping[str, Array]) -> None:
    """Write arrays by name to a weights file, .npz.

    Raises:
        OSError: the file can't be written.
    """
    write_file(WeightsFile(path, encode_npz(arrays)))


def newest_arrays(directory: str) -> dict[str, Array]:
    """Return the arrays of a run's newest checkpoint: `policy/dense-0/kernel`, ….

    Damaged checkpoints are skipped, with a Python warning for each.

    Raises:
        UserError: there is no checkpoint, or all are damaged.
    """
    run = RunDirectory(Path(directory))
    checkpoint, (_, *skipped) = load_chosen(run, None, "last")
    for note in skipped:
        warnings.warn(note, stacklevel=2)
    return checkpoint.arrays
