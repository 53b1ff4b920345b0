"""Python in processes of its own, waited for and ended."""

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psutil


def python(*words: str, **settings: Any) -> "subprocess.CompletedProcess[str]":
    """Run Python as `subprocess.run` does, with its output captured as text."""
    command = [sys.executable, *words]
    return subprocess.run(command, capture_output=True, text=True, **settings)


def start(*words: str, **settings: Any) -> Any:
    """Start Python as `subprocess.Popen` does, with its output in a pipe of text."""
    settings = {"stdout": subprocess.PIPE, "text": True, **settings}
    return subprocess.Popen([sys.executable, *words], **settings)


def wait_for(found: Callable[[], Any], seconds: float = 90) -> Any:
    """Return what a function finds, once that is true."""
    end = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.1)
    return value


def has_ended(process: psutil.Process) -> bool:
    """Return whether a process has ended, also if nobody has waited for it."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def kill_with_children(pid: int) -> None:
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for each in (*process.children(recursive=True), process):
            with suppress(psutil.NoSuchProcess):
                each.kill()
