"""What wakes the driver: calls that end in another thread."""

import gc
import threading
import time
import weakref
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from xagents_ray.cluster.ray.bell import Bell


class _Rollout:
    """A call that keeps its future."""

    future: Any = None


def _call() -> tuple[Any, Future[Any]]:
    """Return a reference, and the future that its end sets."""
    future: Future[Any] = Future()
    return SimpleNamespace(future=lambda: future), future


def test_a_wait_ends_when_a_watched_call_has_ended() -> None:
    bell, (reference, future) = Bell(), _call()
    bell.watch(reference, "a rollout")
    threading.Timer(0.1, future.set_result, ["its report"]).start()
    began = time.monotonic()
    bell.wait(30)
    assert 0.05 < time.monotonic() - began < 10
    assert [(item, ended.result()) for item, ended, _ in bell.ended] == [
        ("a rollout", "its report")
    ]
    assert began + 0.05 < bell.ended[0][2] <= time.monotonic()


def test_what_ends_before_a_wait_is_not_missed() -> None:
    bell, (first, one), (second, other) = Bell(), _call(), _call()
    bell.watch(first)  # nobody asks which one it was
    bell.watch(second, 2)
    other.set_exception(ValueError("lost"))
    one.set_result(None)
    bell.wait(30)
    assert [item for item, *_ in bell.ended] == [2]
    began = time.monotonic()
    bell.wait(0.1)  # it has rung once for both
    assert time.monotonic() - began >= 0.09


def test_what_has_ended_is_freed_before_the_garbage_collector_runs() -> None:
    """It doesn't see how much memory the result of a call takes."""
    bell, (reference, future), rollout = Bell(), _call(), _Rollout()
    bell.watch(reference, rollout)
    future.set_result("its report")
    rollout.future = bell.ended.popleft()[1]
    left = weakref.ref(rollout)
    gc.disable()
    try:
        del rollout
        assert left() is None
    finally:
        gc.enable()
