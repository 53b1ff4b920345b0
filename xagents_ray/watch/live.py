"""Output that is updated in place, in a terminal or a notebook's cell."""

import contextlib
import importlib
import io
import math
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live

from xagents_ray.core.errors import printable

_WIDTH = 100
"""Width of a notebook's output, in characters."""
_HTML = '<pre style="line-height: normal">{code}</pre>'


class CellOutput:
    """An output of a notebook's cell that is saved with the notebook.

    Rich's Live would need widgets, which are not saved.
    """

    def __init__(self) -> None:
        self._display = importlib.import_module("IPython.display").display
        self._handle: Any = None

    def start(self) -> None:
        """Do nothing; the first update creates the output."""

    def stop(self) -> None:
        """Do nothing; the last update stays."""

    def update(self, renderable: RenderableType, *, refresh: bool = False) -> None:
        """Replace the output by a renderable."""
        console = Console(
            record=True, file=io.StringIO(), width=_WIDTH, force_jupyter=False
        )
        console.print(renderable)
        text = console.export_text(clear=False)
        html = console.export_html(inline_styles=True, code_format=_HTML)
        data = {"text/plain": text, "text/html": html}
        if self._handle is None:
            self._handle = self._display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)


class LastingOutput:
    """A text stream that survives the loss of its reader, after a warning."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text if the stream still accepts it."""
        try:
            self._stream.write(text)
        except OSError as error:
            self._end(error)
        return len(text)

    def flush(self) -> None:
        """Flush the stream if it still accepts text."""
        try:
            self._stream.flush()
        except OSError as error:
            self._end(error)

    def _end(self, error: OSError) -> None:
        """Discard all further output, including what Python writes when it exits."""
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
        with contextlib.suppress(OSError):
            print(f"Warning: the display ends: {error.strerror}", file=sys.stderr)


def standard_output() -> Console:
    """Return a console that prints lines as `print` does, in a notebook too."""
    output: Any = LastingOutput(sys.stdout)
    return Console(file=output, highlight=False, force_jupyter=False)


def live_output(console: Console) -> Live | CellOutput | None:
    """Return an in-place output for a console; None if it only supports lines."""
    if Console(file=console.file).is_jupyter:
        return CellOutput()
    return Live(console=console, auto_refresh=False) if console.is_terminal else None


class Screen:
    """Shows a table in place, or plain lines; restores the terminal.

    Args:
        console: the console to print to; the standard output by default.
        quiet: whether to show nothing but warnings.
        lines_only: whether to print lines even if a table could be shown in place.
        refresh_seconds: seconds between two tables.
        line_seconds: seconds between two lines.
        waits: whether the first table or line waits for these seconds too.
    """

    def __init__(
        self,
        console: Console | None,
        *,
        quiet: bool,
        lines_only: bool = False,
        refresh_seconds: float,
        line_seconds: float,
        waits: bool = True,
    ) -> None:
        self.console, self.quiet = console or standard_output(), quiet
        self._live = None if quiet or lines_only else live_output(self.console)
        self._seconds = refresh_seconds if self._live else line_seconds
        self._shown = time.monotonic() if waits else -math.inf
        self._changed = time.monotonic()

    @property
    def is_live(self) -> bool:
        """Whether a table is shown in place."""
        return self._live is not None

    @property
    def may_tick(self) -> bool:
        """Whether a thread may refresh it, which a notebook does not expect."""
        return isinstance(self._live, Live)

    @property
    def seconds_unchanged(self) -> float:
        """Seconds since the newest table or line was shown."""
        return time.monotonic() - self._changed

    def __enter__(self) -> "Screen":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live:
            self._live.stop()

    def is_due(self) -> bool:
        """Return whether the next table or line is due; if so, restart the interval."""
        now = time.monotonic()
        if self.quiet or now - self._shown < self._seconds:
            return False
        self._shown = now
        return True

    def update(
        self, table: Callable[[], RenderableType], line: Callable[[], str]
    ) -> None:
        """Show a table in place, or print a line if that is impossible."""
        self._changed = time.monotonic()
        if self._live:
            self._live.update(table(), refresh=True)
        elif not self.quiet:
            self.note(line())

    def note(self, text: str) -> None:
        """Print a line above the live table."""
        if not self.quiet:
            self.console.print(printable(text), soft_wrap=True, markup=False)
