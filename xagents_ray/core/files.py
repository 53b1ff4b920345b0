"""Reads of whole files, and atomic writes."""

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from xagents_ray.core.errors import UserError


def open_regular(path: str | Path) -> BinaryIO:
    """Open a file for reading.

    Raises:
        OSError: it can't be read, or is a device or a pipe, which may have no end.
    """

    def at_once(name: str, flags: int) -> int:  # a pipe would wait for its writer
        return os.open(name, flags | os.O_NONBLOCK)

    file = open(path, "rb", opener=at_once)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is a device or a pipe", str(path))
    return file


def read_regular(path: str | Path) -> bytes:
    """Return the contents of a file; see `open_regular`."""
    with open_regular(path) as file:
        return file.read()


def sync_directory(path: Path) -> None:
    """Sync the entries of a directory to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_new(path: Path, data: bytes) -> None:
    """Write and sync a new file; FileExistsError if the path exists, even as a link."""
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def replacing_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a temporary file that atomically replaces `path` after the block.

    If the process is killed, `path` is the old or the new file, and the next call
    removes the temporary file.

    Raises:
        OSError: the file can't be written; the old one is unchanged.
    """
    if not path.name:  # of a directory, as . and /
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
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
    """Replace the contents of a file atomically; raise OSError as `replacing_file`."""
    with replacing_file(path) as file:
        file.write(data)


@contextmanager
def output_file(path: Path) -> Iterator[BinaryIO]:
    """Replace a file that the user named, as `replacing_file` does; make its parents.

    Raises:
        UserError: the file can't be written; the old one is unchanged.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing_file(path) as file:
            yield file
    except OSError as error:
        raise UserError(
            f"{path} cannot be written ({error.strerror}); name another output."
        ) from None


def remove_leftovers(folder: Path, name: str) -> None:
    """Remove temporary files that killed calls of `replacing_file` left behind.

    `name` is a regular expression for the names of the replaced files.
    """
    with suppress(OSError):
        for entry in list(folder.iterdir()):
            if re.fullmatch(rf"\.{name}(\.\d+)?\.new", entry.name):
                entry.unlink()
