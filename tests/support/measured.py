"""Calls in a fork of this process, with the time and the memory that they take."""

import contextlib
import gc
import io
import json
import os
import re
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from xagents_ray.core.errors import UserError

_SECONDS = 60
_MOST_MEMORY = 4 << 30
_LOOP_SECONDS = 0.08


class Measured(NamedTuple):
    """What a call took, and how it ended."""

    code: int  # 2 for a UserError; -1 if another error was raised
    said: str  # standard error, or the error's message
    seconds: float  # of CPU, of its children too
    memory: int  # bytes beyond what the process had before


def slowness() -> float:
    """Return how many times longer a loop takes here than where bounds were set."""
    times = []
    for _ in range(3):
        begun = time.process_time()
        for _ in range(3_000_000):
            pass
        times.append(time.process_time() - begun)
    return max(1.0, min(times) / _LOOP_SECONDS)


def measured(call: Callable[[], int | None]) -> Measured:
    """Return how a call ends that returns an exit code or raises.

    The fork may use 4 GiB and 60 s before it is ended.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            with os.fdopen(writing, "w") as link:
                json.dump(_run(call), link)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as link:
        text = link.read()
    _, status = os.waitpid(pid, 0)
    assert text, f"the process ended by signal {os.WTERMSIG(status)}"
    return Measured(*json.loads(text))


def _run(call: Callable[[], int | None]) -> Measured:
    signal.alarm(_SECONDS)
    gc.freeze()  # the collector passes over the test's own objects otherwise
    before = _status("VmRSS")
    size = _status("VmSize")
    resource.setrlimit(resource.RLIMIT_AS, (size + _MOST_MEMORY, -1))
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    begun, said = time.process_time(), io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            code = call() or 0
        except UserError as error:
            code = 2
            print(error, file=sys.stderr)
        except BaseException as error:
            code = -1
            print(f"{type(error).__name__}: {error}"[:500], file=sys.stderr)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = time.process_time() - begun + children.ru_utime + children.ru_stime
    memory = max(_status("VmHWM") - before, 1024 * children.ru_maxrss - before)
    return Measured(code, said.getvalue(), seconds, memory)


def _status(name: str) -> int:
    """Return a size of this process in bytes."""
    text = Path("/proc/self/status").read_text()
    found = re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE)
    assert found is not None
    return int(found[1]) << 10
