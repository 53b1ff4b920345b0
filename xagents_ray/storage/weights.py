"""Weights files: one model's arrays and extras, at a path that the user chooses.

`learners/formats` encodes and decodes `.tf` and `.weights.h5`, which need TensorFlow;
this module reads and writes their bytes, and encodes and decodes `.npz`.
"""

import io
import os
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

from xagents_ray.core.errors import UserError, did_you_mean
from xagents_ray.core.files import read_regular, sync_directory, write_new
from xagents_ray.core.trajectory import Array, FloatArray, WeightsFile
from xagents_ray.storage import migrations
from xagents_ray.storage.arrays import read_arrays, write_arrays
from xagents_ray.storage.weights_card import Card, card_arrays, card_of, is_of_card

# Suffixes of each format's files, in the order in which they are renamed.
_PARTS = {
    ".tf": (".data-00000-of-00001", ".index"),
    ".weights.h5": ("",),
    ".npz": ("",),
    ".keras": ("",),
    ".h5": ("",),
}
_READ_ONLY = ".h5"
"""Ending of files of Keras 2 with whole models, whose weights can be read."""
# Largest ratio of decompressed size to file size; weights hardly compress.
_GROWTH = 16


def whole_path(path: str) -> str:
    """Return the path of a `.tf` file that was named by one of its two parts."""
    return re.sub(r"\.tf\.(index|data-\d{5}-of-\d{5})$", ".tf", path)


def is_file_name(path: str) -> bool:
    """Return whether a path has the ending of a weights file."""
    return whole_path(path).endswith(tuple(_PARTS))


def file_kind(path: str) -> str:
    """Return `.tf`, `.weights.h5`, `.npz` or `.keras`, or raise UserError."""
    kind = next((x for x in _PARTS if whole_path(path).endswith(x)), None)
    if kind is None or kind == _READ_ONLY:
        raise UserError(
            f"{path}: not the name of a weights file; it must end in .tf, .weights.h5, "
            ".npz or .keras."
        )
    return kind


def readable_kind(path: str) -> str:
    """Return the ending of a file to read, which may be `.h5` too.

    Raises:
        UserError: it has another ending.
    """
    whole = whole_path(path)
    return next((x for x in _PARTS if whole.endswith(x)), None) or file_kind(path)


def _aside(path: str, suffix: str) -> Path:
    """Return the temporary path of a part, before it is renamed."""
    place = Path(path + suffix)
    return place.with_name(f".{place.name}.new")


def _half_done(path: str, parts: tuple[str, ...]) -> bool:
    """Return whether a writer was killed before it renamed the last part."""
    first, last = _aside(path, parts[0]), _aside(path, parts[-1])
    return first != last and last.exists() and not first.exists()


def _discard(path: str, parts: tuple[str, ...]) -> None:
    """Remove temporary files, the last part first."""
    for suffix in reversed(parts):
        _aside(path, suffix).unlink(missing_ok=True)


def read_file(path: str) -> WeightsFile:
    """Read a weights file without decoding it.

    Raises:
        UserError: the ending is unknown, or the file is missing or unreadable.
    """
    parts = _PARTS[readable_kind(path)]
    path = whole_path(path)
    whole = {suffix: Path(path + suffix) for suffix in parts}
    if _half_done(path, parts):
        whole[parts[-1]] = _aside(path, parts[-1])
    try:
        return WeightsFile(path, {s: read_regular(p) for s, p in whole.items()})
    except FileNotFoundError as error:
        raise UserError(_missing(path, str(error.filename))) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(
            f"{path}: can't be read ({reason}); give a weights file that you may read."
        ) from None


def _missing(path: str, file: str) -> str:
    """Return the error message for a missing file."""
    if any(os.path.exists(path + suffix) for suffix in _PARTS[readable_kind(path)]):
        return f"{path}: incomplete, {file} is missing; copy both files of it."
    folder, name = os.path.split(path)
    try:
        names = {whole_path(each) for each in os.listdir(folder or ".")}
    except OSError:
        names = set()
    known = sorted(each for each in names if each.endswith(tuple(_PARTS)))
    advice = did_you_mean(name, known) or "; give the path that --checkpoints wrote."
    if os.path.isdir(path):
        return f"{path}: a directory, not a weights file{advice}"
    return f"{path}: no such weights file{advice}"


def write_file(file: WeightsFile) -> None:
    """Write a weights file atomically.

    Each part is written to a temporary file, synced and renamed. A `.tf` file has two
    parts. If the process is killed between their renames, the index is still in its
    temporary file, where `read_file` finds it: it always reads the old or the new
    weights. TensorFlow's readers detect the mismatch by checksum until the next
    `write_file`.

    Raises:
        OSError: writing fails; the old file is unchanged.
    """
    path, parts = file.path, _PARTS[file_kind(file.path)]
    folder = Path(path).parent
    folder.mkdir(parents=True, exist_ok=True)
    if _half_done(path, parts):
        os.replace(_aside(path, parts[-1]), path + parts[-1])
    _discard(path, parts)
    try:
        for suffix in parts:
            write_new(_aside(path, suffix), file.files[suffix])
    except BaseException:
        _discard(path, parts)
        raise
    for suffix in parts:
        os.replace(_aside(path, suffix), path + suffix)
    sync_directory(folder)


def encode_npz(
    arrays: Mapping[str, FloatArray], card: Card | None = None
) -> dict[str, bytes]:
    """Return the contents of an `.npz` file with these arrays, and a card if any."""
    out = io.BytesIO()
    described = {} if card is None else card_arrays(card)
    write_arrays(out, {**arrays, **described})
    with zipfile.ZipFile(out, "a") as archive:
        archive.comment = migrations.npz_comment()
    return {"": out.getvalue()}


def with_card(file: WeightsFile, card: Card) -> WeightsFile:
    """Return an `.npz` file with a card; other files have no room for one."""
    if file_kind(file.path) != ".npz":
        return file
    return WeightsFile(file.path, encode_npz(arrays_in(file), card))


def is_empty(file: WeightsFile) -> bool:
    """Return whether a file is that of no arrays, for a network without weights yet."""
    return file.files == encode_npz({})


def arrays_in(file: WeightsFile) -> dict[str, Array]:
    """Return the arrays of an `.npz` file by name.

    Memory is bounded by the file's size; nothing in it is executed.

    Raises:
        UserError: the file is not a complete `.npz` file of numbers.
    """
    try:
        return read_arrays(io.BytesIO(file.files[""]), growth=_GROWTH)
    except Exception as error:  # zipfile, zlib and NumPy raise anything
        raise damaged_weights(file.path) from error


def decode_npz(file: WeightsFile) -> dict[str, Array]:
    """Return the arrays of a `.npz` weights file, migrated to the newest format.

    Raises:
        UserError: as in `arrays_in`, or a newer version wrote it.
    """
    arrays = arrays_in(file)
    try:
        with zipfile.ZipFile(io.BytesIO(file.files[""])) as archive:
            number = migrations.number_in(archive.comment)
        arrays = {k: v for k, v in arrays.items() if not is_of_card(k)}
        for migration in migrations.migrations_from(number, file.path):
            arrays = migration.weights(arrays)
        return arrays
    except migrations.NewerFormatError as error:
        raise UserError(f"{error}.") from None
    except Exception as error:  # damaged comment, or failed migration
        raise damaged_weights(file.path) from error


def card_in(file: WeightsFile) -> Card | None:
    """Return the card of a `.npz` weights file, if it has one.

    Raises:
        UserError: as in `decode_npz`.
    """
    arrays = arrays_in(file)
    try:
        with zipfile.ZipFile(io.BytesIO(file.files[""])) as archive:
            number = migrations.number_in(archive.comment)
        if (card := card_of(arrays)) is None:
            return None
        settings = card.settings
        for migration in migrations.migrations_from(number, file.path):
            settings = migration.settings(card.agent, settings)
        return card._replace(settings=settings)
    except migrations.NewerFormatError as error:
        raise UserError(f"{error}.") from None
    except Exception as error:
        raise damaged_weights(file.path) from error


def damaged_weights(path: str) -> UserError:
    """Return the error for a damaged weights file."""
    kind = readable_kind(path)
    return UserError(
        f"{path}: not a {kind} weights file, or a damaged one; give another or copy it "
        "again."
    )
