"""Reads HDF5 files that others may have written, in a child process."""

import io
import subprocess
import sys

import numpy as np

from xagents_ray.core.trajectory import Array

# HDF5 may crash or loop forever on damaged bytes, so a child process reads them. It
# accepts only arrays of numbers that the file stores contiguously, and no byte twice,
# which bounds their size. Its own memory is limited too, as HDF5 may ask for more.
_READ = """
import io, resource, signal, sys
sys.path[:] = sys.argv[1:]
import h5py, numpy
data, found = sys.stdin.buffer.read(), {}
room = len(data)
def visit(name, item):
    global room
    if isinstance(item, h5py.Dataset):
        offset = item.id.get_offset()
        if item.dtype.kind not in "biuf" or offset is None:
            raise ValueError(name)
        room -= item.nbytes + len(name)
        if room < 0 or offset + item.nbytes > len(data):
            raise ValueError(name)
        found[name] = item[()]
try:
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (used + 6 * len(data) + 2**28, hard))
except (OSError, ValueError):
    pass  # not Linux, or a lower limit
signal.setitimer(signal.ITIMER_PROF, 3)
with h5py.File(io.BytesIO(data), "r") as file:
    file.visititems(visit)
out = io.BytesIO()
numpy.savez(out, **found)
sys.stdout.buffer.write(out.getbuffer())
"""


def read_hdf5(data: bytes) -> dict[str, Array]:
    """Return the arrays in an HDF5 file by path.

    Time is limited, and memory to a few times the file's size.

    Raises:
        ValueError: the file is damaged, or has other data than contiguous numbers.
    """
    done = subprocess.run(
        [sys.executable, "-I", "-c", _READ, *sys.path],
        input=data,
        capture_output=True,
    )
    if done.returncode != 0:
        raise ValueError("it can't be read as HDF5")
    with np.load(io.BytesIO(done.stdout), allow_pickle=False) as archive:
        return dict(archive)
