"""This process: its cores and threads, silence for libraries, keeping some out."""

import contextlib
import functools
import os
import random
import sys
import tempfile
from collections.abc import Iterator

import threadpoolctl


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextlib.contextmanager
def quiet_stderr() -> Iterator[None]:
    """Hold back what C++ libraries write to stderr; show it if the block fails."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        except Exception:  # not of a signal, which explains itself
            file.seek(0)
            os.write(kept, file.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)


@contextlib.contextmanager
def without_packages(*names: str) -> Iterator[None]:
    """Make packages seem not installed, unless they are imported already."""
    names = tuple(name for name in names if name not in sys.modules)
    sys.modules.update(dict.fromkeys(names))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]


@contextlib.contextmanager
def drawing_by(seed: str) -> Iterator[None]:
    """Seed `random` in the block: Keras' initializers without a seed take one there."""
    state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)


def one_blas_thread() -> contextlib.AbstractContextManager[object]:
    """Let NumPy multiply with one thread in a block, and as before after it.

    Small products are no faster with more, and numbers don't depend on the machine.
    """
    return _blas().limit(limits=1, user_api="blas")  # type: ignore[no-any-return]


@functools.cache
def _blas() -> threadpoolctl.ThreadpoolController:
    """Return what knows NumPy's BLAS; to look for it takes a millisecond."""
    return threadpoolctl.ThreadpoolController()
