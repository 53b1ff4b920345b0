"""Reads HDF5 files that others may have written, in a child process."""

import io
import itertools
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xagents_ray.core.trajectory import Array

# HDF5 may crash or loop forever on damaged bytes, so a child process reads them. It
# accepts only arrays of numbers that the file stores contiguously, and no byte twice,
# which bounds their size. Its own memory is limited too, as HDF5 may ask for more.
_READ = """
import io, json, resource, signal, sys
sys.path[:] = sys.argv[2:]
import h5py, numpy
data, found, texts = sys.stdin.buffer.read(), {}, {}
room = len(data)
def text(value):
    return value.decode() if isinstance(value, bytes) else str(value)
def visit(name, item):
    global room
    if len(name) > 1_000:  # walking down thousands of groups would take seconds
        raise ValueError(name)
    if isinstance(item, h5py.Dataset):
        offset = item.id.get_offset()
        if item.dtype.kind not in "biuf" or offset is None:
            raise ValueError(name)
        room -= item.nbytes + len(name)
        if room < 0 or offset + item.nbytes > len(data):
            raise ValueError(name)
        found[name] = item[()]
    elif sys.argv[1] == "with texts":
        texts[name] = {
            key: [text(each) for each in numpy.atleast_1d(value)]
            for key, value in item.attrs.items()
        }
        room -= sum(len(each) for own in texts[name].values() for each in own)
        room -= len(name)
        if room < 0:
            raise ValueError(name)
try:
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (used + 6 * len(data) + 2**28, hard))
except (OSError, ValueError):
    pass  # not Linux, or a lower limit
signal.setitimer(signal.ITIMER_PROF, 3)
with h5py.File(io.BytesIO(data), "r") as file:
    visit("", file)
    file.visititems(visit)
out = io.BytesIO()
numpy.savez(out, **found)
sys.stdout.buffer.write(json.dumps(texts).encode() + b"\\n")
sys.stdout.buffer.write(out.getbuffer())
"""


class Hdf5(NamedTuple):
    """The contents of an HDF5 file.

    Attributes:
        arrays: arrays by path.
        texts: texts in the attributes of each group, by the group's path.
    """

    arrays: dict[str, Array]
    texts: dict[str, dict[str, list[str]]]

    def names(self, group: str, attribute: str) -> Sequence[str]:
        """Return the names in a group's attribute; long lists of Keras have several."""
        texts = self.texts[group]
        if attribute in texts:
            return texts[attribute]
        numbered = (f"{attribute}{i}" for i in itertools.count())
        parts = itertools.takewhile(texts.__contains__, numbered)
        return [name for part in parts for name in texts[part]]


def read_hdf5(data: bytes, with_texts: bool = False) -> Hdf5:
    """Return the contents of an HDF5 file.

    Time is limited, and memory to a few times the file's size.

    Args:
        data: content of the file.
        with_texts: whether to read attributes too.
    Raises:
        ValueError: the file is damaged, or has other data than contiguous numbers.
    """
    what = "with texts" if with_texts else "arrays"
    done = subprocess.run(
        [sys.executable, "-I", "-c", _READ, what, *sys.path],
        input=data,
        capture_output=True,
    )
    if done.returncode != 0:
        raise ValueError("it can't be read as HDF5")
    found = io.BytesIO(done.stdout)
    texts = json.loads(found.readline())
    with np.load(found, allow_pickle=False) as archive:
        return Hdf5(dict(archive), texts)
