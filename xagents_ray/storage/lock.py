"""Directory locks, held by one process and released by the kernel when it dies."""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from xagents_ray.core.errors import UserError

_LONGEST = 300  # maximum size of the owner's name, in bytes
_held: set[int] = set()
"""Descriptors of this process's locks."""


@contextmanager
def locked_directory(directory: Path) -> Iterator[None]:
    """Lock a run's directory within the block, if its file system supports locks.

    Raises:
        UserError: the directory is locked already.
    """
    descriptor = _lock(directory)
    if descriptor is not None:
        _held.add(descriptor)
    try:
        yield
    finally:
        if descriptor in _held:  # not in a fork of the process that locked it
            _held.discard(descriptor)
            os.close(descriptor)


def is_locked(directory: Path) -> bool:
    """Return whether a process trains in a run's directory, without writing there."""
    try:
        descriptor = os.open(directory / ".lock", os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def _lock(directory: Path) -> int | None:
    """Return the descriptor of a new lock; None if locks aren't supported."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    try:
        descriptor = os.open(directory / ".lock", flags, 0o666)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(descriptor, _LONGEST, 0).decode(errors="replace")
        os.close(descriptor)
        raise UserError(
            f"{directory} is being trained by {owner or 'another process'}: end it "
            "first, or begin another run."
        ) from None
    except OSError:
        os.close(descriptor)
        return None
    with suppress(OSError):  # the disk may be full
        os.ftruncate(descriptor, 0)
        owner = f"process {os.getpid()} on {socket.gethostname()}"
        os.pwrite(descriptor, owner.encode(), 0)
    return descriptor


def _close_in_fork() -> None:
    """Close inherited locks in a forked child, which may outlive its parent."""
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_close_in_fork)
