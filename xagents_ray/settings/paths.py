"""Paths of files and directories on this machine, as users give them."""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from xagents_ray.core.errors import UserError
from xagents_ray.core.parsing import (
    ExcessError,
    SettingsLoader,
    parse_yaml,
    read_bounded,
)

_LARGEST = 1 << 18  # maximum size of a file of settings, in bytes
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def expand(value: Any) -> Any:
    """Return a path with `~` expanded; other values are returned unchanged."""
    return os.path.expanduser(value) if isinstance(value, str) else value


def check_local(what: str, path: Any) -> None:
    """Raise UserError if a path is a URL; `what` is the flag or function it is for."""
    if isinstance(path, str) and _URL.match(path):
        raise UserError(
            f"{what} {path}: URLs are not supported; name a local file or folder, or "
            "one of a mounted file system."
        )


def check_path(flag: str, value: Any) -> None:
    """Raise UserError if the value of a flag is empty or a URL."""
    if not value:
        raise UserError(f"{flag} is empty: name a file, or leave it out.")
    check_local(flag, value)


def local_path(what: str, path: str | os.PathLike[str]) -> str:
    """Return a path with `~` expanded; UserError if it is a URL, or no path."""
    if not isinstance(path, str | os.PathLike):
        raise UserError(
            f"{what} takes a path, got {path!r:.80}: give a text or a Path, as a "
            "result's `directory`."
        )
    check_local(what, text := os.fspath(path))
    return str(expand(text))


def local_paths(what: str, paths: object) -> list[str]:
    """Return one path, or each of several, as `local_path` does."""
    several = isinstance(paths, Iterable) and not isinstance(paths, str | os.PathLike)
    return [local_path(what, each) for each in (paths if several else [paths])]  # type: ignore[attr-defined]


def check_name(flag: str, value: Any) -> None:
    """Raise UserError if a text can't be the name of a directory."""
    if value in ("", ".", "..") or set("/\\\0") & set(str(value)):
        raise UserError(f"{flag} {value!r} can't name a directory: leave out / and \\.")


def read_settings_file(flag: str, path: Path, remedy: str) -> Any:
    """Return the contents of a user's YAML file as plain data.

    Args:
        flag: flag that names the file.
        path: path of the file.
        remedy: advice for contents that can't be read, as a clause.
    Raises:
        OSError: the file can't be read.
        UserError: it is not YAML, too large, or has aliases or a key twice.
    """
    try:
        return parse_yaml(read_bounded(path, _LARGEST).decode(), SettingsLoader)
    except ExcessError as error:
        raise UserError(f"{flag} {path}: {error}; {remedy}.") from None
    except ValueError:
        raise UserError(f"{flag} {path} is not YAML: {remedy}.") from None
