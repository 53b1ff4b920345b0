"""Probing a cluster's head without Ray."""

import os
import socket
import threading
import time

_HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
_SETTINGS_FRAME = 4
_PROBE_SECONDS = 5.0
_REPEAT_SECONDS = 1.0


def silence(host: str, port: int) -> str:
    """Return why no gRPC server answers at an address; '' when one does."""
    try:
        with socket.create_connection((host, port), timeout=_PROBE_SECONDS) as link:
            link.settimeout(_PROBE_SECONDS)
            link.sendall(_HTTP2_GREETING)
            answer = link.recv(9)
    except TimeoutError:
        return "no answer"
    except OSError as error:
        return error.strerror or str(error)
    is_http2 = len(answer) >= 4 and answer[3] == _SETTINGS_FRAME
    return "" if is_http2 else "something else listens there"


def patience() -> float:
    """Return the seconds for which a head may be silent.

    A head that keeps its state elsewhere may restart. After the whole time that this
    variable gives, Ray's client ends this process without a message.
    """
    return float(os.environ.get("RAY_gcs_rpc_server_reconnect_timeout_s", 60)) / 2


class Head:
    """The head of a cluster, probed by a thread of its own.

    Args:
        host: of the head.
        port: of its control service (GCS).
        seconds: of silence after which it is lost for good.
    """

    def __init__(self, host: str, port: int, seconds: float) -> None:
        self._host, self._port, self._seconds = host, port, seconds
        self._silent_since: float | None = None
        self._closed = threading.Event()
        threading.Thread(target=self._probe, daemon=True).start()

    @property
    def silent_seconds(self) -> float:
        """How long the head has been silent; 0 when it answered the last probe."""
        since = self._silent_since
        return 0.0 if since is None else time.monotonic() - since

    @property
    def is_gone(self) -> bool:
        """Whether the head has been silent for too long."""
        return self.silent_seconds > self._seconds

    def close(self) -> None:
        """Stop probing."""
        self._closed.set()

    def _probe(self) -> None:
        while not self._closed.wait(_REPEAT_SECONDS):
            began = time.monotonic()
            if not silence(self._host, self._port):
                self._silent_since = None
            elif self._silent_since is None:
                self._silent_since = began
