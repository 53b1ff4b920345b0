"""Directories with a manifest of their files' sizes and hashes."""

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from xagents_ray.core.errors import UserError
from xagents_ray.core.files import sync_directory, write_new
from xagents_ray.core.parsing import parse_json
from xagents_ray.storage import migrations

MANIFEST = "manifest.json"
_CHUNK = 1 << 20  # bytes
_LARGEST_MANIFEST = 1 << 20  # bytes
_MOST_ENTRIES = 20_000  # of a manifest, where each file's takes about 100 bytes
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_HASH = re.compile(r"[0-9a-f]{64}")


def seal_directory(
    directory: Path, names: Iterable[str], facts: Mapping[str, Any]
) -> None:
    """Sync files of a directory and write their sizes and hashes to a new manifest.

    The manifest contains `facts` too, as JSON.

    Raises:
        OSError: a file can't be read or synced, or the manifest can't be written.
        ValueError: `read_manifest` would refuse a name, or a file is not regular.
    """
    files = {}
    for name in sorted(names):
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} can't be the name of a file of a checkpoint.")
        with _open_regular(directory / name) as file:
            os.fsync(file.fileno())
            size = os.fstat(file.fileno()).st_size
            files[name] = {"size": size, "sha256": _sha256(file)}
    manifest = {"format": migrations.newest_format(), **facts, "files": files}
    write_new(directory / MANIFEST, json.dumps(manifest, indent=1).encode())
    sync_directory(directory)


def read_manifest(directory: Path) -> dict[str, Any]:
    """Return the manifest of `seal_directory`; its `facts` are not checked.

    Raises:
        UserError: it is missing or damaged.
    """
    path = directory / MANIFEST
    with reading_file(path):
        if directory.is_symlink():
            raise ValueError("its directory is a symbolic link")
        with _open_regular(path) as file:
            manifest = parse_json(file.read(_LARGEST_MANIFEST), most=_MOST_ENTRIES)
        migrations.migrations_from(manifest["format"], path)
        for name, entry in manifest["files"].items():
            if not _NAME.fullmatch(name):
                raise ValueError(f"it names {name!r}")
            if type(entry["size"]) is not int or not _HASH.fullmatch(entry["sha256"]):
                raise ValueError(f"its entry of {name!r} is damaged")
    return dict(manifest)


@contextmanager
def reading_file(path: Path) -> Iterator[None]:
    """Convert every error in the block to one sentence about the file.

    Raises:
        UserError: any error was raised; the message has no period yet.
    """
    try:
        yield
    except migrations.NewerFormatError:
        raise
    except FileNotFoundError:
        raise UserError(f"{path} is missing") from None
    except KeyError as error:
        raise UserError(f"{path} can't be used (it has no {error})") from None
    except Exception as error:  # parsers raise anything at a damaged file
        reason = error.strerror if isinstance(error, OSError) else str(error)
        short = " ".join((reason or type(error).__name__).split())[:200]
        raise UserError(f"{path} can't be used ({short})") from None


@contextmanager
def open_verified(path: Path, manifest: Mapping[str, Any]) -> Iterator[BinaryIO]:
    """Open a file of a sealed directory once all of it matches the manifest.

    Raises:
        UserError: the file differs or can't be read, or the block raised an error.
    """
    with reading_file(path):
        if (entry := manifest["files"].get(path.name)) is None:
            raise ValueError("the manifest doesn't name it")
        with _open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size != entry["size"]:
                raise ValueError(f"it has {size} bytes, {entry['size']} were written")
            if _sha256(file) != entry["sha256"]:
                raise ValueError("its contents are not what was written")
            file.seek(0)
            yield file


def _open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; refuse links, and pipes that would block."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    file = open(descriptor, "rb")
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        file.close()
        raise ValueError("it is not a regular file")
    return file


def _sha256(file: BinaryIO) -> str:
    """Return the hexadecimal digest of the rest of a file."""
    digest, buffer = hashlib.sha256(), memoryview(bytearray(_CHUNK))
    while count := file.readinto(buffer):  # type: ignore[attr-defined]
        digest.update(buffer[:count])
    return digest.hexdigest()
