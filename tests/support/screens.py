"""Screens that are compared with stored ones; XAGENTS_RAY_SCREENS=write stores them."""

import os
from pathlib import Path

_SCREENS = Path(__file__).parents[1] / "data" / "screens"


def check_screen(name: str, text: str) -> None:
    """Compare a text with the screen of this name, except for spaces at line ends."""
    lines = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    path = _SCREENS / f"{name}.txt"
    if os.environ.get("XAGENTS_RAY_SCREENS") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(lines, encoding="utf-8")
    assert lines == path.read_text(encoding="utf-8")
