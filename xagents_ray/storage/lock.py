"""A directory's lock: one process holds it, and the kernel frees that of a dead one."""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from xagents_ray.core.errors import UserError

_LONGEST = 300  # bytes that say who holds a lock
_held: set[int] = set()
"""Descriptors of this process's locks."""


@contextmanager
def locked_directory(directory: Path) -> Iterator[None]:
    """Hold a run's directory in the block, if its file system has locks.

    Raises:
        UserError: it is held already.
    """
    descriptor = _lock(directory)
    if descriptor is not None:
        _held.add(descriptor)
    try:
        yield
    finally:
        if descriptor in _held:  # this is no fork of the process that locked it
            _held.discard(descriptor)
            os.close(descriptor)


def _lock(directory: Path) -> int | None:
    """Return the descriptor of a new lock; None where there can be none."""
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
    with suppress(OSError):  # a full disk
        os.ftruncate(descriptor, 0)
        owner = f"process {os.getpid()} on {socket.gethostname()}"
        os.pwrite(descriptor, owner.encode(), 0)
    return descriptor


def _close_in_fork() -> None:
    """Leave the locks to the parent: its environments' processes may outlive it."""
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_close_in_fork)
