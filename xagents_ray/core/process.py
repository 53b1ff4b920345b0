"""Process-wide helpers: cores, threads, stderr, hidden packages, seeding."""

import contextlib
import functools
import gc
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from typing import NoReturn

import threadpoolctl


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextlib.contextmanager
def quiet_stderr() -> Iterator[None]:
    """Suppress stderr, even of C++ libraries; show it if the block raises."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        except Exception:  # not SystemExit from a signal
            file.seek(0)
            os.write(kept, file.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)


@contextlib.contextmanager
def without_packages(*names: str) -> Iterator[None]:
    """Hide installed packages within the block, unless they are imported already."""
    names = tuple(name for name in names if name not in sys.modules)
    sys.modules.update(dict.fromkeys(names))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]


@contextlib.contextmanager
def paused_gc() -> Iterator[None]:
    """Pause Python's garbage collector within the block, which creates lasting objects.

    Otherwise it visits all earlier ones again and again, in vain.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def drawing_by(seed: str) -> Iterator[None]:
    """Seed Python's `random` within the block; unseeded Keras initializers use it."""
    state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)


def one_blas_thread() -> contextlib.AbstractContextManager[object]:
    """Limit NumPy's matrix products to one thread within the block.

    More threads don't speed up small products, and results would depend on the machine.
    """
    return _blas().limit(limits=1, user_api="blas")  # type: ignore[no-any-return]


@functools.cache
def _blas() -> threadpoolctl.ThreadpoolController:
    """Return the controller of NumPy's BLAS, cached as creating it takes 1 ms."""
    return threadpoolctl.ThreadpoolController()


def end_now(code: int) -> NoReturn:
    """Exit without exit handlers and without waiting for other threads."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
