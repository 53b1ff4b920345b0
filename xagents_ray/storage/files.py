"""Files that appear whole or not at all, sealed directories, arrays without pickle."""

import hashlib
import json
import math
import os
import re
import stat
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from xagents_ray.core.errors import UserError
from xagents_ray.core.trajectory import Array

MANIFEST = "manifest.json"
_FORMAT = 1
_CHUNK = 1 << 20  # bytes
_LARGEST_MANIFEST = 1 << 20  # bytes
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_HASH = re.compile(r"[0-9a-f]{64}")


def sync_directory(path: Path) -> None:
    """Make the names in a directory survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_new(path: Path, data: bytes) -> None:
    """Write a file that must not exist, not even as a link, and sync it."""
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_bytes(path: Path, data: bytes) -> None:
    """Give a file new contents at once: whoever is killed, it is old or new.

    Raises:
        OSError: it can't be written; the old file is untouched.
    """
    aside = path.with_name(f".{path.name}.new")
    aside.unlink(missing_ok=True)
    try:
        write_new(aside, data)
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def seal(directory: Path, names: Iterable[str], facts: Mapping[str, Any]) -> None:
    """Sync files of a directory and write their sizes and hashes to a manifest.

    Args:
        directory: without a manifest yet.
        names: of regular files in it.
        facts: to stand in the manifest too, as JSON.
    Raises:
        OSError: one can't be read or synced, or the manifest not written.
        ValueError: a name that `read_manifest` would refuse, or no regular file.
    """
    files = {}
    for name in sorted(names):
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name for a file of a checkpoint.")
        with _open_regular(directory / name) as file:
            os.fsync(file.fileno())
            size = os.fstat(file.fileno()).st_size
            files[name] = {"size": size, "sha256": _sha256(file)}
    manifest = {"format": _FORMAT, **facts, "files": files}
    write_new(directory / MANIFEST, json.dumps(manifest, indent=1).encode())
    sync_directory(directory)


def read_manifest(directory: Path) -> dict[str, Any]:
    """Return what `seal` wrote: its `facts` as they are, `files` by good names only.

    Raises:
        UserError: it is missing or damaged.
    """
    path = directory / MANIFEST
    with reading(path):
        if directory.is_symlink():
            raise ValueError("its directory is a symbolic link")
        with _open_regular(path) as file:
            manifest = json.loads(file.read(_LARGEST_MANIFEST))
        if manifest["format"] != _FORMAT:
            raise ValueError(f"its format is not {_FORMAT}")
        for name, entry in manifest["files"].items():
            if not _NAME.fullmatch(name):
                raise ValueError(f"it names {name!r}")
            if type(entry["size"]) is not int or not _HASH.fullmatch(entry["sha256"]):
                raise ValueError(f"its entry of {name!r} is damaged")
    return dict(manifest)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn every error of what is inside into one sentence on the file.

    Raises:
        UserError: anything went wrong; the message has no full stop yet.
    """
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{path} is missing") from None
    except KeyError as error:
        raise UserError(f"{path} can't be used (it has no {error})") from None
    except Exception as error:  # parsers raise anything at a damaged file
        reason = error.strerror if isinstance(error, OSError) else str(error)
        short = " ".join((reason or type(error).__name__).split())[:200]
        raise UserError(f"{path} can't be used ({short})") from None


@contextmanager
def verified(path: Path, entry: Mapping[str, Any]) -> Iterator[BinaryIO]:
    """Open a file at its start, after all of it fits the manifest's entry.

    Raises:
        OSError: it can't be read.
        ValueError: it is not what was sealed.
    """
    with _open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size != entry["size"]:
            raise ValueError(f"it has {size} bytes, {entry['size']} were written")
        if _sha256(file) != entry["sha256"]:
            raise ValueError("its contents are not what was written")
        file.seek(0)
        yield file


def _open_regular(path: Path) -> BinaryIO:
    """Open a file to read; never a link, and never a pipe, which would wait."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    file = open(descriptor, "rb")
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        file.close()
        raise ValueError("it is no regular file")
    return file


def _sha256(file: BinaryIO) -> str:
    """Return the hexadecimal digest of the rest of a file."""
    digest, buffer = hashlib.sha256(), memoryview(bytearray(_CHUNK))
    while count := file.readinto(buffer):  # type: ignore[attr-defined]
        digest.update(buffer[:count])
    return digest.hexdigest()


class Piecemeal(NamedTuple):
    """An array that comes in pieces.

    Attributes:
        name: of it.
        dtype: of booleans, integers or floats.
        shape: of it.
        pieces: buffers of its bytes, in C order.
    """

    name: str
    dtype: npt.DTypeLike
    shape: tuple[int, ...]
    pieces: Iterable[Any]


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays to a new .npz file, uncompressed, without a copy of them all.

    Args:
        path: must not exist.
        arrays: booleans, integers and floats of any shape, by name.
    Raises:
        OSError: it can't be written; a part of it may be left.
        ValueError: an array of another kind.
    """
    write_piecemeal(
        path,
        (
            Piecemeal(name, array.dtype, array.shape, _pieces(array))
            for name, array in arrays.items()
        ),
    )


def write_piecemeal(path: Path, arrays: Iterable[Piecemeal]) -> None:
    """Write a file as `write_arrays` does, of arrays that come in pieces."""
    with open(path, "xb") as file, zipfile.ZipFile(file, "w") as archive:
        for name, dtype, shape, pieces in arrays:
            if np.dtype(dtype).kind not in "biuf":
                raise ValueError(f"{name!r} is an array of {dtype}.")
            header = {
                "descr": npy.dtype_to_descr(np.dtype(dtype)),
                "fortran_order": False,
                "shape": shape,
            }
            info = zipfile.ZipInfo(f"{name}.npy")
            with archive.open(info, "w", force_zip64=True) as member:
                npy.write_array_header_1_0(member, header)
                for piece in pieces:
                    member.write(piece)


def _pieces(array: Array) -> Iterator[Array]:
    flat = np.asarray(array, order="C").reshape(-1).view(np.uint8)
    for first in range(0, len(flat), _CHUNK):
        yield flat[first : first + _CHUNK]


def read_arrays(
    file: BinaryIO, into: Mapping[str, Array] | None = None
) -> dict[str, Array]:
    """Return the arrays that `write_arrays` wrote; memory is bounded by the file's.

    Args:
        file: open and seekable.
        into: C-contiguous arrays to fill and return in place of new ones.
    Raises:
        Exception: of any kind, when the file is damaged; ValueError when its names,
            shapes or dtypes are not those of `into`, parts of which may be filled.
    """
    arrays = {} if into is None else dict(into)
    expected = None
    if into is not None:
        expected = {name: (a.dtype, a.shape) for name, a in into.items()}
    for name, dtype, shape, pieces in read_piecemeal(file, expected, _CHUNK):
        if into is None:
            arrays[name] = np.empty(shape, dtype)
        rest = arrays[name].reshape(-1, copy=False).view(np.uint8)
        for piece in pieces:
            rest[: len(piece)] = piece
            rest = rest[len(piece) :]
    return arrays


def read_piecemeal(
    file: BinaryIO,
    expected: Mapping[str, tuple[npt.DTypeLike, tuple[int, ...]]] | None,
    nbytes: int,
) -> Iterator[Piecemeal]:
    """Yield the arrays that `write_arrays` wrote.

    Args:
        file: open and seekable.
        expected: dtype and shape of each array; None for any arrays.
        nbytes: of a piece, at most.
    Raises:
        Exception: as `read_arrays` does, while it yields.
    """
    found: set[str] = set()
    size = os.fstat(file.fileno()).st_size
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if sum(info.file_size for info in members) > size:
            raise ValueError("its arrays are larger than the file")
        for info in members:
            name = info.filename.removesuffix(".npy")
            if name in found or (expected is not None and name not in expected):
                raise ValueError(f"the array {name!r} is not expected")
            found.add(name)
            with archive.open(info) as member:
                dtype, shape = _read_header(name, member, info.file_size)
                if expected is not None:
                    there = np.dtype(expected[name][0]), tuple(expected[name][1])
                    if there != (dtype, shape):
                        raise ValueError(
                            f"{name!r} is {dtype} {shape}, expected {there[0]} "
                            f"{there[1]}"
                        )
                pieces = _read_pieces(name, member, info.file_size, nbytes)
                yield Piecemeal(name, dtype, shape, pieces)
    if expected is not None and len(expected) != len(found):
        raise ValueError(f"the array {min(expected.keys() - found)!r} is missing")


def _read_header(
    name: str, member: IO[bytes], size: int
) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return dtype and shape of an array in an archive, which fit its size in bytes."""
    if npy.read_magic(member) != (1, 0):
        raise ValueError(f"{name!r} has another format")
    shape, fortran_order, dtype = npy.read_array_header_1_0(member)
    if dtype.kind not in "biuf" or fortran_order:
        raise ValueError(f"{name!r} has another layout")
    if math.prod(shape) * dtype.itemsize != size - member.tell():
        raise ValueError(f"the shape of {name!r} doesn't fit its size")
    return dtype, shape


def _read_pieces(
    name: str, member: IO[bytes], size: int, nbytes: int
) -> Iterator[Array]:
    """Yield the rest of an archive's member of a size, in pieces."""
    while member.tell() < size:
        piece = member.read(min(nbytes, size - member.tell()))
        if not piece:
            raise ValueError(f"{name!r} is cut off")
        yield np.frombuffer(piece, np.uint8)
