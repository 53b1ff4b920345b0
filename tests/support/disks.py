"""Disks that are full or can't be written, and what is on them."""

import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def names(folder: Path) -> list[str]:
    """Return all files, hidden ones too."""
    return sorted(path.name for path in folder.iterdir())


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Let no file of this process grow past `size` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may read and write everything; be another one."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@contextmanager
def mounted(path: Path, size: str) -> Iterator[Path]:
    """Mount a file system of a size; skip the test where that needs root."""
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("only root may mount a tmpfs")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)
