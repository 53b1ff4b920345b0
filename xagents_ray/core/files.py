"""Files that appear whole or not at all."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


def sync_directory(path: Path) -> None:
    """Sync the entries of a directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_new(path: Path, data: bytes) -> None:
    """Write and sync a file that must not exist, not even as a link."""
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def replacing_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a new file that replaces the one at `path` once the block has ended.

    A process killed at any moment leaves the old file or the new one; the next call
    removes what it wrote next to them.

    Raises:
        OSError: it can't be written; the old file is untouched.
    """
    remove_leftovers(path.parent, re.escape(path.name))
    aside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with open(aside, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def replace_bytes(path: Path, data: bytes) -> None:
    """Replace the contents of a file in one step; OSError as `replacing_file`."""
    with replacing_file(path) as file:
        file.write(data)


def remove_leftovers(folder: Path, name: str) -> None:
    """Remove what killed processes left next to files that `replacing_file` replaces.

    The name is a regular expression for those of the files.
    """
    with suppress(OSError):
        for entry in list(folder.iterdir()):
            if re.fullmatch(rf"\.{name}(\.\d+)?\.new", entry.name):
                entry.unlink()
