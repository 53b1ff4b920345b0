"""Checkpoints on disk: format, listing and loading.

A checkpoint `step-000000012345` contains `arrays.npz`, `facts.json` and
`manifest.json` with the size and SHA-256 of each. Its folder `replay`, if any, has a
separate manifest, so that one rename can remove it. The name ends in `~` while a
checkpoint of the same step replaces it, and remains so if that is interrupted.
"""

import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xagents_ray.core.errors import UserError
from xagents_ray.core.moments import from_json
from xagents_ray.core.parsing import parse_json
from xagents_ray.core.trajectory import Array
from xagents_ray.storage import migrations
from xagents_ray.storage.arrays import Piecemeal, read_arrays, read_piecemeal
from xagents_ray.storage.sealed import (
    MANIFEST,
    open_verified,
    read_manifest,
    reading_file,
)

ARRAYS, FACTS, REPLAY = "arrays.npz", "facts.json", "replay"
NAME = re.compile(r"step-([0-9]{12,})~?")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that is verified except for its replay."""

    path: Path  # its directory
    arrays: dict[str, Array]  # by name (`policy/dense-0/kernel`), all finite
    # Further state, as JSON: lists and string keys.
    facts: dict[str, Any]


def all_checkpoints(directory: Path) -> list[Path]:
    """Return the checkpoints in a directory, unverified, newest first."""
    try:
        found = [
            Path(directory, entry.name)
            for entry in os.scandir(directory)
            if NAME.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
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


def load_newest(directory: Path) -> tuple[Checkpoint, list[str]]:
    """Return the newest valid checkpoint, and a sentence for each one skipped.

    Raises:
        UserError: there is none, or a newer version of the package wrote one of them.
    """
    skipped: list[str] = []
    paths = all_checkpoints(directory)
    for path in paths:
        try:
            return _read(path), skipped
        except migrations.NewerFormatError as error:
            raise UserError(f"{error}.") from None
        except UserError as error:
            skipped.append(f"Skipped a damaged checkpoint: {error}")
    if paths:
        return load_checkpoint(paths[0]), []  # raises, and names its damage
    raise UserError(f"{directory.parent} has no checkpoint yet: start it again.")


def best_checkpoint(directory: Path, until: float = math.inf) -> Path | None:
    """Return the newest checkpoint, up to a step, that was the best when written."""
    found = (p for p in all_checkpoints(directory) if step_of(p) <= until)
    return next(filter(was_best, found), None)


def best_evaluation(path: Path) -> float | None:
    """Return the mean return of the evaluation that made a checkpoint the best."""
    with suppress(UserError):
        value = read_manifest(path).get("evaluation")
        return value if isinstance(value, float) else None
    return None


def load_checkpoint(path: Path, advice: str = "use") -> Checkpoint:
    """Return a checkpoint, verified except for its replay.

    Raises:
        UserError: a file is missing or damaged; the message offers the newest valid
            checkpoint after the advice, such as `use --resume`.
    """
    try:
        return _read(path)
    except migrations.NewerFormatError as error:
        raise UserError(f"{error}.") from None
    except UserError as error:
        other = newest_valid(path.parent)
        offer = (
            f"{advice} {other}, the newest valid one"
            if other
            else "no other checkpoint beside it is valid; start over or restore a copy"
        )
        raise UserError(f"{error}: {offer}.") from None


def evaluation_by(directory: Path, step: int) -> float | None:
    """Return the mean return of a run's best evaluation up to an env step.

    Later evaluations don't count, because the run may resume from that step.
    """
    path = best_checkpoint(directory, step)
    return None if path is None else best_evaluation(path)


def step_of(path: Path) -> int:
    """Return the env step of a checkpoint, from its name."""
    return int(path.name.removeprefix("step-").removesuffix("~"))


def was_best(path: Path) -> bool | None:
    """Return whether a checkpoint was the best when written; None if damaged."""
    with suppress(UserError):
        return read_manifest(path).get("is_best") is True
    return None


def replay_file(shard: int) -> str:
    """Return the name of a replay shard's file in a checkpoint."""
    return f"replay-{shard}.npz"


def replay_files(path: Path) -> list[Path]:
    """Return the files of a checkpoint's replay, for `read_replay`; [] without one.

    Raises:
        UserError: its manifest is damaged.
    """
    directory = path / REPLAY
    if not os.path.lexists(directory):
        return []
    return [directory / name for name in sorted(read_manifest(directory)["files"])]


def read_replay(
    file: Path, into: Mapping[str, Array] | None = None
) -> dict[str, Array]:
    """Return the arrays of one of `replay_files`, which is verified first.

    `into` has C-contiguous arrays to fill and return in place of new ones.

    Raises:
        UserError: the file is damaged, or its names, shapes or dtypes are not those
            of `into`.
    """
    with open_verified(file, read_manifest(file.parent)) as opened:
        return read_arrays(opened, into)


def read_replay_piecemeal(
    file: Path, expected: Mapping[str, tuple[str, tuple[int, ...]]], nbytes: int
) -> Iterator[Piecemeal]:
    """Yield the arrays of one file of a replay in pieces of `nbytes` at most.

    Raises:
        UserError: the file is damaged, which is checked first, or its names, shapes
            or dtypes are not those in `expected`.
    """
    with open_verified(file, read_manifest(file.parent)) as opened:
        yield from read_piecemeal(opened, expected, nbytes)


def _read(path: Path) -> Checkpoint:
    """Return a checkpoint; UserError without a period if it is damaged."""
    manifest = read_manifest(path)
    with reading_file(path / MANIFEST):
        if manifest["files"].keys() != {ARRAYS, FACTS}:
            raise ValueError("it names other files")
        if type(manifest["step"]) is not int or type(manifest["is_best"]) is not bool:
            raise ValueError("its step or is_best is damaged")
        if NAME.fullmatch(path.name) and manifest["step"] != step_of(path):
            raise ValueError("its step is not the directory's")
    with open_verified(path / ARRAYS, manifest) as opened:
        arrays = read_arrays(opened)
        check_arrays(arrays)
    with open_verified(path / FACTS, manifest) as opened:
        facts = decode_facts(opened.read())
    with reading_file(path):
        for migration in migrations.migrations_from(manifest["format"], path):
            arrays, facts = migration.checkpoint(arrays, facts)
        _check_statistics(arrays, facts)
    return Checkpoint(path, arrays, facts)


def _check_statistics(arrays: Mapping[str, Array], facts: Mapping[str, Any]) -> None:
    """Raise ValueError if new statistics can't be merged with those of the learner.

    Arrays of other shapes could make far larger ones.
    """
    found = from_json(facts.get("progress", {}).get("statistics", {}))
    for name, moments in found.items():
        end = f"/{name}/mean"
        shapes = {x.shape for key, x in arrays.items() if f"/{key}".endswith(end)}
        if shapes != {moments.mean.shape}:
            raise ValueError(f"its statistics {name!r:.80} don't fit its arrays")


def check_arrays(arrays: Mapping[str, Array]) -> None:
    """Raise ValueError when a float is NaN or infinite."""
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{name!r} holds a value that is not finite")


def decode_facts(data: bytes) -> dict[str, Any]:
    """Decode JSON in which floats may be infinite, but not NaN."""

    def constant(name: str) -> float:
        if name == "NaN":
            raise ValueError("it holds NaN")
        return float(name)

    facts = parse_json(data, parse_constant=constant)
    if not isinstance(facts, dict):
        raise ValueError("it holds no JSON object")
    return facts
