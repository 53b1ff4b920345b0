"""Arrays in .npz files: no pickles, pieces, and memory bounded by the file size."""

import math
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from xagents_ray.core.trajectory import Array

Kind = tuple[npt.DTypeLike, tuple[int, ...]]
"""Dtype and shape of an array."""
_CHUNK = 1 << 20  # bytes
_READ_HEADER = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class Piecemeal(NamedTuple):
    """An array as a sequence of pieces."""

    name: str
    dtype: npt.DTypeLike  # of booleans, integers or floats
    shape: tuple[int, ...]
    # Buffers of its bytes, in C order unless `fortran_order` is set.
    pieces: Iterable[Any]
    fortran_order: bool = False  # whether its first axis changes fastest


def write_arrays(file: Path | IO[bytes], arrays: Mapping[str, Array]) -> None:
    """Write arrays to a new .npz file, uncompressed, without copying them all.

    Args:
        file: a path that must not exist, or a file open for writing.
        arrays: booleans, integers and floats of any shape, by name.
    Raises:
        OSError: the file can't be written; a partial file may be left.
        ValueError: an array has another dtype.
    """
    pieces = (Piecemeal(k, a.dtype, a.shape, _pieces(a)) for k, a in arrays.items())
    write_piecemeal(file, pieces)


def write_piecemeal(file: Path | IO[bytes], arrays: Iterable[Piecemeal]) -> None:
    """Write a file as `write_arrays` does, from arrays in pieces."""
    with zipfile.ZipFile(file, "x" if isinstance(file, Path) else "w") as archive:
        for array in arrays:
            dtype = np.dtype(array.dtype)
            if dtype.kind not in "biuf":
                raise ValueError(f"{array.name!r} is an array of {dtype}.")
            descr, shape = npy.dtype_to_descr(dtype), array.shape
            header = {"descr": descr, "fortran_order": False, "shape": shape}
            info = zipfile.ZipInfo(f"{array.name}.npy")
            with archive.open(info, "w", force_zip64=True) as member:
                npy.write_array_header_1_0(member, header)
                for piece in array.pieces:
                    member.write(piece)


def _pieces(array: Array) -> Iterator[Array]:
    flat = np.asarray(array, order="C").reshape(-1).view(np.uint8)
    for first in range(0, len(flat), _CHUNK):
        yield flat[first : first + _CHUNK]


def read_arrays(
    file: BinaryIO, into: Mapping[str, Array] | None = None, growth: int = 1
) -> dict[str, Array]:
    """Return the arrays of an .npz file.

    Args:
        file: an open and seekable file.
        into: C-contiguous arrays to fill and return in place of new ones.
        growth: largest decompressed size in multiples of the file's size, plus
            1 MiB; 1 for files of `write_arrays`.
    Raises:
        Exception: any type, if the file is damaged; ValueError if its names,
            shapes or dtypes are not those of `into`, parts of which may be filled.
    """
    arrays = {} if into is None else dict(into)
    expected = None
    if into is not None:
        expected = {name: (a.dtype, a.shape) for name, a in into.items()}
    for each in read_piecemeal(file, expected, _CHUNK, growth):
        array = arrays[each.name] if expected else np.empty(each.shape, each.dtype)
        rest = array.reshape(-1, copy=False).view(np.uint8)
        for piece in each.pieces:
            rest[: len(piece)] = piece
            rest = rest[len(piece) :]
        if each.fortran_order:
            array = array.reshape(each.shape[::-1]).T
        arrays[each.name] = array
    return arrays


def read_piecemeal(
    file: BinaryIO,
    expected: Mapping[str, Kind] | None,
    nbytes: int,
    growth: int = 1,
) -> Iterator[Piecemeal]:
    """Yield the arrays of an .npz file in pieces of `nbytes` at most.

    `expected` has the dtype and shape of each array, in C order; None accepts any. See
    `read_arrays` for the other arguments, and for the errors raised during iteration.
    """
    found: set[str] = set()
    size = file.seek(0, 2)
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        limit = size if growth == 1 else growth * size + 2**20
        if sum(info.file_size for info in members) > limit:
            raise ValueError("its arrays are larger than the file")
        for info in members:
            name = info.filename.removesuffix(".npy")
            if name in found or (expected is not None and name not in expected):
                raise ValueError(f"the array {name!r} is not expected")
            # Other compression methods may expand without bound in one step.
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{name!r} is compressed in another way")
            found.add(name)
            with archive.open(info) as member:
                kind = None if expected is None else expected[name]
                header = _read_header(name, member, info.file_size, kind)
                dtype, shape, is_fortran = header
                pieces = _read_pieces(name, member, info.file_size, nbytes)
                yield Piecemeal(name, dtype, shape, pieces, is_fortran)
    if expected is not None and len(expected) != len(found):
        raise ValueError(f"the array {min(expected.keys() - found)!r} is missing")


def _read_header(
    name: str, member: IO[bytes], size: int, expected: Kind | None
) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
    """Return the dtype, shape and order of an array, checked against its size."""
    shape, is_fortran, dtype = _READ_HEADER[npy.read_magic(member)](member)
    if dtype.kind not in "biuf":
        raise ValueError(f"{name!r} is an array of {dtype}")
    if min(shape, default=0) < 0:
        raise ValueError(f"{name!r} has a negative shape")
    if math.prod(shape) * dtype.itemsize != size - member.tell():
        raise ValueError(f"the shape of {name!r} doesn't fit its size")
    if expected is not None:
        needed = np.dtype(expected[0]), tuple(expected[1])
        if needed != (dtype, shape) or is_fortran:
            found = f"{name!r} is {dtype} {shape}"
            raise ValueError(f"{found}, expected {needed[0]} {needed[1]}")
    return dtype, shape, is_fortran


def _read_pieces(
    name: str, member: IO[bytes], size: int, nbytes: int
) -> Iterator[Array]:
    """Yield the rest of an archive member in pieces of at most `nbytes`."""
    while member.tell() < size:
        piece = member.read(min(nbytes, size - member.tell()))
        if not piece:
            raise ValueError(f"{name!r} is truncated")
        yield np.frombuffer(piece, np.uint8)
