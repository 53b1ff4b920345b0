"""What environments print in processes without a terminal, on its way to one."""

import contextlib
import io
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

_MOST_LINES = 20
"""Lines that one call of `PrintCollector.take` returns; further ones are counted."""
_LONGEST = 500
"""Characters of a line; further ones are cut off."""
_READ_BYTES, _READS = 2**16, 4
_SHOWN, _SECONDS = 50, 5.0
"""Lines of all processes that are shown in so many seconds."""


class Printed(NamedTuple):
    """What was printed since the last time.

    Attributes:
        lines: the first lines.
        left_out: number of further lines.
    """

    lines: tuple[str, ...] = ()
    left_out: int = 0


NOTHING = Printed()


class PrintCollector:
    """Collects what is printed in this process, and in those that it forks.

    They write to a pipe. Nobody waits for it: lines for which it has no room are
    dropped.

    Args:
        name: name of this process, which begins each line.
    """

    def __init__(self, name: str) -> None:
        self._name, self._rest = name, b""
        self._source, sink = os.pipe()
        for end in (self._source, sink):
            os.set_blocking(end, False)
        self._sink = _DroppingPipe(sink)
        self._stream = io.TextIOWrapper(
            io.BufferedWriter(self._sink),
            encoding="utf-8",
            errors="backslashreplace",
            line_buffering=True,
        )

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        """Collect what is printed within the block, in all threads."""
        with contextlib.redirect_stdout(self._stream):
            yield

    def take(self) -> Printed:
        """Return the lines that were completed since the last call, without blanks."""
        *whole, self._rest = (self._rest + self._read()).split(b"\n")
        if len(self._rest) > _LONGEST:
            whole, self._rest = [*whole, self._rest], b""
        # Progress bars return to the start of a line and write it again.
        texts = [line.rstrip(b"\r").rpartition(b"\r")[2] for line in whole]
        lines = [text.decode(errors="replace").rstrip() for text in texts]
        lines = [line for line in lines if line]
        shown = (f"{self._name}: {_cut(line)}" for line in lines[:_MOST_LINES])
        left_out = len(lines[_MOST_LINES:]) + self._sink.dropped
        self._sink.dropped = 0
        return Printed((*shown,), left_out)

    def close(self) -> None:
        """Close the pipe; what was not taken is lost."""
        self._stream.close()
        os.close(self._source)

    def _read(self) -> bytes:
        """Return what is in the pipe."""
        parts = list[bytes]()
        with contextlib.suppress(BlockingIOError):
            while len(parts) < _READS:
                parts.append(os.read(self._source, _READ_BYTES))
        return b"".join(parts)


class _DroppingPipe(io.RawIOBase):
    """The end of a pipe to write to; what it has no room for is dropped.

    Attributes:
        dropped: number of lines that this process has dropped.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self.dropped = descriptor, 0

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: Any) -> int:
        written = 0
        with contextlib.suppress(BlockingIOError):
            written = os.write(self._descriptor, data)
        self.dropped += bytes(data[written:]).count(b"\n")
        return len(data)

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


@contextlib.contextmanager
def relaying_forks() -> Iterator[None]:
    """Let processes that are forked within the block print through this one.

    Where a table is shown in place, they would otherwise draw it again themselves.
    Elsewhere they keep the standard output that they have.
    """
    if not hasattr(sys.stdout, "rich_proxied_file"):
        yield
        return
    source, sink = os.pipe()

    def relay() -> None:
        with os.fdopen(source, errors="replace") as lines:
            for line in lines:
                print(line, end="")

    stream = os.fdopen(sink, "w", buffering=1, errors="backslashreplace")
    with stream, contextlib.redirect_stdout(stream):
        yield
    threading.Thread(target=relay, name="relay of prints", daemon=True).start()


class PrintLimit:
    """Lets through as many lines as one can read, and counts the others.

    Args:
        clock: function that returns the time, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._began, self._room = clock, clock(), _SHOWN
        self._lines: list[str] = []
        self._left_out = self._said = 0
        self._said_at = self._began - _SECONDS

    def add(self, printed: Printed) -> None:
        """Add what a process has printed."""
        now = self._clock()
        if now - self._began >= _SECONDS:
            self._began, self._room = now, _SHOWN
        shown = printed.lines[: self._room]
        self._room -= len(shown)
        self._lines += shown
        self._left_out += len(printed.lines) - len(shown) + printed.left_out

    def take(self) -> list[str]:
        """Return the lines to show since the last call.

        If lines are left out, the last one says how many so far, every 5 s at most.
        """
        lines, self._lines = self._lines, []
        is_due = self._clock() - self._said_at >= _SECONDS
        if self._left_out > self._said and is_due:
            self._said, self._said_at = self._left_out, self._clock()
            lines.append(f"Printed lines that are left out so far: {self._said:,}")
        return lines
