"""Checkpoints: directories written aside and renamed into place, never changed.

A checkpoint `step-000000012345` holds `arrays.npz`, `facts.json` and
`manifest.json` with the size and SHA-256 of each. Its folder `replay`, where there
is one, is sealed by a manifest of its own, so that it can go in one rename. The name
ends in `~` while a checkpoint of the same step takes its place, and goes on to where
that was cut short.
"""

import errno
import json
import math
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from xagents_ray.core.errors import UserError
from xagents_ray.core.trajectory import Array
from xagents_ray.storage.files import (
    MANIFEST,
    Piecemeal,
    read_arrays,
    read_manifest,
    read_piecemeal,
    reading,
    seal,
    sync_directory,
    verified,
    write_arrays,
)

_ARRAYS, _FACTS, _REPLAY = "arrays.npz", "facts.json", "replay"
_CHECKPOINT = re.compile(r"step-([0-9]{12,})~?")
_ASIDE = ".aside-"


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint, but for its replay.

    Attributes:
        path: its directory.
        arrays: by name (`policy/dense-0/kernel`), all finite.
        facts: what else was written, as JSON has it: lists and string keys.
    """

    path: Path
    arrays: dict[str, Array]
    facts: dict[str, Any]


class Checkpoints:
    """Writes a run's checkpoints and keeps the last ones and the best one.

    There is one writer per directory; what a killed one left is removed here.

    Args:
        directory: of checkpoints only; made when the first one is written.
        keep: how many of the last ones stay, 1 or more.
    """

    def __init__(self, directory: Path, keep: int) -> None:
        if keep < 1:
            raise ValueError(f"keep must be 1 or more, got {keep}.")
        self._directory = directory
        self._keep = keep
        self._own: set[Path] = set()
        with suppress(OSError):  # `write` will tell
            self._tidy()

    def write(
        self,
        step: int,
        arrays: Mapping[str, Array],
        facts: Mapping[str, Any],
        *,
        is_best: bool = False,
        evaluation: float | None = None,
        replay: Mapping[str, Array] | None = None,
        write_replay: Callable[[Path], None] | None = None,
        replay_nbytes: int = 0,
    ) -> Path:
        """Write a checkpoint and return its directory.

        One of the same step is replaced, and stays the best if it was. Later ones of
        earlier writers are removed: they are damaged, or the run went back to before
        them. When this one holds the replay, no other does.

        Args:
            step: 0 or more.
            arrays: booleans, integers and finite floats, by name.
            facts: JSON with string keys; infinities are allowed, NaN is not.
            is_best: is the best so far.
            evaluation: mean return of the greedy evaluation that made it the best.
            replay: arrays of the replay, written as one file; or
            write_replay: writes the replay's files into the folder that it is given,
                each with `xagents_ray.storage.files.write_arrays`; and
            replay_nbytes: about how much it will write.
        Raises:
            OSError: it can't be written (ENOSPC when the disk has not the room); those
                that are there stay.
            ValueError: a float is NaN or an array not finite; nothing is written.
        """
        text = _encode(facts)
        _check_finite(arrays)
        nbytes = _nbytes(arrays) + len(text) + _nbytes(replay or {}) + replay_nbytes
        self._directory.mkdir(parents=True, exist_ok=True)
        self._check_room(nbytes)
        path = self._directory / f"step-{step:012d}"
        old = next(filter(_is_best, (path, _replaced(path))), None)
        if evaluation is None and old is not None:
            evaluation = best_evaluation(old)
        marks = {
            "step": step,
            "is_best": is_best or old is not None,
            "evaluation": evaluation,
            "written": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        }
        aside = self._aside()
        try:
            aside.mkdir()
            if replay is not None or write_replay is not None:
                _write_replay(aside / _REPLAY, replay, write_replay, marks)
            write_arrays(aside / _ARRAYS, arrays)
            (aside / _FACTS).write_bytes(text)
            seal(aside, [_ARRAYS, _FACTS], marks)
            kept = path / _REPLAY
            if path in self._own and kept.is_dir() and not (aside / _REPLAY).exists():
                os.rename(kept, aside / _REPLAY)
            self._put(aside, path)
        except BaseException:
            with suppress(OSError):
                self._tidy()
            raise
        self._own.add(path)
        self._rotate(path, step)
        return path

    def _check_room(self, nbytes: int) -> None:
        if nbytes + (64 << 10) > shutil.disk_usage(self._directory).free:
            code = errno.ENOSPC
            raise OSError(code, os.strerror(code), str(self._directory))

    def _put(self, aside: Path, path: Path) -> None:
        """Rename a new checkpoint into place; at no moment is there none."""
        old = _replaced(path)
        if os.path.lexists(path):
            self._remove(old)
            os.rename(path, old)
        os.rename(aside, path)
        sync_directory(self._directory)
        self._remove(old)

    def _rotate(self, path: Path, step: int) -> None:
        """Remove what need not stay, now that `path` is in place."""
        found = all_checkpoints(self._directory)
        marks = {p: _is_best(p) for p in found if step_of(p) <= step or p in self._own}
        usable = [p for p, mark in marks.items() if mark is not None]
        stay = {*usable[: self._keep], *[p for p in usable if marks[p]][:1]}
        for other in found:
            if other not in stay:
                self._remove(other)
            elif other != path and (path / _REPLAY).exists():
                self._remove(other / _REPLAY)

    def _remove(self, path: Path) -> None:
        """Remove what may be there; a kill leaves it whole or out of the way."""
        if os.path.lexists(path):
            aside = self._aside()
            os.rename(path, aside)
            _discard(aside)

    def _aside(self) -> Path:
        return self._directory / f"{_ASIDE}{secrets.token_hex(4)}"

    def _tidy(self) -> None:
        """Finish what a killed or failed writer began."""
        if not self._directory.is_dir():
            return
        for entry in list(self._directory.iterdir()):
            if entry.name.startswith(_ASIDE):
                _discard(entry)
            elif _CHECKPOINT.fullmatch(entry.name) and _replaced(entry).exists():
                self._remove(_replaced(entry))


def all_checkpoints(directory: Path) -> list[Path]:
    """Return the checkpoints in a directory, the newest first, none verified."""
    try:
        found = [
            Path(directory, entry.name)
            for entry in os.scandir(directory)
            if _CHECKPOINT.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
        ]
    except OSError:
        return []
    return sorted(found, key=lambda p: (step_of(p), p.name[-1] != "~"), reverse=True)


def newest_valid(directory: Path) -> Path | None:
    """Return the newest checkpoint that loads, or None."""
    for path in all_checkpoints(directory):
        with suppress(UserError):
            return _read(path).path
    return None


def best(directory: Path, until: float = math.inf) -> Path | None:
    """Return the newest checkpoint, up to a step, that was the best when written."""
    found = (p for p in all_checkpoints(directory) if step_of(p) <= until)
    return next(filter(_is_best, found), None)


def best_evaluation(path: Path) -> float | None:
    """Return the greedy evaluation that made a checkpoint the best; None without."""
    with suppress(UserError):
        value = read_manifest(path).get("evaluation")
        return value if isinstance(value, float) else None
    return None


def load(path: Path, advice: str = "use") -> Checkpoint:
    """Return a checkpoint, verified but for its replay.

    Args:
        path: its directory.
        advice: what to do with another checkpoint, whose path will follow:
            `resume with --resume`.
    Raises:
        UserError: a file of it is missing or damaged; offers the newest valid one.
    """
    try:
        return _read(path)
    except UserError as error:
        other = newest_valid(path.parent)
        offer = (
            f"{advice} {other}, the newest valid one"
            if other
            else "no other checkpoint beside it is valid; start anew or restore a copy"
        )
        raise UserError(f"{error}: {offer}.") from None


def replay_files(path: Path) -> list[Path]:
    """Return the files of a checkpoint's replay, for `read_replay`; [] without one.

    Raises:
        UserError: its manifest is damaged.
    """
    directory = path / _REPLAY
    if not os.path.lexists(directory):
        return []
    return [directory / name for name in sorted(read_manifest(directory)["files"])]


def read_replay(
    file: Path, into: Mapping[str, Array] | None = None
) -> dict[str, Array]:
    """Return the arrays of one file of a replay, verified before one is read.

    Args:
        file: one of `replay_files`.
        into: C-contiguous arrays to fill and return in place of new ones.
    Raises:
        UserError: it is damaged, or its names, shapes or dtypes are not those of
            `into`.
    """
    entry = read_manifest(file.parent)["files"].get(file.name)
    with reading(file):
        if entry is None:
            raise ValueError("the manifest doesn't name it")
        with verified(file, entry) as opened:
            return read_arrays(opened, into)


def read_replay_piecemeal(
    file: Path, expected: Mapping[str, tuple[str, tuple[int, ...]]], nbytes: int
) -> Iterator[Piecemeal]:
    """Yield the arrays of one file of a replay, verified before one is read.

    Args:
        file: one of `replay_files`.
        expected: dtype and shape of each array.
        nbytes: of a piece, at most.
    Raises:
        UserError: as `read_replay` does.
    """
    entry = read_manifest(file.parent)["files"].get(file.name)
    with reading(file):
        if entry is None:
            raise ValueError("the manifest doesn't name it")
        with verified(file, entry) as opened:
            yield from read_piecemeal(opened, expected, nbytes)


def _read(path: Path) -> Checkpoint:
    """Return a checkpoint; UserError without a full stop where it is damaged."""
    manifest = read_manifest(path)
    with reading(path / MANIFEST):
        if manifest["files"].keys() != {_ARRAYS, _FACTS}:
            raise ValueError("it names other files")
        if type(manifest["step"]) is not int or type(manifest["is_best"]) is not bool:
            raise ValueError("its step or is_best is damaged")
        if _CHECKPOINT.fullmatch(path.name) and manifest["step"] != step_of(path):
            raise ValueError("its step is not the directory's")
    file = path / _ARRAYS
    with reading(file), verified(file, manifest["files"][_ARRAYS]) as opened:
        arrays = read_arrays(opened)
        _check_finite(arrays)
    file = path / _FACTS
    with reading(file), verified(file, manifest["files"][_FACTS]) as opened:
        facts = _decode(opened.read())
    return Checkpoint(path, arrays, facts)


def _write_replay(
    folder: Path,
    arrays: Mapping[str, Array] | None,
    write: Callable[[Path], None] | None,
    marks: Mapping[str, Any],
) -> None:
    folder.mkdir()
    if arrays is not None:
        write_arrays(folder / "replay.npz", arrays)
    if write is not None:
        write(folder)
    seal(folder, os.listdir(folder), marks)


def _replaced(path: Path) -> Path:
    return path.with_name(f"{path.name}~")


def step_of(path: Path) -> int:
    """Return the env step of a checkpoint, from its name."""
    return int(path.name.removeprefix("step-").removesuffix("~"))


def _is_best(path: Path) -> bool | None:
    """Return a checkpoint's mark, or None when its manifest can't be read."""
    with suppress(UserError):
        return read_manifest(path).get("is_best") is True
    return None


def _discard(path: Path) -> None:
    """Delete a file, link or tree; what can't be deleted waits for the next time."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _nbytes(arrays: Mapping[str, Array]) -> int:
    """Return about what a file of the arrays takes."""
    return sum(array.nbytes + 512 for array in arrays.values())


def _check_finite(arrays: Mapping[str, Array]) -> None:
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{name!r} holds a value that is not finite")


def _encode(facts: Mapping[str, Any]) -> bytes:
    text = json.dumps(facts)
    _decode(text.encode())
    return text.encode()


def _decode(data: bytes) -> dict[str, Any]:
    """Return facts; infinities, which JSON has not, are Python's `-Infinity`."""

    def constant(name: str) -> float:
        if name == "NaN":
            raise ValueError("it holds NaN")
        return float(name)

    facts = json.loads(data, parse_constant=constant)
    if not isinstance(facts, dict):
        raise ValueError("it holds no JSON object")
    return facts
