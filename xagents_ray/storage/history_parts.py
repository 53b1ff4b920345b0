"""The parquet files of a history: one, or a directory of them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from xagents_ray.core.errors import UserError
from xagents_ray.core.files import read_regular, replacing_file
from xagents_ray.storage.parquet_pages import unpacked_size

Rows: TypeAlias = npt.NDArray[np.void]


class EpisodeRow(NamedTuple):
    """One ended episode; the fields are the columns of the file."""

    mean_reward: float  # mean return of the newest episodes
    best_reward: float  # largest mean reward of a full window so far; NaN before one
    episode_reward: float  # return of this episode
    step: int  # env steps of all environments since the start
    time: float  # seconds since the start
    # Mean return of a greedy evaluation; None without one.
    evaluation_reward: float | None = None


# A part of few bytes may have many rows of the same values. Largest size in memory, in
# multiples of the file's size, and what every part may have in addition, in bytes.
_GROWTH, _ALLOWED = 64, 2**25
_MOST_COLUMNS = 10_000
COLUMNS = EpisodeRow._fields
_REQUIRED = COLUMNS[:5]
OPTIONAL = COLUMNS[5]
DTYPE = np.dtype(
    [(name, "i8" if name == "step" else "f8") for name in COLUMNS] + [("part", "i4")]
)
NAMES = *COLUMNS, "part"


def find_parts(path: Path, name: str | Path) -> list[Path]:
    """Return the parquet files of a history: none, the path, or those inside it."""
    if path.is_file():
        return [path]
    if not path.exists():
        return []
    if not path.is_dir():
        raise unreadable_history(name, "it is neither a file nor a directory")
    # Hidden files are ignored, as in pandas.
    parts = sorted(p for p in path.iterdir() if p.name[0] not in "._")
    for part in parts:
        if part.suffix != ".parquet" or not part.is_file():
            raise unreadable_history(name, f"it is a directory with {part.name} in it")
    return parts


def read_parts(parts: list[Path]) -> Rows:
    """Return the rows of all parts, sorted by time, with each row's part number."""
    read = [np.empty(0, DTYPE)]
    for number, path in enumerate(parts):
        read.append(_read_part(path))
        read[-1]["part"] = number
    rows = join_parts(read)
    return rows[np.lexsort((rows["step"], rows["time"]))]


def join_parts(parts: Sequence[Rows], own: Iterable[str] = ()) -> Rows:
    """Return the rows of all parts, with the union of their columns and `own`."""
    others = (name for part in parts for name in part.dtype.names or ())
    names = dict.fromkeys([*NAMES, *others, *own])
    added = [name for name in names if name not in NAMES]
    kinds = [*((name, DTYPE[name]) for name in NAMES), *((n, "f8") for n in added)]
    rows = np.zeros(sum(map(len, parts)), np.dtype(kinds))
    for name in added:
        rows[name] = np.nan
    begin = 0
    for part in parts:
        for name in part.dtype.names or ():
            rows[name][begin : begin + len(part)] = part[name]
        begin += len(part)
    return rows


def _read_part(path: Path) -> Rows:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        data = read_regular(path)
    except OSError as error:
        raise unreadable_history(path, error.strerror or str(error)) from None
    try:
        file = pq.ParquetFile(
            pa.BufferReader(data),
            page_checksum_verification=True,
            thrift_container_size_limit=_MOST_COLUMNS,
        )
        counts = Counter(file.schema_arrow.names)
        known = [name for name in COLUMNS if counts[name] == 1]
        known += [
            field.name
            for field in file.schema_arrow
            if pa.types.is_floating(field.type)
            and field.name not in NAMES
            and counts[field.name] == 1
        ]
        for name in known:
            _check_type(path, file.schema_arrow.field(name))
        _check_size(path, data, file.metadata, {*known})
        table = file.read(columns=known, use_threads=False)
    except UserError:
        raise
    except Exception:  # pyarrow may raise anything for damaged files
        raise unreadable_history(
            path, "it is not a parquet file, or a damaged one"
        ) from None
    if missing := [name for name in _REQUIRED if name not in known]:
        raise unreadable_history(path, f"it lacks the column {missing[0]}")
    rows = join_parts([np.zeros(table.num_rows, DTYPE)], known)
    rows[OPTIONAL] = np.nan
    for name in known:
        rows[name] = _values(table.column(name), name, path)
    return rows


def _check_type(path: Path, field: Any) -> None:
    """Raise UserError unless a column, a `pyarrow.Field`, has numbers."""
    import pyarrow as pa

    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_null)
    if not any(kind(field.type) for kind in kinds):
        raise unreadable_history(
            path, f"its column {field.name} holds {field.type!s:.80}, not numbers"
        )


def _check_size(path: Path, data: bytes, metadata: Any, columns: set[str]) -> None:
    """Raise UserError if the rows of a part need much more memory than its size.

    Args:
        path: path of the part.
        data: contents of the file.
        metadata: the part's `pyarrow.parquet.FileMetaData`.
        columns: names of the columns that are read.
    Raises:
        Exception: any type, if it is damaged.
    """
    rows = packed = unpacked = 0
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        chunks = [group.column(j) for j in range(group.num_columns)]
        rows += max([group.num_rows, *(chunk.num_values for chunk in chunks)])
        for chunk in (x for x in chunks if x.path_in_schema in columns):
            start = chunk.data_page_offset
            if chunk.has_dictionary_page:
                start = min(start, chunk.dictionary_page_offset)
            packed += chunk.total_compressed_size
            if packed > len(data):
                raise ValueError("columns that share bytes")
            end = start + chunk.total_compressed_size
            unpacked += unpacked_size(data, start, end)
    nbytes = max(rows * (DTYPE.itemsize + 8 * len(columns)), unpacked)
    if nbytes > _GROWTH * len(data) + _ALLOWED:
        why = f"it has {len(data):,} bytes and needs {nbytes >> 20:,} MiB of memory"
        raise unreadable_history(path, why)


def _values(column: Any, name: str, path: Path) -> npt.NDArray[Any]:
    """Return a pyarrow column as int64 or float64 [rows]; a missing reward is NaN."""
    import pyarrow as pa
    import pyarrow.compute as pc

    why = f"its column {name} has values that are missing or out of range"
    try:
        column = column.cast(pa.int64() if name == "step" else pa.float64())
    except pa.ArrowException:
        raise unreadable_history(path, why) from None
    # `to_numpy` would import pandas, which takes seconds; so would `pa.array` below.
    there = np.from_dlpack(column.drop_null().combine_chunks())
    whole = len(there) == len(column) and np.isfinite(there).all()
    if name in ("step", "time") and not whole:
        raise unreadable_history(path, why)
    if len(there) == len(column):
        return there
    numbers = np.full(len(column), np.nan)
    filled = pc.indices_nonzero(column.is_valid().combine_chunks())
    numbers[np.from_dlpack(filled)] = there
    return numbers


def write_part(rows: Rows, path: Path, ends: list[int]) -> None:
    """Write the rows of a part, with row groups that end at `ends`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    own = (name for name in rows.dtype.names or () if name not in NAMES)
    table = pa.table({name: _column(rows[name]) for name in (*COLUMNS, *own)})
    with (
        replacing_file(path) as file,
        pq.ParquetWriter(
            file,
            table.schema,
            compression="zstd",
            use_dictionary=False,  # times and steps never repeat
            write_page_checksum=True,
        ) as writer,
    ):
        for begin, end in pairwise([0, *ends]):
            writer.write_table(table.slice(begin, end - begin))


def _column(values: npt.NDArray[Any]) -> Any:
    """Return a pyarrow column with null for NaN."""
    import pyarrow as pa

    there = np.packbits(~np.isnan(values), bitorder="little")
    buffers = [pa.py_buffer(there), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(
        pa.from_numpy_dtype(values.dtype), len(values), buffers
    )


def unreadable_history(path: str | Path, why: str) -> UserError:
    """Return the error for a path that holds no history."""
    return UserError(
        f"{path} cannot be read as a history: {why}; name another one, or move it away."
    )
