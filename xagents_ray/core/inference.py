"""How env actors have their network computed in the learner's process.

An inference server owns anonymous memory with a row for each environment, a pipe for
requests, and a pipe for the replies to each slot, a range of environments. Other
processes of the machine open them through /proc. They have no names, so nothing remains
of them when processes are killed, and a pipe says at once that its server is dead.
"""

import mmap
import os
import secrets
import select
import struct
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

REQUEST, REPLY = struct.Struct("<qqq"), struct.Struct("<qq")
"""First environment, weights version and number of a request; number and status of its
reply.
"""
DONE, UNKNOWN_VERSION, FAILED = range(3)
"""Status of a reply."""
INPUTS, NOISE, STATE = "input/", "noise", "state"
OUTPUTS, NEXT_STATE = "output/", "next_state"
"""Names of the rows' arrays; those of inputs and outputs are followed by a name or a
number."""
SILENT_SECONDS = 45.0
"""Time after which a server that doesn't reply counts as hung."""
_ALIGNMENT = 64


class InferenceLost(Exception):
    """The inference server is dead, hangs, or no longer has the weights of a rollout.

    The rollout is lost; the environments can continue with other weights.
    """


class RowField(NamedTuple):
    """An array of the shared memory: dtype, and shape for one environment."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class ServerAddress(NamedTuple):
    """Where the processes of one machine find an inference server."""

    machine: str  # see `machine_id`
    pid: int
    token: int  # of this server, as process ids are used again
    memory: int  # file descriptors of the process
    requests: int
    replies: dict[int, int]  # by the first environment of a slot
    n_envs: int
    fields: tuple[RowField, ...]


def machine_id() -> str:
    """Return an identifier that processes share if they can see each other in /proc."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        return f"{boot.strip()} {os.readlink('/proc/self/ns/pid')}"
    return ""


def slots_of(first_env: int, n_envs: int) -> list[tuple[int, int]]:
    """Return the first environment and the size of each slot of an env actor.

    These are the halves of its environments, or one slot for a single environment.
    """
    later = n_envs // 2
    halves = [(first_env, n_envs - later), (first_env + n_envs - later, later)]
    return [half for half in halves if half[1]]


class SharedRows:
    """The arrays of a server's memory.

    Args:
        descriptor: file descriptor of the memory.
        fields: the arrays.
        n_envs: number of rows of each array.
        token: token of a new server; None reads that of the memory.
    Attributes:
        arrays: arrays [n_envs, *shape] by name.
        token: token of the server.
    """

    def __init__(
        self,
        descriptor: int,
        fields: Sequence[RowField],
        n_envs: int,
        token: int | None = None,
    ) -> None:
        places, end = list[int](), _ALIGNMENT
        for each in fields:
            places.append(end)
            size = n_envs * int(np.prod(each.shape)) * np.dtype(each.dtype).itemsize
            end += -(-size // _ALIGNMENT) * _ALIGNMENT
        if token is not None:
            os.ftruncate(descriptor, end)
        self._memory = mmap.mmap(descriptor, end)
        head: npt.NDArray[np.int64] = np.ndarray((1,), np.int64, self._memory)
        if token is not None:
            head[0] = token
        self.token = int(head[0])
        self.arrays: dict[str, npt.NDArray[Any]] = {
            each.name: np.ndarray(
                (n_envs, *each.shape), each.dtype, self._memory, place
            )
            for each, place in zip(fields, places, strict=True)
        }


class InferenceClient:
    """The connection of a slot to an inference server.

    Args:
        address: address of the server, on this machine.
        first_env: index of the slot's first environment in the run.
        n_envs: number of its environments.
    Raises:
        InferenceLost: the server is dead.
    """

    def __init__(self, address: ServerAddress, first_env: int, n_envs: int) -> None:
        self._first, self._opened = first_env, list[int]()
        try:
            memory = self._open(address, address.memory, os.O_RDWR)
            rows = SharedRows(memory, address.fields, address.n_envs)
            if rows.token != address.token:
                raise InferenceLost("Another process has the server's id.")
            self._requests = self._open(address, address.requests, os.O_WRONLY)
            replies = address.replies[first_env]
            self._replies = self._open(address, replies, os.O_RDONLY)
        except (OSError, ValueError) as error:
            self.close()
            raise InferenceLost(f"The inference server is gone: {error}.") from None
        self._poll = select.poll()
        self._poll.register(self._replies, select.POLLIN)
        own = slice(first_env, first_env + n_envs)
        self._arrays = {name: array[own] for name, array in rows.arrays.items()}
        # Another process may have had this slot: replies to it are ignored.
        self._number, self._asked_at = secrets.randbits(62), 0.0

    def _open(self, address: ServerAddress, descriptor: int, mode: int) -> int:
        path = f"/proc/{address.pid}/fd/{descriptor}"
        self._opened.append(os.open(path, mode | os.O_CLOEXEC))
        return self._opened[-1]

    def request(self, version: int, inputs: Mapping[str, Any]) -> None:
        """Ask for the network's outputs.

        Args:
            version: version of the weights.
            inputs: arrays [n_envs, *shape], or numbers, by the names of fields; others
                are ignored.
        Raises:
            InferenceLost: the server is dead.
        """
        for name, value in inputs.items():
            if name in self._arrays:
                self._arrays[name][...] = value
        self._number += 1
        self._asked_at = time.monotonic()
        try:
            message = REQUEST.pack(self._first, version, self._number)
            os.write(self._requests, message)
        except OSError:
            raise InferenceLost("The inference server is dead.") from None

    def reply(self) -> dict[str, npt.NDArray[Any]]:
        """Wait for the server; return copies of the outputs by name.

        Raises:
            InferenceLost: the server is dead or hangs, it failed, or it no longer has
                weights of this version.
        """
        number = status = -1
        while number != self._number:
            # From the request on: the other half has waited meanwhile.
            left = self._asked_at + SILENT_SECONDS - time.monotonic()
            if not self._poll.poll(max(0.0, left * 1_000)):
                raise InferenceLost("The inference server hangs.")
            if not (message := os.read(self._replies, REPLY.size)):
                raise InferenceLost("The inference server is dead.")
            number, status = REPLY.unpack(message)
        if status == UNKNOWN_VERSION:
            raise InferenceLost("The inference server has only other weights.")
        if status == FAILED:
            raise InferenceLost("The inference server failed.")
        return {
            name: array.copy()
            for name, array in self._arrays.items()
            if name.startswith((OUTPUTS, NEXT_STATE))
        }

    def close(self) -> None:
        """Close the pipes and the memory."""
        while self._opened:
            os.close(self._opened.pop())
