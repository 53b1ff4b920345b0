"""A learner that waits too long for the others ends its process."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from xagents_ray.learners import peers


class _Clock:
    """A clock that only sleeping advances, for a minute."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.now > 60:
            raise TimeoutError


@pytest.mark.parametrize(
    ("turn_at", "ends_at"),
    [
        (lambda now: 3, 32.0),
        (lambda now: 6, None),  # no sum: the next phase has not begun
        (lambda now: 2 * int(now) + 1, None),
        (lambda now: 5 if now < 20 else 7, 51.0),
    ],
    ids=["hangs", "rests", "goes on", "hangs later"],
)
def test_a_sum_has_30_seconds(
    monkeypatch: pytest.MonkeyPatch,
    turn_at: Callable[[float], int],
    ends_at: float | None,
) -> None:
    clock = _Clock()

    class Watched:
        @property
        def turn(self) -> int:
            return turn_at(clock.now)

    def end(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(peers, "time", clock)
    monkeypatch.setattr(peers, "os", SimpleNamespace(_exit=end))
    shares: Any = Watched()
    with pytest.raises(SystemExit if ends_at else TimeoutError):
        peers._watch(shares)
    assert ends_at is None or clock.now == ends_at


def test_others_have_two_minutes_to_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Afterwards nothing ends this process; the clock runs while it connects."""
    alarms: list[int] = []
    connected: list[list[int]] = []
    strategy = SimpleNamespace(
        MultiWorkerMirroredStrategy=lambda: connected.append([*alarms])
    )
    monkeypatch.setattr(peers.tf, "distribute", strategy)
    monkeypatch.setattr(peers, "signal", SimpleNamespace(alarm=alarms.append))
    monkeypatch.setenv("TF_CONFIG", "")
    monkeypatch.setenv("no_grpc_proxy", "")
    shares = peers.join(1, ["10.0.0.1:40000", "10.0.0.2:40001"])
    assert (shares.rank, shares.size) == (1, 2)
    assert (connected, alarms) == ([[120]], [120, 0])
    assert json.loads(os.environ["TF_CONFIG"])["task"] == {"type": "worker", "index": 1}
    assert os.environ["no_grpc_proxy"] == "10.0.0.1,10.0.0.2"


_ALONE = """
from xagents_ray.learners import peers
peers._JOIN_SECONDS = 2
peers.join(0, [f"127.0.0.1:{port}" for port in (PORT, 1)])
"""


@pytest.mark.slow
def test_a_learner_does_not_wait_for_ever_for_others_to_connect() -> None:
    """TensorFlow holds the GIL meanwhile, so that no thread could end it."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [sys.executable, "-c", _ALONE.replace("PORT", str(port))]
    assert subprocess.run(command).returncode == -signal.SIGALRM
