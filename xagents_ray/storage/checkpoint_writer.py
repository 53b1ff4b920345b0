"""Writes checkpoints atomically, and removes old ones."""

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from errno import ENOSPC
from pathlib import Path
from typing import Any

from xagents_ray.core.files import sync_directory
from xagents_ray.core.trajectory import Array
from xagents_ray.storage.arrays import write_arrays
from xagents_ray.storage.checkpoints import (
    ARRAYS,
    FACTS,
    NAME,
    REPLAY,
    all_checkpoints,
    best_evaluation,
    check_arrays,
    decode_facts,
    step_of,
    was_best,
)
from xagents_ray.storage.sealed import seal_directory

_ASIDE = ".aside-"


class CheckpointWriter:
    """Writes a run's checkpoints; retains the newest ones and the best one.

    There is one writer per directory; it cleans up after a killed one. A checkpoint of
    the same step is replaced, and stays the best if it was. At most one checkpoint has
    the replay.

    The directory contains checkpoints only, and is created by the first write.

    Args:
        directory: directory of the checkpoints.
        keep: number of newest checkpoints to retain, 1 or more.
        start: step where the run resumes; 0 for a new run. The first write removes
            later checkpoints of earlier writers, which are damaged or obsolete.
    """

    def __init__(self, directory: Path, keep: int, start: int = 0) -> None:
        if keep < 1:
            raise ValueError(f"keep must be 1 or more, got {keep}.")
        self._directory = directory
        self._keep, self._start = keep, start
        self._own: set[int] = set()  # steps written here
        with suppress(OSError):  # `write` raises it again
            self._tidy()

    def write(
        self,
        step: int,
        arrays: Mapping[str, Array],
        facts: Mapping[str, Any],
        *,
        is_best: bool = False,
        evaluation: float | None = None,
        write_replay: Callable[[Path], None] | None = None,
        replay_nbytes: int = 0,
    ) -> Path:
        """Write a checkpoint and return its directory.

        Args:
            step: env step of the checkpoint, 0 or more.
            arrays: booleans, integers and finite floats, by name.
            facts: JSON with string keys; infinities are allowed, NaN is not.
            is_best: whether it is the best checkpoint so far.
            evaluation: mean return of the greedy evaluation that made it the best.
            write_replay: function that writes the replay's files into a folder.
            replay_nbytes: approximate size of these files, in bytes.
        Raises:
            OSError: writing fails (ENOSPC: no space); existing checkpoints stay.
            ValueError: a float is NaN or an array not finite; nothing is written.
        """
        text = json.dumps(facts).encode()
        decode_facts(text)
        check_arrays(arrays)
        self._directory.mkdir(parents=True, exist_ok=True)
        nbytes = sum(array.nbytes + 512 for array in arrays.values())
        nbytes += len(text) + replay_nbytes + (64 << 10)
        if nbytes > shutil.disk_usage(self._directory).free:
            raise OSError(ENOSPC, os.strerror(ENOSPC), str(self._directory))
        path, aside = self.path(step), self._aside()
        try:
            replaced = filter(self._belongs, (path, _replaced(path)))
            marks = _marks(replaced, step, is_best, evaluation)
            _fill(aside, arrays, text, marks, write_replay)
            self._put(aside, path)
        except BaseException:
            with suppress(OSError):
                self._tidy()
            raise
        self._rotate(path)
        return path

    def path(self, step: int) -> Path:
        """Return the directory of the checkpoint of a step."""
        return self._directory / f"step-{step:012d}"

    def _put(self, aside: Path, path: Path) -> None:
        """Rename a new checkpoint into place; at any time, an old or new one exists."""
        kept, is_own = path / REPLAY, step_of(path) in self._own
        if is_own and kept.is_dir() and not (aside / REPLAY).exists():
            os.rename(kept, aside / REPLAY)
        old = _replaced(path)
        if os.path.lexists(path):
            self._remove(old)
            os.rename(path, old)
        os.rename(aside, path)
        self._own.add(step_of(path))
        sync_directory(self._directory)
        self._remove(old)

    def _belongs(self, path: Path) -> bool:
        """Return whether a checkpoint is from before the start or by this writer."""
        return step_of(path) <= self._start or step_of(path) in self._own

    def _rotate(self, path: Path) -> None:
        """Remove checkpoints that are not retained, now that `path` is in place."""
        found = all_checkpoints(self._directory)
        marks = {p: was_best(p) for p in found if self._belongs(p)}
        usable = [p for p, mark in marks.items() if mark is not None]
        stay = {*usable[: self._keep], *[p for p in usable if marks[p]][:1]}
        for other in found:
            if other not in stay:
                self._remove(other)
            elif other != path and (path / REPLAY).exists():
                self._remove(other / REPLAY)

    def _remove(self, path: Path) -> None:
        """Remove a path if it exists; a kill leaves it intact, or set aside."""
        if os.path.lexists(path):
            aside = self._aside()
            os.rename(path, aside)
            _discard(aside)

    def _aside(self) -> Path:
        return self._directory / f"{_ASIDE}{secrets.token_hex(4)}"

    def _tidy(self) -> None:
        """Clean up after a killed or failed writer."""
        if not self._directory.is_dir():
            return
        for entry in list(self._directory.iterdir()):
            if entry.name.startswith(_ASIDE):
                _discard(entry)
            elif NAME.fullmatch(entry.name) and _replaced(entry).exists():
                self._remove(_replaced(entry))


def _fill(
    directory: Path,
    arrays: Mapping[str, Array],
    facts: bytes,
    marks: Mapping[str, Any],
    write_replay: Callable[[Path], None] | None,
) -> None:
    """Write and seal the files of a checkpoint in a new directory."""
    directory.mkdir()
    if write_replay is not None:
        replay = directory / REPLAY
        replay.mkdir()
        write_replay(replay)
        seal_directory(replay, os.listdir(replay), marks)
    write_arrays(directory / ARRAYS, arrays)
    (directory / FACTS).write_bytes(facts)
    seal_directory(directory, [ARRAYS, FACTS], marks)


def _marks(
    replaced: Iterable[Path], step: int, is_best: bool, evaluation: float | None
) -> dict[str, Any]:
    """Return manifest entries of a checkpoint that replaces one of these."""
    old = next(filter(was_best, replaced), None)
    if evaluation is None and old is not None:
        evaluation = best_evaluation(old)
    return {
        "step": step,
        "is_best": is_best or old is not None,
        "evaluation": evaluation,
        "written": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def _replaced(path: Path) -> Path:
    return path.with_name(f"{path.name}~")


def _discard(path: Path) -> None:
    """Delete a file, link or tree; the next writer retries what fails."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
