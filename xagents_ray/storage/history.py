"""The history of a run: one row per ended game, in parquet."""

import os
import re
import uuid
from array import array
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from xagents_ray.core.errors import UserError

FLUSH_SECONDS = 20.0
# A flush writes the whole file: a long history is written more rarely, so that
# it costs at most 1 % of the run.
_REST = 100
# pandas opens a file twice, for its metadata and for its rows. What was flushed
# before keeps its place in the new file as a row group of its own, so that whoever
# reads while the file is replaced gets the old rows. This many at most, for speed.
_GROUPS = 100

Rows: TypeAlias = npt.NDArray[np.void]


class Row(NamedTuple):
    """One ended game; the columns of the file.

    Attributes:
        mean_reward: mean return of the newest games.
        best_reward: largest mean reward of a full window so far; NaN before one.
        episode_reward: return of this game.
        step: env steps of all environments since the start.
        time: seconds since the start.
        evaluation_reward: mean return of a greedy evaluation; None without one.
    """

    mean_reward: float
    best_reward: float
    episode_reward: float
    step: int
    time: float
    evaluation_reward: float | None = None


COLUMNS = Row._fields
_REQUIRED = COLUMNS[:5]
_OPTIONAL = COLUMNS[5]
_DTYPE = np.dtype(
    [(name, "i8" if name == "step" else "f8") for name in COLUMNS] + [("part", "i4")]
)


class History:
    """A history that grows, kept at `path`.

    A new path becomes one parquet file, an existing one is continued. A directory
    of parquet files, as xagents wrote it, is continued with one part per flush.
    Columns that are not in `Row` are dropped when a file is written anew.

    Args:
        path: of the file or directory; missing parents are created.
    Raises:
        UserError: the path cannot be read, or is no history; it is left as it is.
    """

    def __init__(self, path: str | Path) -> None:
        # Whoever changes the working directory or keeps a link keeps the file.
        self.path = Path(os.path.realpath(path))
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._parts = _parts(self.path, path)
        except OSError as error:
            raise _unreadable(path, error.strerror or str(error)) from None
        self._rows = _read(self._parts)
        self._new = array("d")
        self._evaluation = np.nan
        self._unwritten: set[int] = set()
        self._groups: list[int] = []  # where each ends
        self._due = 0.0
        if self.path.is_dir():
            self._parts.append(self._new_part())
        elif not self._parts:
            self._parts = [self.path]
        _remove_leftovers(self.path)

    @property
    def rows(self) -> int:
        """How many games are in it."""
        return len(self._rows) + len(self._new) // len(COLUMNS)

    @property
    def last(self) -> Row | None:
        """The newest row by time; None without one."""
        if self._new:
            *rewards, step, time, evaluation = self._new[-len(COLUMNS) :]
        elif len(self._rows):
            *rewards, step, time, evaluation, _ = self._rows[-1].item()
        else:
            return None
        mean, best, reward = rewards
        evaluated = None if np.isnan(evaluation) else evaluation
        return Row(mean, best, reward, int(step), time, evaluated)

    def newest_rewards(self, count: int) -> list[float]:
        """Return episode_reward of the `count` newest rows at most, oldest first."""
        self._settle()
        first = max(0, self.rows - count)
        newest: list[float] = self._rows["episode_reward"][first:].tolist()
        return newest

    def best_mean(self, window: int) -> float | None:
        """Return the largest mean_reward of `window` games; None before there is one.

        Not the last best_reward: earlier versions counted means of fewer games.
        """
        self._settle()
        means = self._rows["mean_reward"][window - 1 :]
        means = means[~np.isnan(means)]
        return float(means.max()) if len(means) else None

    def add(
        self,
        step: int,
        time: float,
        episode_reward: float,
        mean_reward: float,
        best_reward: float | None,
    ) -> None:
        """Append an ended game.

        Args:
            step: env steps, those before a continued history's end included.
            time: seconds, likewise; not before the newest row's.
            episode_reward: return of the game.
            mean_reward: mean return of the newest games.
            best_reward: largest mean reward of a full window; None before one.
        """
        best = np.nan if best_reward is None else best_reward
        self._new.extend(
            (mean_reward, best, episode_reward, step, time, self._evaluation)
        )
        self._evaluation = np.nan

    def evaluated(self, reward: float) -> None:
        """Set evaluation_reward of the newest row, or of the first one to come."""
        if self._new:
            self._new[-1] = reward
        elif len(self._rows):
            self._rows[_OPTIONAL][-1] = reward
            self._unwritten.add(int(self._rows["part"][-1]))
        else:
            self._evaluation = reward

    def cut(self, step: int) -> None:
        """Drop the rows past a step; the next flush writes what is left.

        In a directory that flush rewrites each part that held such a row, one after
        the other, and removes those left empty. Killed in between, it leaves some
        of the rows, and the same cut finishes it.

        Args:
            step: env steps; rows of this very step are kept.
        """
        self._settle()
        past = self._rows["step"] > step
        self._unwritten.update(np.unique(self._rows["part"][past]).tolist())
        self._rows = self._rows[~past]
        self._groups = []

    def flush(self) -> None:
        """Write what is new, each file aside and renamed into place.

        Raises:
            OSError: it can't be written; a later flush writes it all.
        """
        self._settle()
        newest = len(self._parts) - 1
        for part in sorted(self._unwritten):
            rows, path = self._rows[self._rows["part"] == part], self._parts[part]
            if len(rows) or path == self.path:
                _write(rows, path, self._grouped(len(rows)))
            else:
                path.unlink(missing_ok=True)
            self._unwritten.discard(part)
            if part == newest and path != self.path:
                self._parts.append(self._new_part())

    def flush_if_due(self) -> None:
        """Flush at most every 20 s, and for at most 1 % of the time.

        Raises:
            OSError: as `flush`; the next attempt is 20 s away.
        """
        begun = monotonic()
        if begun < self._due or not (self._new or self._unwritten):
            return
        try:
            self.flush()
        finally:
            ended = monotonic()
            self._due = ended + max(FLUSH_SECONDS, _REST * (ended - begun))

    def _settle(self) -> None:
        """Move the new rows to the others."""
        if not self._new:
            return
        values = np.array(self._new).reshape(-1, len(COLUMNS))
        rows = np.empty(len(values), _DTYPE)
        for index, name in enumerate(COLUMNS):
            rows[name] = values[:, index]
        rows["part"] = newest = len(self._parts) - 1
        self._rows = np.concatenate([self._rows, rows])
        self._unwritten.add(newest)
        self._new = array("d")

    def _grouped(self, rows: int) -> list[int]:
        """Return where each row group of the file ends; a part is one group."""
        if self.path != self._parts[0]:
            return [rows]
        if len(self._groups) == _GROUPS:
            self._groups = []
        if not self._groups or self._groups[-1] < rows:
            self._groups.append(rows)
        return self._groups

    def _new_part(self) -> Path:
        # Readers of a directory take the columns of the first file: "000-" sorts
        # before the hexadecimal names of xagents, which know no evaluation.
        return self.path / f"000-{uuid.uuid4().hex}.parquet"


def read_history(path: str | Path) -> Rows:
    """Return the rows of a history, oldest first.

    Args:
        path: of the file or the directory.
    Returns:
        Structured [games] with the fields of `Row`: int64 step, else float64, where
        NaN is no value.
    Raises:
        UserError: there is none, or it cannot be read.
    """
    try:
        parts = _parts(Path(path), path)
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None
    if not parts:
        raise _unreadable(path, "nothing is there")
    return _read(parts)


def _parts(path: Path, name: str | Path) -> list[Path]:
    """Return the parquet files of a history: none, itself, or what is in it."""
    if path.is_file():
        return [path]
    if not path.exists():
        return []
    if not path.is_dir():
        raise _unreadable(name, "it is neither a file nor a directory")
    # Hidden ones are no part, as pandas has it.
    parts = sorted(p for p in path.iterdir() if p.name[0] not in "._")
    for part in parts:
        if part.suffix != ".parquet" or not part.is_file():
            raise _unreadable(name, f"it is a directory with {part.name} in it")
    return parts


def _read(parts: list[Path]) -> Rows:
    """Return the rows of all parts in order of time, numbered by part."""
    read = [np.empty(0, _DTYPE)]
    for number, path in enumerate(parts):
        read.append(_read_part(path))
        read[-1]["part"] = number
    rows = np.concatenate(read)
    return rows[np.lexsort((rows["step"], rows["time"]))]


def _read_part(path: Path) -> Rows:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        data = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None
    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        names = file.schema_arrow.names
        known = [name for name in COLUMNS if names.count(name) == 1]
        table = file.read(columns=known, use_threads=False)
    except Exception:  # damage makes pyarrow raise nearly anything
        raise _unreadable(path, "it is no parquet file, or damaged") from None
    if missing := [name for name in _REQUIRED if name not in known]:
        raise _unreadable(path, f"it lacks the column {missing[0]}")
    rows = np.empty(table.num_rows, _DTYPE)
    rows[_OPTIONAL] = np.nan
    for name in known:
        rows[name] = _values(table.column(name), name, path)
    return rows


def _values(column: Any, name: str, path: Path) -> npt.NDArray[Any]:
    """Return a pyarrow column as int64 or float64 [rows]; a missing reward is NaN."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_null)
    if not any(kind(column.type) for kind in kinds):
        raise _unreadable(path, f"its column {name} holds {column.type}, not numbers")
    why = f"its column {name} has values that are missing or out of range"
    try:
        column = column.cast(pa.int64() if name == "step" else pa.float64())
    except pa.ArrowException:
        raise _unreadable(path, why) from None
    # `to_numpy` would import pandas, which takes seconds; so would `pa.array` below.
    there = np.from_dlpack(column.drop_null().combine_chunks())
    whole = len(there) == len(column) and np.isfinite(there).all()
    if name in ("step", "time") and not whole:
        raise _unreadable(path, why)
    if len(there) == len(column):
        return there
    numbers = np.full(len(column), np.nan)
    filled = pc.indices_nonzero(column.is_valid().combine_chunks())
    numbers[np.from_dlpack(filled)] = there
    return numbers


def _write(rows: Rows, path: Path, ends: list[int]) -> None:
    """Write a part whole: aside, to the disk, renamed into place."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({name: _column(rows[name]) for name in COLUMNS})
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(aside, "wb") as file:
            with pq.ParquetWriter(
                file,
                table.schema,
                compression="zstd",
                use_dictionary=False,  # times and steps never repeat
                write_page_checksum=True,
            ) as writer:
                for begin, end in pairwise([0, *ends]):
                    writer.write_table(table.slice(begin, end - begin))
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def _column(values: npt.NDArray[Any]) -> Any:
    """Return a pyarrow column with null for NaN."""
    import pyarrow as pa

    there = np.packbits(~np.isnan(values), bitorder="little")
    buffers = [pa.py_buffer(there), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(
        pa.from_numpy_dtype(values.dtype), len(values), buffers
    )


def _remove_leftovers(path: Path) -> None:
    """Remove what killed runs wrote aside."""
    folder, name = path.parent, re.escape(path.name)
    if path.is_dir():
        folder, name = path, r".+\.parquet"
    with suppress(OSError):
        for file in folder.iterdir():
            if re.fullmatch(rf"\.{name}\.\d+\.tmp", file.name):
                file.unlink()


def _unreadable(path: str | Path, why: str) -> UserError:
    return UserError(
        f"{path} cannot be read as a history: {why}; name another one, or move it away."
    )
