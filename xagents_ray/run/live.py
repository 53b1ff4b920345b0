"""What is shown in place, again and again: in a terminal or a notebook's cell."""

import importlib
import io
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live

_WIDTH = 100
"""Columns of what a notebook shows."""
_HTML = '<pre style="line-height: normal">{code}</pre>'


class CellOutput:
    """One output of a notebook's cell; saving the notebook keeps it.

    Rich's own Live would need widgets, which are not kept.
    """

    def __init__(self) -> None:
        self._display = importlib.import_module("IPython.display").display
        self._handle: Any = None

    def start(self) -> None:
        """Do nothing: the first update makes the output."""

    def stop(self) -> None:
        """Do nothing: the newest update stays."""

    def update(self, renderable: RenderableType, *, refresh: bool = False) -> None:
        """Show it in place of what the output had."""
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


def standard_output() -> Console:
    """Return a console that prints lines as `print` does, in a notebook too."""
    return Console(highlight=False, force_jupyter=False)


def live(console: Console) -> Live | CellOutput | None:
    """Return what shows something in place there; None where only lines can be."""
    if Console(file=console.file).is_jupyter:
        return CellOutput()
    return Live(console=console, auto_refresh=False) if console.is_terminal else None
