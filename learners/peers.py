"""Learners in processes of their own, which sum tensors by TensorFlow's collectives."""

import json
import os
import signal
import threading
import time
from collections.abc import Sequence

import tensorflow as tf

from xagents_ray.learners.math.shares import Shares

__autograph__ = False

_TIMEOUT_SECONDS = 30.0
"""Time limit of a sum, so that a learner that hangs never blocks the others."""
_JOIN_SECONDS = 120
"""Time limit to connect; the learners import TensorFlow before, at the same time."""
_POLL_SECONDS = 1.0
_GROUP = 1
_FAILURES = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
    tf.errors.UnavailableError,
)


def join(rank: int, addresses: Sequence[str]) -> Shares:
    """Connect to the other learners; return this one's share.

    Call it before TensorFlow's first operation, in all processes at the same time. If
    one of them does not come, SIGALRM ends this process after two minutes.

    Args:
        rank: index of this learner.
        addresses: host and port of each learner.
    """
    task = {"type": "worker", "index": rank}
    cluster = {"worker": addresses}
    # Proxies of the network are not for a connection within the machine.
    os.environ["no_grpc_proxy"] = ",".join(x.rpartition(":")[0] for x in addresses)
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task})
    # The kernel ends this process: TensorFlow holds the GIL while it waits for others.
    signal.alarm(_JOIN_SECONDS)
    tf.distribute.MultiWorkerMirroredStrategy()  # connects this process
    signal.alarm(0)
    size, made = len(addresses), 0

    def total(x: tf.Tensor) -> tf.Tensor:
        nonlocal made
        made += 1  # all learners trace the same sums in the same order
        return tf.raw_ops.CollectiveReduceV2(
            input=x,
            group_size=size,
            group_key=_GROUP,
            instance_key=made,
            ordering_token=[],
            merge_op="Add",
            final_op="Id",
            communication_hint="auto",
        )

    shares = Shares(rank, size, total)
    threading.Thread(target=_watch, args=(shares,), daemon=True).start()
    return shares


def _watch(shares: Shares) -> None:
    """End this process if a sum takes too long: nothing else can interrupt it.

    TensorFlow's own time limit starts a thread for each sum, which lives as long.
    """
    last, since = 0, time.monotonic()
    while True:
        time.sleep(_POLL_SECONDS)
        if (turn := shares.turn) % 2 == 0 or turn != last:
            last, since = turn, time.monotonic()
        elif time.monotonic() - since > _TIMEOUT_SECONDS:
            os._exit(1)


def has_lost_peer(error: BaseException) -> bool:
    """Return whether a learning phase failed because another learner is lost."""
    return isinstance(error, _FAILURES)
