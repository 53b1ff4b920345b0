"""The parquet files of a history: one, or a directory of them."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from xagents_ray.core.errors import UserError
from xagents_ray.core.files import replacing_file

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
        data = path.read_bytes()
    except OSError as error:
        raise unreadable_history(path, error.strerror or str(error)) from None
    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        names = file.schema_arrow.names
        known = [name for name in COLUMNS if names.count(name) == 1]
        own = [
            field.name
            for field in file.schema_arrow
            if pa.types.is_floating(field.type) and field.name not in NAMES
        ]
        known += [name for name in own if names.count(name) == 1]
        table = file.read(columns=known, use_threads=False)
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


def _values(column: Any, name: str, path: Path) -> npt.NDArray[Any]:
    """Return a pyarrow column as int64 or float64 [rows]; a missing reward is NaN."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_null)
    if not any(kind(column.type) for kind in kinds):
        raise unreadable_history(
            path, f"its column {name} holds {column.type}, not numbers"
        )
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
