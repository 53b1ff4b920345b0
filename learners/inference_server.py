"""Computes the acting network for the env actors of this machine, in a thread."""

import os
import secrets
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

from xagents_ray.core import inference
from xagents_ray.core.inference import REPLY, REQUEST, ServerAddress
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Weights
from xagents_ray.learners import runtime
from xagents_ray.learners.acting_network import ActingNetwork
from xagents_ray.networks.layout import Layout
from xagents_ray.settings.algorithm import AlgorithmConfig

_ROOM = 1_000 * REQUEST.size
_END = -1
"""First environment in a request that ends the thread."""


class InferenceServer:
    """Answers the requests of slots, ranges of the run's environments.

    On a GPU, all environments are one batch, of which those that have asked meanwhile
    use their rows; on CPUs, each slot is a batch. So shapes are fixed, and outputs
    don't depend on when requests arrive.

    Args:
        layout: layout of the network that acts.
        config: settings of the algorithm.
        spec: spec of the environments.
        slots: first environment and number of environments of each slot.
        n_newest: number of the newest versions of weights to keep.
    Attributes:
        address: address of the server for its clients.
        error: error that ended the thread; None while it works.
    """

    def __init__(
        self,
        layout: Layout,
        config: AlgorithmConfig,
        spec: EnvSpec,
        slots: Sequence[tuple[int, int]],
        n_newest: int,
    ) -> None:
        self._network = network = ActingNetwork(layout, config, spec)
        self._slots, self._n_newest = dict(slots), n_newest
        self._batches_all = bool(runtime.usable_gpus())
        self._versions: dict[int, Any] = {}
        self._used: dict[int, int] = {}  # by slot, version of its last request
        self._lock = threading.Lock()
        self._busy_since: float | None = None
        self.error: BaseException | None = None
        fields = (*network.inputs, *network.outputs)
        n_envs = max(first + count for first, count in slots)
        memory = os.memfd_create("xagents-ray inference")
        token = secrets.randbits(62)
        self._rows = inference.SharedRows(memory, fields, n_envs, token).arrays
        self._requests, write_requests = os.pipe()
        self._replies = {first: os.pipe() for first in self._slots}
        self.address = ServerAddress(
            inference.machine_id(),
            os.getpid(),
            token,
            memory,
            write_requests,
            {first: ends[0] for first, ends in self._replies.items()},
            n_envs,
            fields,
        )
        self._thread = threading.Thread(target=self._run, name="inference", daemon=True)
        self._thread.start()

    def hold(self, weights: Weights) -> Weights:
        """Keep weights for requests; return them with the server's address.

        Older ones are dropped, except those that slots used last.
        """
        tensors = self._network.tensors(weights.arrays)
        with self._lock:
            self._versions.pop(weights.version, None)
            self._versions[weights.version] = tensors
            kept = {*[*self._versions][-self._n_newest :], *self._used.values()}
            for version in self._versions.keys() - kept:
                del self._versions[version]
        return weights._replace(server=self.address)

    def is_working(self) -> bool:
        """Return whether the server doesn't hang; raise the error that ended it."""
        if self.error is not None:
            raise self.error
        since = self._busy_since
        return since is None or time.monotonic() - since < inference.SILENT_SECONDS

    def close(self) -> None:
        """End the thread, and free what clients opened once they have closed it."""
        if self._thread.is_alive():
            os.write(self.address.requests, REQUEST.pack(_END, 0, 0))
            self._thread.join()
        for descriptor in (self._requests, self.address.requests, self.address.memory):
            os.close(descriptor)
        for read, _ in self._replies.values():
            os.close(read)

    def _run(self) -> None:
        """Answer requests until one says to end, or one can't be answered."""
        requests: list[tuple[int, int, int]] = []
        try:
            while True:
                requests = [*REQUEST.iter_unpack(os.read(self._requests, _ROOM))]
                if any(first == _END for first, _, _ in requests):
                    break
                self._busy_since = time.monotonic()
                self._answer(requests)
                self._busy_since = None
        except BaseException as error:
            self.error = error
            self._reply(requests, inference.FAILED)
        for _, write in self._replies.values():
            os.close(write)  # the clients read the end of the file

    def _answer(self, requests: Sequence[tuple[int, int, int]]) -> None:
        """Compute the outputs of each version's requests, and reply."""
        with self._lock:
            self._used.update((first, version) for first, version, _ in requests)
            held = {version: self._versions.get(version) for _, version, _ in requests}
        for version, weights in held.items():
            own = [each for each in requests if each[1] == version]
            if weights is None:
                self._reply(own, inference.UNKNOWN_VERSION)
            elif self._batches_all:
                self._compute(weights, slice(None))
                self._reply(own, inference.DONE)
            else:
                for each in own:
                    self._compute(weights, self._slice(each[0]))
                    self._reply([each], inference.DONE)

    def _slice(self, first: int) -> slice:
        return slice(first, first + self._slots[first])

    def _compute(self, weights: Any, rows: slice) -> None:
        """Compute the outputs of some rows."""
        inputs = {x.name: self._rows[x.name][rows] for x in self._network.inputs}
        for name, array in self._network.compute(inputs, weights).items():
            self._rows[name][rows] = array

    def _reply(self, requests: Iterable[tuple[int, int, int]], status: int) -> None:
        for first, _, number in requests:
            os.write(self._replies[first][1], REPLY.pack(number, status))
