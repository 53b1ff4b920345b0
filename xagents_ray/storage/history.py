"""The history of a run: one row per episode that ended, in parquet."""

import os
import re
import uuid
from pathlib import Path
from time import monotonic

import numpy as np

from xagents_ray.core.errors import UserError
from xagents_ray.core.files import remove_leftovers
from xagents_ray.storage.history_parts import (
    COLUMNS,
    DTYPE,
    NAMES,
    OPTIONAL,
    EpisodeRow,
    Rows,
    find_parts,
    join_parts,
    read_parts,
    unreadable_history,
    write_part,
)

FLUSH_SECONDS = 20.0
# A flush writes the whole file: a long history is written less often, so that it
# costs at most 1 % of the run.
_REST = 100
# pandas opens a file twice, for its metadata and for its rows. Each flush adds a row
# group and leaves the earlier ones at the same offsets, so that a read during the
# replacement returns the old rows. Maximum number of row groups, for speed.
_GROUPS = 100


class History:
    """A history of episodes at `path`, to which rows are appended.

    A new path becomes one parquet file, an existing one is continued. A directory
    of parquet files, as written by xagents, is continued with one file per flush.
    Columns that are not in `EpisodeRow` are user-defined; a file that is rewritten
    retains those of floats.

    Args:
        path: path of the file or directory; missing parents are created.
    Raises:
        UserError: the path cannot be read, or is not a history; it is unchanged.
    """

    def __init__(self, path: str | Path) -> None:
        # Resolved, in case the working directory or a link changes.
        self.path = Path(os.path.realpath(path))
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._parts = find_parts(self.path, path)
        except OSError as error:
            raise unreadable_history(path, error.strerror or str(error)) from None
        self._rows = read_parts(self._parts)
        self._new: list[tuple[float, ...]] = []  # as in DTYPE
        # Values of optional columns not yet in the rows, by row and column.
        self._logged: dict[tuple[int, str], float] = {}
        self._unwritten: set[int] = set()
        self._groups: list[int] = []  # end of each row group
        self._due, self.is_held = 0.0, False
        if self.path.is_dir():
            self._parts.append(self._new_part())
            remove_leftovers(self.path, r".+\.parquet")
        else:
            self._parts = [self.path]
            remove_leftovers(self.path.parent, re.escape(self.path.name))

    @property
    def rows(self) -> int:
        """Number of episodes."""
        return len(self._rows) + len(self._new)

    @property
    def last(self) -> EpisodeRow | None:
        """The newest row by time; None if there is none."""
        self._settle()
        if not len(self._rows):
            return None
        mean, best, reward, step, time, evaluation = self._rows[[*COLUMNS]][-1].item()
        evaluated = None if np.isnan(evaluation) else evaluation
        return EpisodeRow(mean, best, reward, step, time, evaluated)

    def newest_rewards(self, count: int) -> list[float]:
        """Return episode_reward of at most `count` newest rows, oldest first."""
        self._settle()
        first = max(0, self.rows - count)
        newest: list[float] = self._rows["episode_reward"][first:].tolist()
        return newest

    def best_mean(self, window: int) -> float | None:
        """Return the largest mean_reward of full windows; None without one.

        This is not the last best_reward: earlier versions used fewer episodes.
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
        """Append an ended episode; `EpisodeRow` describes the values.

        Env steps and seconds include those of a continued history; the time must not
        decrease. The best reward is None before a full window.
        """
        best = np.nan if best_reward is None else best_reward
        values = mean_reward, best, episode_reward, step, time, np.nan
        self._new.append((*values, len(self._parts) - 1))

    def evaluated(self, reward: float) -> None:
        """Set evaluation_reward of the newest row, or of the first one to be added."""
        self._logged[max(self.rows - 1, 0), OPTIONAL] = reward

    def log(self, name: str, value: float) -> None:
        """Set a user-defined column in the same row; it is NaN in other rows.

        Raises:
            UserError: a column has that name already.
        """
        if name in NAMES or not name:
            raise UserError(
                f"{name!r} is a built-in column of the history and can't name a metric "
                "of your own: choose another name."
            )
        self._logged[max(self.rows - 1, 0), name] = value

    def cut(self, step: int, is_held: bool = False) -> None:
        """Drop the rows with a larger step; the next flush writes the result.

        With `is_held`, files stay unchanged until `flush`: `flush_if_due` does nothing.

        In a directory, the flush rewrites the affected files one by one, and removes
        empty ones. If it is killed in between, some of the rows remain, and the same
        cut completes the work.
        """
        self._settle()
        past, self.is_held = self._rows["step"] > step, is_held
        self._unwritten.update(np.unique(self._rows["part"][past]).tolist())
        self._rows = self._rows[~past]
        self._groups = []

    def flush(self) -> None:
        """Write new rows and values, replacing each file atomically.

        Raises:
            OSError: a file can't be written; a later flush retries.
        """
        self.is_held = False
        self._settle()
        newest = len(self._parts) - 1
        for part in sorted(self._unwritten):
            rows, path = self._rows[self._rows["part"] == part], self._parts[part]
            if len(rows) or path == self.path:
                write_part(rows, path, self._grouped(len(rows)))
            else:
                path.unlink(missing_ok=True)
            self._unwritten.discard(part)
            if part == newest and path != self.path:
                self._parts.append(self._new_part())

    def flush_if_due(self) -> None:
        """Flush at most every 20 s, taking at most 1 % of the time.

        Raises:
            OSError: as in `flush`; the next attempt is 20 s later or more.
        """
        begun, is_new = monotonic(), self._new or self._unwritten or self._logged
        if self.is_held or begun < self._due or not is_new:
            return
        try:
            self.flush()
        finally:
            ended = monotonic()
            self._due = ended + max(FLUSH_SECONDS, _REST * (ended - begun))

    def _settle(self) -> None:
        """Add the new rows to the others, and set values of optional columns."""
        if self._new:
            self._rows = join_parts([self._rows, np.array(self._new, DTYPE)])
            self._unwritten.add(len(self._parts) - 1)
            self._new = []
        if not self._logged or not len(self._rows):
            return
        self._rows = join_parts([self._rows], [name for _, name in self._logged])
        for (row, name), value in self._logged.items():
            self._rows[name][row] = value
            self._unwritten.add(int(self._rows["part"][row]))
        self._logged = {}

    def _grouped(self, rows: int) -> list[int]:
        """Return the end of each row group; a file of a directory has one group."""
        if self.path != self._parts[0]:
            return [rows]
        if len(self._groups) == _GROUPS:
            self._groups = []
        if not self._groups or self._groups[-1] < rows:
            self._groups.append(rows)
        return self._groups

    def _new_part(self) -> Path:
        # Readers of a directory take the columns of the first file: "000-" sorts
        # before the hexadecimal names of xagents, whose files lack evaluations.
        return self.path / f"000-{uuid.uuid4().hex}.parquet"


def read_history(path: str | Path) -> Rows:
    """Return the rows of a history, a file or a directory, oldest first.

    Returns:
        Structured array [episodes] with the fields of `EpisodeRow` and user-defined
        ones: int64 step, otherwise float64, where NaN means no value.
    Raises:
        UserError: the history doesn't exist or can't be read.
    """
    try:
        parts = find_parts(Path(path), path)
    except OSError as error:
        raise unreadable_history(path, error.strerror or str(error)) from None
    if not parts:
        raise UserError(
            f"{path} doesn't exist; name a history, a run's directory, or last."
        )
    return read_parts(parts)
