"""Questions to Ray's control process (GCS), which may have stopped to answer."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from xagents_ray.cluster.ray.calls import RayCalls

_T = TypeVar("_T")

_POLL_SECONDS = 0.2


def inquire(calls: RayCalls, question: Callable[[], _T]) -> _T:
    """Return the result of a function that asks Ray's control process.

    Without that process Ray waits within the function, where nothing interrupts it, and
    ends this process after a minute. Hence the function runs in a thread.

    Raises:
        Stopped: a shutdown was requested.
        Broken: Ray is lost for good.
    """
    answer: Future[_T] = Future()

    def ask() -> None:
        try:
            answer.set_result(question())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=ask, name="inquiry", daemon=True).start()
    while not wait([answer], _POLL_SECONDS).done:
        calls.pause(0)
    return answer.result()
